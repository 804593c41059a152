"""The file that a log comes to next, made by another thread while the one before it is being filled.

To make a file is to have the file system find a gigabyte of blocks, and to sync a directory: tenths of a second on a
disk that is busy, in which an owner that does it itself does nothing else (docs/performance.md). RocketMQ's
AllocateMappedFileService makes the next file ahead for the same reason, and as it does at its end, an owner that is
closed removes what it has not come to. What a crash leaves is a file of zeros behind the end of the log; recovery
removes it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rmqspark.store.log.segment import make_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.store.files import FileSystem


class NextFile:
    """One file of `length` bytes, with all its room on disk, that is to be at `path`."""

    def __init__(self, files: FileSystem, path: str, length: int) -> None:
        self._files = files
        self._length = length
        self._is_wanted = True
        self._is_made = False
        self._wait: Callable[[], object] = self.run
        self.path = path

    def begin(self, call: Callable[[NextFile], Callable[[], object]]) -> None:
        """`call` is to see to it that `run` is called, and no more than once, on whichever thread; what it returns
        waits for that, or does it where nobody has."""
        self._wait = call(self)

    def run(self) -> None:
        """Makes it, unless it is not wanted any more. What goes wrong is left to whoever needs the file, and makes it
        then."""
        if not self._is_wanted:
            return
        with suppress(OSError, MemoryError):
            make_file(self._files, self.path, self._length, reserve=True)
            self._files.sync_directory(self._directory)
            self._is_made = True

    def take(self) -> bool:
        """Whether the file is there, under a durable name; waits where it is being made. It is the caller's from now
        on, who makes it if it is not: it may have failed, or somebody have removed what seemed to be of no use."""
        self._wait()
        return self._is_made and self._files.exists(self.path)

    def stop(self) -> None:
        """Nobody is making it any more when this returns, and nobody will."""
        self._is_wanted = False
        self._wait()

    def remove(self) -> None:
        """After `stop`: it is gone for good when this returns. Raises OSError."""
        with suppress(FileNotFoundError):
            self._files.unlink(self.path)
            self._files.sync_directory(self._directory)

    @property
    def _directory(self) -> str:
        return self.path.rpartition("/")[0]

"""A file system in which nothing can be changed, for the parts of the store that would like to.

Files of fixed length are shown in that length: what was cut off reads as zeros. So a store that lost pieces can be
looked at with the very code that serves it, and stays as it is.
"""

from __future__ import annotations

from errno import EROFS
from os import strerror
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from rmqspark.store.files import Buffer, DiskUsage, File, FileSystem


class PaddedFile:
    """A file that ends at `length` at the earliest."""

    def __init__(self, file: File, length: int) -> None:
        self._file = file
        self._length = max(length, file.size())

    @property
    def path(self) -> str:
        return self._file.path

    def pread(self, size: int, offset: int) -> bytes:
        data = self._file.pread(size, offset)
        return data + bytes(min(size, max(0, self._length - offset)) - len(data))

    def pread_into(self, buffer: bytearray | memoryview, offset: int) -> int:
        filled = self._file.pread_into(buffer, offset)
        due = min(len(buffer), max(0, self._length - offset))
        if filled < due:
            memoryview(buffer)[filled:due] = bytes(due - filled)
        return due

    def next_data(self, offset: int) -> int:
        found = self._file.next_data(offset) if offset < self._file.size() else self._length
        return self._length if found >= self._file.size() else found

    def warm(self, start: int, end: int) -> None:
        """What is looked at is not written next."""

    def reserve(self, start: int, end: int) -> None:
        """Nothing will be written."""

    def forget(self, start: int, end: int) -> None:
        """Who looks at a store does not decide what its owner keeps in memory."""

    def send(self, descriptor: int, offset: int, size: int) -> int:
        """Nobody is served from it."""
        return 0

    def size(self) -> int:
        return self._length

    def close(self) -> None:
        self._file.close()

    def pwrite(self, data: Buffer | Sequence[Buffer], offset: int) -> NoReturn:
        _refuse(self.path)

    def fsync(self) -> NoReturn:
        _refuse(self.path)

    def truncate(self, size: int) -> NoReturn:
        _refuse(self.path)


class ReadOnlyFiles:
    """`files` to look at. `lengths` are those of fixed length, by the first directory of their path."""

    def __init__(self, files: FileSystem, lengths: Mapping[str, int]) -> None:
        self._files = files
        self._lengths = lengths

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> PaddedFile:
        return PaddedFile(self._files.open(path, read_only=True), self._lengths.get(path.partition("/")[0], 0))

    def within(self, directory: str | os.PathLike[str]) -> ReadOnlyFiles:
        return ReadOnlyFiles(self._files.within(directory), self._lengths)

    def listdir(self, path: str) -> list[str]:
        return self._files.listdir(path)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def is_directory(self, path: str) -> bool:
        return self._files.is_directory(path)

    def modified_ms(self, path: str) -> int:
        return self._files.modified_ms(path)

    def disk_usage(self, directory: str = "") -> DiskUsage:
        return self._files.disk_usage(directory)

    def boot_id(self) -> str:
        return self._files.boot_id()

    def make_root(self) -> NoReturn:
        _refuse("")

    def rename(self, source: str, target: str) -> NoReturn:
        _refuse(source)

    def unlink(self, path: str) -> NoReturn:
        _refuse(path)

    def make_directory(self, path: str) -> NoReturn:
        _refuse(path)

    def remove_directory(self, path: str) -> NoReturn:
        _refuse(path)

    def sync_directory(self, path: str) -> NoReturn:
        _refuse(path)

    def lock(self, path: str) -> NoReturn:
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise OSError(EROFS, strerror(EROFS), path)

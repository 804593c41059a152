"""The seam between the store and the disk: everything the store asks of files, and nothing else.

Whoever holds a `FileSystem` names files by paths relative to its root, with `/` between the parts; a path that would
leave the root is refused before the disk is touched. The store gets `PosixFileSystem` (`posix_files.py`); tests get
`rmqspark.testing.memory_files.MemoryFileSystem`, whose power can fail between any two calls.

Three promises the rest of the store builds on:

* A call does all of what it says or raises `OSError` (with `errno` set): there are no short writes to handle, and no
  short reads but at the end of a file. After a `pwrite` that raised, any part of its range may have changed; bytes
  outside the range have not.
* What was written is durable only after `File.fsync`, a name (made, moved, removed) only after
  `FileSystem.sync_directory` of the directory it is in. `make_directories` and `remove_tree` do their own syncing.
* A failed `fsync` is final: the kernel may have marked the pages clean, so calling it again proves nothing
  (reliability, G6). Whoever sees it stops writing.

Nothing here takes locks or starts threads. `File.fsync`, `warm` and `reserve` may be called from another thread than
the file's owner, and so may a file be made that nobody else has to do with (`next_file.py`).
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from rmqspark.errors import InvalidArgument, StoreLocked

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

Buffer: TypeAlias = bytes | bytearray | memoryview


class DiskUsage(NamedTuple):
    """Of the partition a file system lives on: what this user can use in all, and what of it is free."""

    total_bytes: int
    free_bytes: int


class File(Protocol):
    """An open file. Positions are passed with every call; there is no cursor."""

    @property
    def path(self) -> str:
        """The path it was opened under, for messages."""

    def pread(self, size: int, offset: int) -> bytes:
        """`size` bytes from `offset`; fewer only where the file ends."""

    def pread_into(self, buffer: bytearray | memoryview, offset: int) -> int:
        """Fills `buffer` from `offset` and returns how many bytes it got: fewer only where the file ends."""

    def next_data(self, offset: int) -> int:
        """Where, from `offset` on, the next bytes are that may differ from zero; the file's size if there are none.
        Cheap in a sparse file: what was never written is not looked at."""

    def pwrite(self, data: Buffer | Sequence[Buffer], offset: int) -> None:
        """Writes one buffer, or several back to back, at `offset`; the file grows as needed. All of it, or OSError."""

    def warm(self, start: int, end: int) -> None:
        """Has memory taken for [start, end), where nothing was written yet. Changes nothing; from any thread."""

    def reserve(self, start: int, end: int) -> None:
        """Has room on disk taken for [start, end) if there is plenty (`disk_room.py`). Changes nothing; from any
        thread."""

    def forget(self, start: int, end: int) -> None:
        """Nobody will read [start, end) again soon: what of it is on disk need not stay in memory. Changes nothing."""

    def send(self, descriptor: int, offset: int, size: int) -> int:
        """Hands [offset, offset + size) to a socket that does not block, uncopied, as far as it takes them now; returns
        how many bytes that was: 0, too, where this system can only read them."""

    def fsync(self) -> None:
        """Makes content and size durable (fdatasync): all that was written before the call."""

    def truncate(self, size: int) -> None:
        """Sets the length. Longer: the new bytes read as zero and take no room on disk until written."""

    def size(self) -> int:
        """The length in bytes."""

    def close(self) -> None:
        """Gives the file back. Does not fsync. Closing twice is allowed."""


class FileSystem(Protocol):
    """A directory tree. Paths are relative to its root; `""` is the root itself."""

    def within(self, directory: str | os.PathLike[str]) -> FileSystem:
        """The file system rooted at `directory`, which comes from the operator and may lie anywhere. Makes nothing."""

    def make_root(self) -> None:
        """Makes the root and what is missing above it; their names are durable when this returns."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Opens a regular file for reading and writing. Without `create` a missing one is FileNotFoundError."""

    def rename(self, source: str, target: str) -> None:
        """Moves a file in one step, replacing `target`."""

    def unlink(self, path: str) -> None:
        """Removes a file. Handles that are open on it keep working."""

    def make_directory(self, path: str) -> None:
        """Makes one directory (0700) in an existing one; no error if it is there."""

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""

    def listdir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of that name."""

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory of that name."""

    def modified_ms(self, path: str) -> int:
        """When the content of a file last changed, wall clock (what RocketMQ's retention goes by)."""

    def sync_directory(self, path: str) -> None:
        """Makes the names in a directory durable as they are now."""

    def lock(self, path: str) -> File:
        """Creates and locks a file until the handle is closed or the process ends; StoreLocked if another has it."""

    def disk_usage(self, directory: str = "") -> DiskUsage:
        """Room on the partition of the root, or of a directory in it, which may be mounted there or a link. Of one that
        is not there yet it is the root's."""

    def boot_id(self) -> str:
        """Names the time since the machine was last started; "" where that is not known. Under the same name nothing
        that was written is lost, synced or not: a process can be killed, the page cache stays."""


def make_directories(files: FileSystem, path: str, note_name: Callable[[str], object] | None = None) -> None:
    """Makes `path` with all directories above it; their names are durable when this returns. With `note_name`, which is
    told of each directory that has a new name in it, they need not be."""
    note_name = note_name or files.sync_directory
    parent = ""
    for name in path.split("/"):
        directory = f"{parent}/{name}" if parent else name
        if not files.exists(directory):
            files.make_directory(directory)
            note_name(parent)
        parent = directory


def write_whole(files: FileSystem, path: str, content: bytes) -> None:
    """A file of just this, whatever it was; on disk when this returns, though not yet under its name for sure."""
    with closing(files.open(path, create=True)) as file:
        file.truncate(0)
        file.pwrite(content, 0)
        file.fsync()


def read_whole(files: FileSystem, path: str) -> bytes:
    """All that is in a file. Raises OSError."""
    with closing(files.open(path, read_only=True)) as file:
        return file.pread(file.size(), 0)


def remove_tree(files: FileSystem, path: str) -> None:
    """Removes a directory and all in it; durable when this returns. A crash in between leaves a smaller tree."""
    for name in files.listdir(path):
        entry = f"{path}/{name}"
        if files.is_directory(entry):
            remove_tree(files, entry)
        else:
            files.unlink(entry)
    files.remove_directory(path)
    files.sync_directory(path.rpartition("/")[0])


def check_path(path: str) -> str:
    """Returns `path` if it stays below the root it is relative to, else raises InvalidArgument."""
    parts = path.split("/")
    if path and ("\0" in path or any(part in ("", ".", "..") for part in parts)):
        raise InvalidArgument(f"{path!r} does not name a file inside the store.")
    return path


def locked(root: str) -> StoreLocked:
    """The error of a lock that another has."""
    return StoreLocked(
        f"The store {root} is open in another process.",
        hint="Stop the other broker, or give this one another store directory.",
    )


def as_buffers(data: Buffer | Sequence[Buffer]) -> list[memoryview]:
    """What `File.pwrite` takes, as flat views of bytes, empty ones left out."""
    several = [data] if isinstance(data, bytes | bytearray | memoryview) else data
    views = (memoryview(buffer).cast("B") for buffer in several if len(buffer))
    return list(views)

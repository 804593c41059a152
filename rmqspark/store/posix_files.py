"""The operating system's files, as the store's seam to the disk (`files.py`) wants them."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
from contextlib import closing
from errno import EACCES, EAGAIN, EINVAL, EIO, EISDIR, ENOTSUP, ENXIO
from pathlib import Path
from typing import TYPE_CHECKING

from rmqspark.store import disk_room
from rmqspark.store.files import DiskUsage, as_buffers, check_path, locked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.store.files import Buffer

_MOST_BUFFERS_PER_WRITE = 1024  # IOV_MAX of Linux and macOS; pwritev refuses more
# Of one system call. The kernel takes memory for a file in pieces as large as what is written at once. Large ones are
# of memory that nobody has used for long, and that the host of a virtual machine may have taken back: two megabytes at
# a time cost 2.4 s a gigabyte on such a machine, 512 KiB 0.8, 64 KiB 0.4. Where memory is at hand, these pieces cost
# least (docs/performance.md).
_WRITE_BYTES = 256 << 10
_FIRST_BYTE = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)  # Linux's struct flock: exclusive
_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700


class PosixFile:
    """An open file of the operating system. Its errors say which file it is, as the system's own do not of a file that
    is open, and where in it something could not be read."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def pread(self, size: int, offset: int) -> bytes:
        try:
            data = os.pread(self._fd, size, offset)
            while 0 < len(data) < size:  # the kernel hands out at most 2 GiB at once
                more = os.pread(self._fd, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise self._named(error, offset) from error
        return data

    def pread_into(self, buffer: bytearray | memoryview, offset: int) -> int:
        view = memoryview(buffer).cast("B")
        filled = 0
        try:
            while filled < len(view):
                got = os.preadv(self._fd, [view[filled:]], offset + filled)
                if got == 0:
                    break
                filled += got
        except OSError as error:
            raise self._named(error, offset + filled) from error
        return filled

    def next_data(self, offset: int) -> int:
        try:
            return os.lseek(self._fd, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == ENXIO:  # nothing but a hole up to the end
                return self.size()
            if error.errno in (EINVAL, ENOTSUP):  # a file system that knows no holes
                return offset
            raise

    def pwrite(self, data: Buffer | Sequence[Buffer], offset: int) -> None:
        try:
            self._pwrite(data, offset)
        except OSError as error:
            raise self._named(error) from error

    def _pwrite(self, data: Buffer | Sequence[Buffer], offset: int) -> None:
        if isinstance(data, bytes | bytearray) and len(data) <= _WRITE_BYTES:  # the way of single sends: one call
            written = os.pwrite(self._fd, data, offset)
            if written == len(data):
                return
            data, offset = memoryview(data)[written:], offset + written
        pending = as_buffers(data)
        while pending:
            written = os.pwritev(self._fd, _first_of(pending, _WRITE_BYTES - offset % _WRITE_BYTES), offset)
            if written == 0:
                raise OSError(EIO, "the disk takes no bytes and names no error")
            offset += written
            pending = _without_first(pending, written)

    def warm(self, start: int, end: int) -> None:
        if sys.platform == "linux":
            _read_through(f"/proc/self/fd/{self._fd}", start, end)

    def reserve(self, start: int, end: int) -> None:
        disk_room.reserve(self._fd, start, end)

    def forget(self, start: int, end: int) -> None:
        if sys.platform == "linux":
            os.posix_fadvise(self._fd, start, end - start, os.POSIX_FADV_DONTNEED)

    def send(self, descriptor: int, offset: int, size: int) -> int:
        return os.sendfile(descriptor, self._fd, offset, size) if sys.platform == "linux" else 0

    def fsync(self) -> None:
        try:
            _sync_content(self._fd)
        except OSError as error:
            raise self._named(error) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise self._named(error) from error

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _named(self, error: OSError, offset: int | None = None) -> OSError:
        where = "" if offset is None else f" at byte {offset}"
        return OSError(error.errno, f"{error.strerror}{where}", self.path)


class PosixFileSystem:
    """The operating system's files below `root`. Its files are 0600, its directories 0700; links are not followed
    where a file is opened, so a link planted in the store leads nowhere."""

    def __init__(self, root: str | os.PathLike[str] = ".") -> None:
        self._root = Path(root)

    def within(self, directory: str | os.PathLike[str]) -> PosixFileSystem:
        return PosixFileSystem(self._root / directory)

    def make_root(self) -> None:
        missing = [path for path in (self._root, *self._root.absolute().parents) if not path.exists()]
        for directory in reversed(missing):
            directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
            _sync_directory(directory.absolute().parent)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> PosixFile:
        flags = os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_RDONLY if read_only else os.O_RDWR)
        fd = os.open(self._at(path), flags | (os.O_CREAT if create else 0), _FILE_MODE)
        if read_only and stat.S_ISDIR(os.fstat(fd).st_mode):  # for writing, the system itself refuses directories
            os.close(fd)
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), path)
        return PosixFile(path, fd)

    def rename(self, source: str, target: str) -> None:
        os.rename(self._at(source), self._at(target))

    def unlink(self, path: str) -> None:
        os.unlink(self._at(path))

    def make_directory(self, path: str) -> None:
        Path(self._at(path)).mkdir(mode=_DIRECTORY_MODE, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        os.rmdir(self._at(path))

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(self._at(path)))

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._at(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(self._at(path))

    def modified_ms(self, path: str) -> int:
        return os.stat(self._at(path)).st_mtime_ns // 1_000_000

    def sync_directory(self, path: str) -> None:
        _sync_directory(self._at(path))

    def lock(self, path: str) -> PosixFile:
        file = self.open(path, create=True)
        try:
            _lock_first_byte(file._fd)
        except OSError as error:
            file.close()
            if error.errno in (EACCES, EAGAIN):
                raise locked(str(self._root)) from None
            raise
        return file

    def is_locked(self, path: str) -> bool:
        """Whether another process, RocketMQ's too, has locked that file now. Takes no lock and changes nothing."""
        if sys.platform != "linux":
            return False  # nobody can tell without taking it
        with closing(self.open(path, read_only=True)) as file:
            answer = fcntl.fcntl(file._fd, fcntl.F_OFD_GETLK, _FIRST_BYTE)
        (kind,) = struct.unpack_from("@h", answer)
        return bool(kind != fcntl.F_UNLCK)

    def disk_usage(self, directory: str = "") -> DiskUsage:
        # Used + usable, as RocketMQ's UtilAll counts: the blocks kept for root are nobody's room.
        try:
            blocks = os.statvfs(self._root / directory)
        except FileNotFoundError:
            blocks = os.statvfs(self._root)
        usable = blocks.f_blocks - blocks.f_bfree + blocks.f_bavail
        return DiskUsage(usable * blocks.f_frsize, blocks.f_bavail * blocks.f_frsize)

    def boot_id(self) -> str:
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:  # not Linux
            return ""

    def _at(self, path: str) -> str:
        return os.path.join(self._root, check_path(path))


def _first_of(buffers: list[memoryview], most_bytes: int) -> list[memoryview]:
    """The first bytes of these buffers."""
    if len(buffers[0]) >= most_bytes:
        return [buffers[0][:most_bytes]]
    chosen: list[memoryview] = []
    for buffer in buffers[:_MOST_BUFFERS_PER_WRITE]:
        chosen.append(buffer[:most_bytes])
        most_bytes -= len(chosen[-1])
        if not most_bytes:
            break
    return chosen


def _without_first(buffers: list[memoryview], size: int) -> list[memoryview]:
    for index, view in enumerate(buffers):
        if size < len(view):
            return [view[size:], *buffers[index + 1 :]]
        size -= len(view)
    return []


def _read_through(path: str, start: int, end: int) -> None:
    """Reads [start, end) to no purpose but that its pages are there. Told that nothing else will be read, the kernel
    takes single pages, not large pieces (see `_WRITE_BYTES`): hence the handle of its own."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        room = memoryview(bytearray(_WRITE_BYTES))
        for at in range(start, end, _WRITE_BYTES):
            os.preadv(fd, [room[: end - at]], at)
    finally:
        os.close(fd)


def _sync_content(fd: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync of macOS stops at the drive's own cache
    else:
        os.fdatasync(fd)


def _sync_directory(path: str | os.PathLike[str]) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _lock_first_byte(fd: int) -> None:
    """Locks what RocketMQ's broker locks (the first byte), so that the two keep each other out.

    Linux has locks that belong to the open file and still exclude Java's, which belong to the process; with the latter
    kind alone, a second store opened by this process would succeed.
    """
    if sys.platform == "linux":
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FIRST_BYTE)
    else:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)

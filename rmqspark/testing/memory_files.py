"""A file system in memory whose process can be killed, whose power can fail, and whose disk can refuse.

```python
files = MemoryFileSystem()
files.fail_next("fsync")                      # the next fsync raises EIO; its pages are clean and on no disk
files.stop_at(7)                              # the process dies in its 7th operation (ProcessDied)
files.kill()                                  # the next process finds all that the last one wrote
files.crash(SystemEntropy(seed=3))            # after a power loss: what was synced, and some of the rest
```
"""

from __future__ import annotations

import posixpath
from contextlib import contextmanager
from errno import EBADF, EEXIST, EINVAL, EISDIR, ENOENT, ENOSPC, ENOTDIR, ENOTEMPTY
from os import strerror
from typing import TYPE_CHECKING

from rmqspark.store.files import Buffer, DiskUsage, as_buffers, check_path, locked
from rmqspark.testing.disk_faults import CHANGES, DiskFaults, Failure, Operation, ProcessDied
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_disk import PAGE_BYTES, Directory, Inode, NameTree, Node

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterator, Sequence

    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy

_UNBOUNDED_BYTES = 1 << 40  # what disk_usage calls the size of a disk without a budget


class _Machine:
    """What all views of one memory file system share."""

    def __init__(self, clock: Clock, budget_bytes: int | None) -> None:
        self.clock = clock
        self.budget_bytes = budget_bytes
        self.faults = DiskFaults()
        self.names = NameTree()
        self.boot = 0  # handles of an earlier boot are dead
        self.power_cuts = 0
        self.locked: set[Inode] = set()
        self.bytes_read = 0

    def used_bytes(self) -> int:
        return PAGE_BYTES * sum(inode.page_count for inode in self.names.inodes())

    def room_pages(self) -> int | None:
        """How many more pages the budget allows; None without one."""
        if self.budget_bytes is None:
            return None
        return max(0, self.budget_bytes - self.used_bytes()) // PAGE_BYTES

    def begin(self, operation: str, path: str) -> None:
        failure = self.faults.before(operation, path)
        if failure is not None:
            raise failure.error

    def restart(self) -> None:
        self.boot += 1
        self.locked.clear()
        self.faults.restart()


class MemoryFile:
    """An open file of a memory file system."""

    def __init__(self, machine: _Machine, path: str, inode: Inode, *, read_only: bool) -> None:
        self.path = path
        self._machine = machine
        self._boot = machine.boot
        self._inode: Inode | None = inode
        self._read_only = read_only

    def pread(self, size: int, offset: int) -> bytes:
        content = self._content
        self._machine.begin("pread", self.path)
        data = content.read(size, offset)
        self._machine.bytes_read += len(data)
        return data

    def pread_into(self, buffer: bytearray | memoryview, offset: int) -> int:
        view = memoryview(buffer).cast("B")
        data = self.pread(len(view), offset)
        view[: len(data)] = data
        return len(data)

    def next_data(self, offset: int) -> int:
        content = self._content
        self._machine.begin("pread", self.path)
        return content.next_data(offset)

    def warm(self, start: int, end: int) -> None:
        """All of it is memory."""

    def reserve(self, start: int, end: int) -> None:
        """Memory is given page by page."""

    def forget(self, start: int, end: int) -> None:
        """It has to stay: there is no disk below."""

    def send(self, descriptor: int, offset: int, size: int) -> int:
        """Sockets take memory from whoever has it."""
        return 0

    def pwrite(self, data: Buffer | Sequence[Buffer], offset: int) -> None:
        wanted = memoryview(b"".join(as_buffers(data)))
        if not wanted:
            return
        content = self._writable_content(EBADF)
        failure = self._machine.faults.before("pwrite", self.path)
        allowed = wanted if failure is None else wanted[: failure.after_bytes]
        written = content.write(allowed, offset, self._machine.room_pages()) if allowed else 0
        content.modified_ms = self._machine.clock.now_ms()
        if failure is not None:
            raise failure.error
        if written < len(wanted):
            raise _error(ENOSPC, self.path)

    def fsync(self) -> None:
        content = self._content
        failure = self._machine.faults.before("fsync", self.path)
        if failure is None:
            content.sync()
            return
        if isinstance(failure.error, OSError):
            content.fail_sync()
        raise failure.error

    def truncate(self, size: int) -> None:
        content = self._writable_content(EINVAL)
        self._machine.begin("truncate", self.path)
        content.truncate(size)
        content.modified_ms = self._machine.clock.now_ms()

    def size(self) -> int:
        return self._content.size

    def close(self) -> None:
        if self._inode is not None and self._boot == self._machine.boot:
            self._machine.locked.discard(self._inode)
        self._inode = None

    @property
    def _content(self) -> Inode:
        if self._inode is None or self._boot != self._machine.boot:
            raise _error(EBADF, self.path)
        return self._inode

    def _writable_content(self, refusal: int) -> Inode:
        if self._read_only:
            raise _error(refusal, self.path)
        return self._content


class MemoryFileSystem:
    """A `FileSystem` in memory. Files are sparse; a disk budget, where given, counts 4 KiB pages."""

    def __init__(self, *, clock: Clock | None = None, budget_bytes: int | None = None) -> None:
        self._machine = _Machine(clock or ManualClock(), budget_bytes)
        self._root = "/"

    # --- what tests do to it

    @property
    def log(self) -> Sequence[Operation]:
        """The operations so far, the newest last."""
        return self._machine.faults.log

    @property
    def failed(self) -> Operation | None:
        """What the newest failure of those planned has met; None while `fail_at` or `stop_at` waits for it."""
        return self._machine.faults.failed

    @property
    def has_died(self) -> bool:
        """Whether the process has met its planned end, and was not yet killed for it."""
        return self._machine.faults.is_dead

    @property
    def bytes_read(self) -> int:
        """How many bytes were read from all files so far."""
        return self._machine.bytes_read

    def fail_next(self, operation: str, error: OSError | None = None, *, after_bytes: int = 0) -> None:
        """The next `operation` raises `error` (EIO). A pwrite has then written `after_bytes`; a failed fsync leaves its
        pages clean and not durable. Called again it plans for the operation after that."""
        self._machine.faults.fail_next(operation, error, after_bytes=after_bytes)

    def fail_at(self, count: int, error: OSError, *, after_bytes: int = 0, counted: Collection[str] = CHANGES) -> None:
        """The `count`-th of the operations in `counted` from now on (1 is the next) raises `error`."""
        self._machine.faults.fail_at(count, Failure(error, after_bytes), counted)

    def stop_at(self, count: int, *, after_bytes: int = 0, counted: Collection[str] = CHANGES) -> None:
        """The process dies in the `count`-th of these operations, and in all after it, until `kill` or `crash`."""
        self._machine.faults.fail_at(count, Failure(ProcessDied(), after_bytes), counted)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """What the test itself does meanwhile meets no failure, and none that is planned is used up."""
        faults, self._machine.faults = self._machine.faults, DiskFaults()
        try:
            yield
        finally:
            self._machine.faults = faults

    def heal(self) -> None:
        """Cancels every failure that is planned and has not happened yet."""
        self._machine.faults.cancel()

    def kill(self) -> None:
        """Ends the process: its handles are dead, its locks free; the page cache, and so every write, stays."""
        self._machine.restart()

    def crash(self, entropy: Entropy | None = None) -> None:
        """Cuts the power: of what was not synced survives what `entropy` picks, without it nothing."""
        self._machine.restart()
        self._machine.power_cuts += 1
        self._machine.names.crash(entropy)

    def set_budget(self, budget_bytes: int | None) -> None:
        """Makes the disk larger or smaller, even smaller than what is on it. None: without bound."""
        self._machine.budget_bytes = budget_bytes

    def wipe(self) -> None:
        """Everything that was on it is gone, its log as well. For when nobody uses it any more."""
        self._machine.names = NameTree()
        self._machine.faults.log.clear()

    # --- FileSystem

    def within(self, directory: str | os.PathLike[str]) -> MemoryFileSystem:
        view = MemoryFileSystem.__new__(MemoryFileSystem)
        view._machine = self._machine
        view._root = posixpath.normpath(posixpath.join(self._root, directory))
        return view

    def make_root(self) -> None:
        directory = self._machine.names.root
        for name in _parts(self._root):
            if name not in directory.entries:
                self._machine.names.link(directory, name, Directory())
                self._machine.names.sync(directory)
            directory = _directory(directory.entries[name], name)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        directory, name = self._parent(path)
        is_new = create and name not in directory.entries
        self._machine.begin("create" if is_new else "open", path)
        if is_new:
            self._machine.names.link(directory, name, Inode(self._machine.clock.now_ms()))
        return MemoryFile(self._machine, path, _inode(self._node(path), path), read_only=read_only)

    def rename(self, source: str, target: str) -> None:
        (old, old_name), (new, new_name) = self._parent(source), self._parent(target)
        self._machine.begin("rename", source)
        node = self._node(source)
        if (there := new.entries.get(new_name)) is not None and there is not node:
            _check_replaceable(node, there, target)
        if there is not node:
            self._machine.names.move(old, old_name, new, new_name)

    def unlink(self, path: str) -> None:
        directory, name = self._parent(path)
        self._machine.begin("unlink", path)
        _inode(self._node(path), path)
        self._machine.names.unlink(directory, name)

    def make_directory(self, path: str) -> None:
        directory, name = self._parent(path)
        self._machine.begin("make_directory", path)
        there = directory.entries.get(name)
        if there is None:
            self._machine.names.link(directory, name, Directory())
        elif not isinstance(there, Directory):
            raise _error(EEXIST, path)

    def remove_directory(self, path: str) -> None:
        directory, name = self._parent(path)
        self._machine.begin("remove_directory", path)
        if _directory(self._node(path), path).entries:
            raise _error(ENOTEMPTY, path)
        self._machine.names.unlink(directory, name)

    def listdir(self, path: str) -> list[str]:
        self._machine.begin("listdir", path)
        return sorted(_directory(self._node(path), path).entries)

    def exists(self, path: str) -> bool:
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_directory(self, path: str) -> bool:
        return self.exists(path) and isinstance(self._node(path), Directory)

    def modified_ms(self, path: str) -> int:
        return _inode(self._node(path), path).modified_ms

    def sync_directory(self, path: str) -> None:
        self._machine.begin("sync_directory", path)
        self._machine.names.sync(_directory(self._node(path), path))

    def lock(self, path: str) -> MemoryFile:
        self._machine.begin("lock", path)
        file = self.open(path, create=True)
        inode = _inode(self._node(path), path)
        if inode in self._machine.locked:
            raise locked(self._root)
        self._machine.locked.add(inode)
        return file

    def disk_usage(self, directory: str = "") -> DiskUsage:
        total = _UNBOUNDED_BYTES if self._machine.budget_bytes is None else self._machine.budget_bytes
        return DiskUsage(total, max(0, total - self._machine.used_bytes()))

    def boot_id(self) -> str:
        return f"boot-{self._machine.power_cuts}"

    def _node(self, path: str) -> Node:
        node: Node = self._machine.names.root
        for name in (*_parts(self._root), *_parts(check_path(path))):
            entries = _directory(node, path).entries
            if name not in entries:
                raise _error(ENOENT, path)
            node = entries[name]
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        above, _, name = check_path(path).rpartition("/")
        return _directory(self._node(above), path), name


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _directory(node: Node, path: str) -> Directory:
    if isinstance(node, Directory):
        return node
    raise _error(ENOTDIR, path)


def _inode(node: Node, path: str) -> Inode:
    if isinstance(node, Inode):
        return node
    raise _error(EISDIR, path)


def _check_replaceable(node: Node, there: Node, path: str) -> None:
    if isinstance(there, Directory):
        if not isinstance(node, Directory):
            raise _error(EISDIR, path)
        if there.entries:
            raise _error(ENOTEMPTY, path)
    elif isinstance(node, Directory):
        raise _error(ENOTDIR, path)


def _error(number: int, path: str) -> OSError:
    return OSError(number, strerror(number), path)

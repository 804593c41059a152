"""One file of fixed length, and the set of them that is open or has bytes not yet on disk.

A segment is made in its full length, sparse or with its room on disk, and never gets shorter, so a reader in another
process never meets an end that moves. Unwritten bytes read as zero.

Who knows what is on disk: a segment counts its writes. A sync notes the count when it begins; when it has ended, the
segment is clean if the count is still the same. So writes may go on while another thread runs the fsync.
"""

from __future__ import annotations

import sys
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.errors import DamagedFile
from rmqspark.store.files import make_directories

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqspark.store.files import Buffer, File, FileSystem

_ZERO_BLOCK_BYTES = 4096
_ZERO_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_ZERO_BLOCK_BYTES)


class Segment:
    """The bytes [base, base + length) of a segment log. Positions (`at`) are relative to `base`."""

    __slots__ = ("_file", "_files", "base", "length", "may_be_sent", "path", "writes", "writes_synced")

    def __init__(self, files: SegmentFiles, path: str, base: int, length: int) -> None:
        self._files = files
        self._file: File | None = None
        self.path = path
        self.base = base
        self.length = length
        self.writes = 0
        self.writes_synced = 0
        self.may_be_sent = True  # uncopied: nobody has failed to read it

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes; raises DamagedFile if the file has been shortened under us, or deleted."""
        data = self._file_to_read().pread(size, at)
        if len(data) < size:
            raise DamagedFile(f"{self.path} ends before {at + size}, its length should be {self.length}.")
        return data

    def read_into(self, buffer: bytearray | memoryview, at: int) -> None:
        if self._file_to_read().pread_into(buffer, at) < len(buffer):
            raise DamagedFile(f"{self.path} ends before {at + len(buffer)}, its length should be {self.length}.")

    def send(self, descriptor: int, at: int, size: int) -> int:
        """See `File.send`; raises DamagedFile where there is no file any more."""
        return self._file_to_read().send(descriptor, at, size)

    def write(self, data: Buffer | Sequence[Buffer], at: int) -> None:
        """All of it or OSError; after an error any byte of the range may have changed."""
        self.touch()
        self.file().pwrite(data, at)

    def writing(self, data: Buffer | Sequence[Buffer], at: int) -> Callable[[], None]:
        """The same, for any thread to do, before anything else is done with the segment."""
        self.touch()
        return partial(self.file().pwrite, data, at)

    def is_zero(self, start: int, end: int) -> bool:
        """Whether [start, end) reads as zeros."""
        return next(self._chunks_not_zero(start, end), None) is None

    def zero(self, start: int, end: int) -> None:
        """Makes [start, end) read as zeros. Only blocks that are not zero are written: a sparse file stays sparse,
        and what a full disk refused to take can be cleared although the disk is full. The blocks are those of the file:
        one that lay across two of these would want room for the second, which nothing was written to."""
        for chunk_start, chunk in self._chunks_not_zero(start, end):
            at = 0
            while at < len(chunk):
                size = min(_ZERO_BLOCK_BYTES - (chunk_start + at) % _ZERO_BLOCK_BYTES, len(chunk) - at)
                if chunk[at : at + size] != _ZEROS[:size]:
                    self.write(_ZEROS[:size], chunk_start + at)
                at += size

    def rewrite(self, start: int, end: int) -> None:
        """Writes [start, end) once more as it is, so that the next fsync covers it: after one that failed, the system
        may take pages for clean that are on no disk."""
        for chunk_start, chunk in self._chunks_not_zero(start, end):
            self.write(chunk, chunk_start)

    def _chunks_not_zero(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        file = self.file()
        while (start := file.next_data(start)) < end:
            chunk = self.read(start, min(_ZERO_CHUNK_BYTES, end - start))
            if chunk != bytes(len(chunk)):
                yield start, chunk
            else:  # what is read ahead of it would pass for data, be read, and so on through all that is reserved
                file.forget(start, end)
            start += len(chunk)

    @property
    def is_dirty(self) -> bool:
        """Whether it has bytes that may not be on disk."""
        return self.writes != self.writes_synced

    def touch(self) -> None:
        """Counts a write: the segment has bytes that may not be on disk, and is open until they are."""
        self.file()  # first: where it cannot be opened, nothing is written that a flush would look for
        if not self.is_dirty:
            self._files.note_unsynced(self)
        self.writes += 1

    def file(self) -> File:
        """The open file; opened when it is first needed."""
        if self._file is None:
            self._file = self._files.opened(self)
        return self._file

    def _file_to_read(self) -> File:
        try:
            return self.file()
        except FileNotFoundError as error:
            raise DamagedFile(f"{self.path} is not there any more.") from error

    def close(self) -> None:
        """Gives the file back; a later call opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


class SyncTarget(NamedTuple):
    """A segment to be synced, with the count of writes that the sync will cover."""

    files: SegmentFiles
    segment: Segment
    file: File
    writes: int

    def sync(self) -> None:
        """May be called from any thread. Raises OSError if this fsync fails, or one of these files' has."""
        if self.files.failure is not None:
            raise self.files.failure
        self.file.fsync()


class NewNames(NamedTuple):
    """Directories with names in them that may not be durable."""

    files: FileSystem
    directories: Sequence[str]

    def sync(self) -> None:
        """May be called from any thread. A directory that was removed since has no names. Raises OSError."""
        for directory in self.directories:
            with suppress(FileNotFoundError):
                self.files.sync_directory(directory)


def make_file(files: FileSystem, path: str, length: int, *, reserve: bool) -> None:
    """Makes a file of full length, sparse or with all its room on disk. May be called from any thread."""
    with closing(files.open(path, create=True)) as file:
        file.truncate(length)
        if reserve:
            file.reserve(0, length)


class SegmentFiles:
    """The open files of one kind of segments. Where `capacity` are open, one more takes the place of the one that has
    been clean for longest.

    One with unsynced bytes is kept, since an error of a late write-back is reported to the handle that wrote. But where
    `most_unsynced` are open, the first that nobody else is syncing is synced here and now, and closed. If that fails,
    it is as final as in a flush: nothing is tried again, and the next flush of these files ends with that `failure`.
    So there are no more than the larger of the two, and one while a flush is at all of them, until a flush fails.

    With `names_wait` a first file, and the directories made for it, have durable names only after a flush that takes
    them along (`begin_names`): of files that can be made again from others, thousands may be new at a time.
    """

    def __init__(
        self, files: FileSystem, capacity: int, most_unsynced: int = sys.maxsize, *, names_wait: bool = False
    ) -> None:
        self._files = files
        self._capacity = capacity
        self._most_unsynced = most_unsynced
        self._clean: dict[Segment, None] = {}  # each that is open is in one of these three
        self._dirty: dict[Segment, None] = {}
        self._syncing: dict[Segment, None] = {}
        self._close_after_sync: list[File] = []
        self._names_wait = names_wait
        self._new_names: dict[str, None] = {}  # the directories that have some
        self.failure: OSError | None = None

    @property
    def open_count(self) -> int:
        """How many are open."""
        return len(self._clean) + len(self._dirty) + len(self._syncing)

    def make_first(self, path: str, length: int) -> None:
        """Makes a sparse file of full length, with the directories above it; their names are durable when this returns,
        unless these wait."""
        note_name = self._note_name if self._names_wait else self._files.sync_directory
        directory = path.rpartition("/")[0]
        make_directories(self._files, directory, note_name)
        make_file(self._files, path, length, reserve=False)
        note_name(directory)

    def make(self, path: str, length: int, *, reserve: bool) -> None:
        """Makes a file of full length, sparse or with all its room on disk; its name is durable when this returns."""
        make_file(self._files, path, length, reserve=reserve)
        self._files.sync_directory(path.rpartition("/")[0])

    def begin_names(self) -> NewNames:
        """The names that are not durable yet. `sync` may be called from another thread; it is not tried again."""
        names = NewNames(self._files, list(self._new_names))
        self._new_names.clear()
        return names

    def _note_name(self, directory: str) -> None:
        self._new_names[directory] = None

    def opened(self, segment: Segment) -> File:
        """Opens a segment's file; where many are open, another is closed."""
        if self.open_count >= self._capacity:
            self._close_one()
        file = self._files.open(segment.path)
        (self._dirty if segment.is_dirty else self._clean)[segment] = None
        return file

    def note_unsynced(self, segment: Segment) -> None:
        """One that is open, and has no unsynced bytes, is going to have some."""
        del self._clean[segment]
        self._dirty[segment] = None

    def remove(self, segment: Segment) -> None:
        """Deletes the file, unless somebody has. One that another thread is syncing stays open until that has ended."""
        with suppress(FileNotFoundError):
            self._files.unlink(segment.path)
        self._clean.pop(segment, None)
        self._dirty.pop(segment, None)
        if segment in self._syncing:
            del self._syncing[segment]
            self._close_after_sync.append(segment.file())
        else:
            segment.close()

    def begin_sync(self) -> list[SyncTarget]:
        """What is not on disk yet. Each target's `sync` may be called from another thread."""
        self._syncing |= self._dirty
        self._dirty = {}
        return [SyncTarget(self, segment, segment.file(), segment.writes) for segment in self._syncing]

    def end_sync(self, targets: Sequence[SyncTarget]) -> None:
        """All targets were synced."""
        for _, segment, _, writes in targets:
            segment.writes_synced = writes
            if segment.writes == writes and segment in self._syncing:
                del self._syncing[segment]
                self._clean[segment] = None
        self.abandon_sync()
        while self.open_count > max(self._capacity, self._most_unsynced) and self._close_one():
            pass

    def abandon_sync(self) -> None:
        """The sync is over, whatever came of it."""
        self._dirty |= self._syncing
        self._syncing = {}
        for file in self._close_after_sync:
            file.close()
        self._close_after_sync.clear()

    def close(self) -> None:
        for segment in (*self._clean, *self._dirty, *self._syncing):
            segment.close()
        for kind in (self._clean, self._dirty, self._syncing):
            kind.clear()

    def _close_one(self) -> bool:
        """Whether there was one."""
        if not self._clean and self.open_count >= self._most_unsynced and self.failure is None:
            self._sync_one()
        segment = next(iter(self._clean), None)
        if segment is None:
            return False
        del self._clean[segment]
        segment.close()
        return True

    def _sync_one(self) -> None:
        """Brings one to the disk, unless they are all being synced."""
        segment = next(iter(self._dirty), None)
        if segment is None:
            return
        try:
            segment.file().fsync()
        except OSError as error:
            self.failure = error
            return
        segment.writes_synced = segment.writes
        del self._dirty[segment]
        self._clean[segment] = None

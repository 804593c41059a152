"""An endless run of bytes in files of fixed length, each named by the position of its first byte (20 digits).

RocketMQ's MappedFileQueue without the maps. Both the commit log and the consume queues are one of these; neither
knows files, and this knows nothing of what is in them.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

from rmqspark.errors import DamagedFile, StoreError
from rmqspark.store.log.next_file import NextFile
from rmqspark.store.log.segment import Segment, SegmentFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.store.files import Buffer, FileSystem

_WORTH_FORGETTING_BYTES = 64 << 10  # less is not worth the call
_NAME = re.compile(r"\d{20}", re.ASCII)


class SegmentLog:
    """Reads and writes by position over all segments of a directory."""

    def __init__(self, files: FileSystem, segment_files: SegmentFiles, directory: str, segment_bytes: int) -> None:
        self._files = files
        self._segment_files = segment_files
        self._segments: dict[int, Segment] = {}  # by base, ascending; a damaged store may lack one in the middle
        self._short: list[tuple[int, int]] = []  # bases of files that lost their end, and how many bytes they have
        self.lost_ends: list[tuple[int, int]] = []
        """Ranges [start, end) that files had lost when they were loaded, and that read as zeros now."""
        self._next: NextFile | None = None
        self.directory = directory
        self.segment_bytes = segment_bytes

    def load(self) -> None:
        """Finds the segments that are there, and changes nothing. A file that lost its end, or all of it, can be read
        when it has been given back its length (`fill_up`); one that is too long is a StoreError.

        RocketMQ deletes an empty last file. But where those before it have expired, its name is all that tells how far
        the log had come: without it every offset would be given a second time.
        """
        if not self._files.exists(self.directory):
            return
        names = [name for name in self._files.listdir(self.directory) if _NAME.fullmatch(name)]
        for name in names:
            self._load_one(name)

    def _load_one(self, name: str) -> None:
        path, base = f"{self.directory}/{name}", int(name)
        try:
            file = self._files.open(path)
        except FileNotFoundError:  # its owner has removed it since it was listed
            return
        try:
            size = file.size()
            if base % self.segment_bytes or size > self.segment_bytes:
                raise StoreError(
                    f"{path} has {size} bytes, but this store is configured for files of {self.segment_bytes}.",
                    hint="Set the mapped_file_size of this kind of file to what the store was made with.",
                )
        finally:
            file.close()
        self._segments[base] = Segment(self._segment_files, path, base, self.segment_bytes)
        if size < self.segment_bytes:
            self._short.append((base, size))

    def fill_up(self) -> None:
        """Gives files that lost their end their length back; the rest reads as zeros. Once all files of the store are
        known to have the lengths they are configured for: else those of another setting would be lengthened before one
        says so, and not fit that setting any more."""
        while self._short:
            base, size = self._short[-1]
            with closing(self._files.open(self._path(base))) as file:
                file.truncate(self.segment_bytes)
            self.lost_ends.append((base + size, base + self.segment_bytes))
            self._short.pop()

    def sync_names(self) -> None:
        """Makes it durable that the files are there: a process that was killed may have made them and not got as far as
        that, and this one would lose them with all that it writes, however often it syncs the files. Raises OSError."""
        if self._segments:
            self._files.sync_directory(self.directory)

    def __bool__(self) -> bool:
        return bool(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        """The segments, oldest first."""
        return iter(list(self._segments.values()))

    @property
    def start(self) -> int:
        """The position of the oldest byte; 0 if there are no segments."""
        return next(iter(self._segments), 0)

    @property
    def capacity_end(self) -> int:
        """The end of the newest segment; 0 if there are none."""
        return next(reversed(self._segments)) + self.segment_bytes if self._segments else 0

    def gaps_below(self, position: int) -> Iterator[tuple[int, int]]:
        """The ranges [start, end) between the first segment and a position for which there is none."""
        end = self.start
        for segment in self:
            if end < min(segment.base, position):
                yield end, min(segment.base, position)
            end = segment.base + segment.length
        if end < position:
            yield end, position

    def segment_at(self, position: int) -> Segment | None:
        """The segment that holds the byte at `position`."""
        return self._segments.get(position - position % self.segment_bytes)

    def held(self, position: int) -> Segment:
        """The segment that holds the byte at `position`; raises DamagedFile where it is missing."""
        segment = self.segment_at(position)
        if segment is None:
            raise DamagedFile(f"{self.directory} has no file for position {position}.")
        return segment

    def read(self, position: int, size: int) -> bytes:
        """`size` bytes; raises DamagedFile where a segment is missing."""
        at = position % self.segment_bytes
        if at + size <= self.segment_bytes:
            return self.held(position).read(at, size)
        buffer = bytearray(size)
        self.read_into(memoryview(buffer), position)
        return bytes(buffer)

    def read_into(self, buffer: memoryview, position: int) -> None:
        """Fills `buffer` from `position` on; raises DamagedFile where a segment is missing."""
        while buffer:
            at = position % self.segment_bytes
            part = buffer[: self.segment_bytes - at]
            self.held(position).read_into(part, at)
            buffer, position = buffer[len(part) :], position + len(part)

    def forget(self, start: int, end: int) -> None:
        """Nobody will read [start, end), which lies in one segment, again soon; see `File.forget`."""
        if end - start >= _WORTH_FORGETTING_BYTES:
            at = start % self.segment_bytes
            self.held(start).file().forget(at, at + end - start)

    def write(self, data: Buffer, position: int) -> None:
        """Writes `data`, one write per segment, making segments as needed."""
        at = position % self.segment_bytes
        if at + len(data) <= self.segment_bytes:
            self.segment_for(position).write(data, at)
            return
        view = memoryview(data)
        while view:
            at = position % self.segment_bytes
            part = view[: self.segment_bytes - at]
            self.segment_for(position).write(part, at)
            view, position = view[len(part) :], position + len(part)

    def segment_for(self, position: int) -> Segment:
        """The segment that holds `position`; made if it is not there yet (only ever at the end)."""
        base = position - position % self.segment_bytes
        segment = self._segments.get(base)
        return segment if segment is not None else self._make(base)

    def is_zero_from(self, position: int) -> bool:
        """Whether nothing but zeros is written from `position` on, and no segment begins behind it."""
        segment = self.segment_at(position)
        if self.capacity_end > position + self.segment_bytes - position % self.segment_bytes:
            return False
        return segment is None or segment.is_zero(position - segment.base, segment.length)

    def has_bytes_from(self, position: int) -> bool:
        """Whether anything but zeros is written from `position` on, in whichever segment."""
        starts = ((segment, max(0, position - segment.base)) for segment in self)
        return any(start < segment.length and not segment.is_zero(start, segment.length) for segment, start in starts)

    def cut(self, position: int) -> None:
        """Makes everything from `position` on read as zeros, durably, and deletes the segments that begin behind it.
        Without that, bytes of discarded records could pass for new ones (reliability, G3)."""
        self.remove_next()
        for segment in reversed(list(self)):
            if segment.base > position:
                self._remove(segment)
            elif segment.base + segment.length > position:
                segment.zero(position - segment.base, segment.length)
                segment.file().fsync()  # of zeros that were there, too: whoever wrote them may not have got as far
        if self._segments:
            self._files.sync_directory(self.directory)

    def drop_before(self, position: int) -> list[str]:
        """Deletes segments that end at or before `position`, but never the newest; returns their paths."""
        old = [segment for segment in self if segment.base + segment.length <= position]
        if old and old[-1].base + self.segment_bytes == self.capacity_end:
            old.pop()
        for segment in old:
            self._remove(segment)
            self._files.sync_directory(self.directory)  # each for itself: a power loss must not leave a gap
        return [segment.path for segment in old]

    def drop_short(self) -> None:
        """Deletes files that lost their end, but not the newest: after a `fill_up` in their stead and a crash there
        would be zeros that nobody knows of. That a file is missing is noticed."""
        newest = next(reversed(self._segments), None)
        for base in [base for base, _ in self._short if base != newest]:
            self._remove(self._segments[base])
        self._short = [(base, size) for base, size in self._short if base == newest]

    def clear(self) -> None:
        """Deletes all segments; the directory stays."""
        self.remove_next()
        for segment in self:
            self._remove(segment)

    # --- the file behind the newest one

    @property
    def has_next(self) -> bool:
        """Whether somebody was told to make it."""
        return self._next is not None

    def begin_next(self) -> NextFile:
        """It is to be made by whoever runs this, and is found made when it is needed."""
        self._next = NextFile(self._files, self._path(self.capacity_end), self.segment_bytes)
        return self._next

    def stop_next(self) -> None:
        """Nobody is making it any more when this returns, and nobody will: the directory may be another's then."""
        if self._next is not None:
            self._next.stop()

    def remove_next(self) -> None:
        """It is not needed, now that the log is closed or ends elsewhere. Raises OSError."""
        if self._next is not None:
            self._next.stop()
            self._next.remove()
            self._next = None

    def _is_made_ahead(self, path: str) -> bool:
        if self._next is None:
            return False
        if self._next.path != path:
            self.remove_next()
            return False
        made, self._next = self._next, None
        return made.take()

    # ---

    def _path(self, base: int) -> str:
        return f"{self.directory}/{base:020d}"

    def _make(self, base: int) -> Segment:
        path = self._path(base)
        if not self._segments:
            self._segment_files.make_first(path, self.segment_bytes)
        elif not self._is_made_ahead(path):
            follows_a_full_one = self.capacity_end == base  # so this one will be filled, too
            self._segment_files.make(path, self.segment_bytes, reserve=follows_a_full_one)
        segment = Segment(self._segment_files, path, base, self.segment_bytes)
        self._segments[base] = segment
        return segment

    def _remove(self, segment: Segment) -> None:
        self._segment_files.remove(segment)
        del self._segments[segment.base]

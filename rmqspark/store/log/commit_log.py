"""The commit log: records one after another, never across files (spec: storage, sections 2 and 2.1).

A file that cannot take the next record and eight more bytes is closed with a blank record. `place` decides that for
any number of records at once; `CommitLog` carries it out and, where a write fails, puts the tail back before anything
else happens, so that no reader and no recovery ever finds half of what was refused.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import DamagedFile, InvalidMessage, MessageNotFound, NotWritable, RecordError
from rmqspark.protocol.records.record import (
    BLANK_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_BYTES,
    SIZE_MAGIC_PLACE,
    blank_record,
    decode_record,
)
from rmqspark.store.disk_errors import advice
from rmqspark.store.log.segment import Segment
from rmqspark.store.log.segment_log import SegmentLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rmqspark.store.files import Buffer, FileSystem
    from rmqspark.store.log.segment import SegmentFiles

_INT32_MAX: Final = 2**31 - 1
_BUFFERS: Final = (bytes, bytearray, memoryview)


class Placement(NamedTuple):
    """Records `first` to `last - 1` lie one after another from `physical_offset` on; `blank_bytes`, where not 0, is
    what is left of the file behind them, to be closed with a blank record."""

    first: int
    last: int
    physical_offset: int
    blank_bytes: int


def place(ends: Sequence[int], position: int, segment_bytes: int, *, together: bool = False) -> list[Placement]:
    """Where records go whose sizes add up to `ends` (running totals), the log ending at `position`.

    With `together` all go into one file. Raises InvalidMessage if some can never fit.
    """
    count = len(ends)
    if count and ends[-1] + BLANK_BYTES <= segment_bytes - position % segment_bytes:
        return [Placement(0, count, position, 0)]
    placements: list[Placement] = []
    done = placed_bytes = 0
    while done < count:
        room = segment_bytes - position % segment_bytes
        fit = bisect_right(ends, placed_bytes + room - BLANK_BYTES, lo=done)
        if together and fit < count:
            fit = done
        if fit == done and room == segment_bytes:
            raise InvalidMessage(f"A commit log file of {segment_bytes} bytes cannot take these messages in one piece.")
        chunk_bytes = (int(ends[fit - 1]) if fit else 0) - placed_bytes
        blank_bytes = room - chunk_bytes if fit < count else 0
        placements.append(Placement(done, fit, position, blank_bytes))
        position += chunk_bytes + blank_bytes
        placed_bytes += chunk_bytes
        done = fit
    return placements


class CommitLog:
    """Appends and reads records by physical offset. `end_offset` is where the next append begins."""

    def __init__(self, files: FileSystem, segment_files: SegmentFiles, directory: str, segment_bytes: int) -> None:
        self.segments = SegmentLog(files, segment_files, directory, segment_bytes)
        self.end_offset = 0
        self.flushed_offset = 0  # everything below is on disk
        self._untidy_end = 0  # a failed write may have left bytes from end_offset up to here

    @property
    def min_offset(self) -> int:
        """The oldest physical offset there is."""
        return self.segments.start

    @property
    def segment_bytes(self) -> int:
        return self.segments.segment_bytes

    @property
    def room(self) -> int:
        """How many bytes of records the file at the end of the log still takes."""
        return self.segment_bytes - self.end_offset % self.segment_bytes - BLANK_BYTES

    def place(self, ends: Sequence[int], *, together: bool = False) -> list[Placement]:
        """Where records would go now whose sizes add up to `ends`."""
        return place(ends, self.end_offset, self.segment_bytes, together=together)

    def write(
        self,
        pieces: Iterable[tuple[Placement, Buffer | Sequence[Buffer]]],
        put: Callable[[Segment, Buffer | Sequence[Buffer], int], None] = Segment.write,
    ) -> None:
        """Writes placed records, one write per file touched, each done by `put`.

        All of it becomes part of the log, or nothing: raises NotWritable with the tail put back.
        """
        self.tidy()
        end = self.end_offset
        try:
            for placement, records in pieces:
                start = placement.physical_offset
                end = start + _size(records)
                if placement.blank_bytes:
                    records = _with_blank(records, placement.blank_bytes)
                self._untidy_end = end + BLANK_BYTES
                segment = self.segments.segment_for(start)
                put(segment, records, start - segment.base)
        except OSError as error:
            self._give_up(error)
        self._untidy_end = 0
        self.end_offset = end

    def tidy(self) -> None:
        """Does `clear_tail`. Raises NotWritable while the disk refuses that too."""
        try:
            self.clear_tail()
        except OSError as error:
            raise NotWritable(f"The commit log's tail cannot be put right after a failed write: {error}.") from error

    def clear_tail(self) -> None:
        """Clears what a failed write left behind, if anything. Raises OSError."""
        if not self._untidy_end:
            return
        for segment in self.segments:
            start, end = max(self.end_offset, segment.base), min(self._untidy_end, segment.base + segment.length)
            if start < end:
                segment.zero(start - segment.base, end - segment.base)
        self._untidy_end = 0

    def begin_at(self, physical_offset: int) -> None:
        """Has a log without records begin here."""
        self.segments.clear()  # a file that nothing was written to
        self.end_offset = self.flushed_offset = physical_offset

    def cut(self, physical_offset: int) -> None:
        """Ends the log at a record's begin, durably; what was behind it reads as zeros. Raises OSError."""
        self.segments.cut(physical_offset)
        self.end_offset = physical_offset
        self.flushed_offset = min(self.flushed_offset, physical_offset)

    def read_record(self, physical_offset: int, most_bytes: int = _INT32_MAX) -> bytes:
        """The record at `physical_offset`; MessageNotFound if none begins there, of at most so many bytes."""
        head = self._read_inside(physical_offset, MIN_RECORD_BYTES)
        size, magic, place = SIZE_MAGIC_PLACE.unpack_from(head)
        is_possible = magic in (MAGIC_V1, MAGIC_V2) and MIN_RECORD_BYTES <= size <= most_bytes
        if not is_possible or place != physical_offset:
            raise MessageNotFound(f"No message begins at physical offset {physical_offset}.")
        return self._read_inside(physical_offset, size)

    def earliest_timestamp_ms(self) -> int:
        """When the oldest record was stored; -1 where none can be read."""
        try:
            return decode_record(self.read_record(self.min_offset), check_crc=False).store_timestamp_ms
        except (MessageNotFound, RecordError, DamagedFile):
            return -1

    def _read_inside(self, physical_offset: int, size: int) -> bytes:
        room = self.segment_bytes - physical_offset % self.segment_bytes
        is_inside = self.min_offset <= physical_offset and physical_offset + size <= self.end_offset
        if not is_inside or size > room or self.segments.segment_at(physical_offset) is None:
            raise MessageNotFound(f"No message begins at physical offset {physical_offset}.")
        return self.segments.read(physical_offset, size)

    def _give_up(self, error: OSError) -> None:
        refusal = NotWritable(f"The commit log cannot be written: {error}.", hint=advice(error))
        try:
            self.tidy()
        except NotWritable as untidy:
            raise untidy from error  # the next append tries again, and is refused as long as that fails
        raise refusal from error


def _size(records: Buffer | Sequence[Buffer]) -> int:
    return len(records) if isinstance(records, _BUFFERS) else sum(map(len, records))


def _with_blank(records: Buffer | Sequence[Buffer], blank_bytes: int) -> list[Buffer]:
    buffers = [records] if isinstance(records, _BUFFERS) else list(records)
    return [*buffers, blank_record(blank_bytes)]

"""The consume queue: for each message of a queue, in order, where it lies in the log (spec: storage, section 3).

An entry is 20 bytes: physical offset (8), size of the record (4), code of its tags (8). Entry n stands at byte 20 n, so
a queue offset needs no search. Queues are derived from the log and can be made again from it.

Two kinds of entries stand for no message, both with size 0x7FFFFFFF. *Blank* ones, physical offset 0, lie before the
first message of a queue that starts in the middle, up to the beginning of its file; RocketMQ writes the same. *Lost*
ones keep the place of messages whose records are damaged; their physical offset is where the damage begins, so the
physical offsets of a queue never fall.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.errors import DamagedFile
from rmqspark.protocol.records.record import topic_field
from rmqspark.store.config import CONSUME_QUEUE_ENTRY_BYTES
from rmqspark.store.queues.write_behind import WaitingTail

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from rmqspark.store.files import Buffer
    from rmqspark.store.log.segment_log import SegmentLog

    Entries = NDArray[Any]  # of ENTRY_DTYPE

ENTRY: Final = Struct(">qiq")
ENTRY_DTYPE: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
ENTRY_BYTES: Final = CONSUME_QUEUE_ENTRY_BYTES
NO_MESSAGE_SIZE: Final = 0x7FFFFFFF


class ConsumeQueue:
    """One queue of one topic. Offsets are queue offsets; `min_offset` ≤ readable < `max_offset` ≤ `next_offset`.

    `next_offset` is what the next append gets; it runs ahead of `max_offset` while messages wait for their flush.
    `delay_ms` is not 0 for queues of the delay topic: their entries carry the deliver time instead of a tags code.
    `tail` is what waits in memory of `segments`; for a queue that is only read, nothing.
    """

    __slots__ = (
        "delay_ms",
        "max_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "segments",
        "tail",
        "topic",
        "topic_field",
    )

    def __init__(self, segments: SegmentLog, topic: str, queue_id: int, tail: WaitingTail | None = None) -> None:
        self.tail = WaitingTail() if tail is None else tail
        self.topic = topic
        self.topic_field = topic_field(topic)
        self.queue_id = queue_id
        self.delay_ms = 0
        self.segments = segments
        self.min_offset = 0
        self.max_offset = 0
        self.next_offset = 0

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}/{self.queue_id} [{self.min_offset}, {self.max_offset})>"

    @property
    def entries_per_segment(self) -> int:
        """How many entries a file has."""
        return self.segments.segment_bytes // ENTRY_BYTES

    @property
    def first_offset(self) -> int:
        """The offset of the oldest entry there is, blank ones included."""
        return self.segments.start // ENTRY_BYTES

    def entries(self, start: int, end: int) -> Entries:
        """Entries [start, end) as a read-only structured array; the caller stays within what is written."""
        data = self.segments.read(start * ENTRY_BYTES, (end - start) * ENTRY_BYTES)
        return np.frombuffer(data, ENTRY_DTYPE)

    def entry(self, offset: int) -> tuple[int, int, int]:
        """(physical offset, size, tags code) of one entry."""
        return ENTRY.unpack(self.segments.read(offset * ENTRY_BYTES, ENTRY_BYTES))

    def put(self, queue_offset: int, entries: Buffer) -> int:
        """Writes consecutive entries from `queue_offset` on and makes them readable; returns how many were new.

        Those that are there already are skipped, so dispatching a record twice does no harm. A queue that is new may
        start anywhere; in one that is not, the places between are kept for messages that were lost.
        """
        repeated = max(0, self.max_offset - queue_offset)
        count = len(entries) // ENTRY_BYTES - repeated
        if count <= 0:
            return 0
        if queue_offset > self.max_offset:
            self._skip_to(queue_offset)
        if repeated:
            queue_offset, entries = self.max_offset, memoryview(entries)[repeated * ENTRY_BYTES :]
        self.segments.write(entries, queue_offset * ENTRY_BYTES)
        self.max_offset = queue_offset + count
        if self.next_offset < self.max_offset:
            self.next_offset = self.max_offset
        return count

    def clear(self) -> None:
        """Deletes its files. Raises OSError; then it begins with what is left."""
        try:
            self.segments.clear()
        finally:
            self.min_offset = max(self.min_offset, self.first_offset)

    def hide(self) -> None:
        """Has it begin where it ends, and give the next offset again that a message got which is not to be in it."""
        self.min_offset = self.next_offset = self.max_offset

    def begin_anew(self) -> None:
        """Forgets all entries: the topic was deleted, and made again."""
        self.segments.clear()
        self.end_at(0)

    def leads_into(self, damage_start: int, damage_end: int) -> bool:
        """Whether it has messages in a damaged range of the log that are not marked as lost yet."""
        start, end = self.first_at_or_after(damage_start), self.first_at_or_after(damage_end)
        return start < end and any(self.entry(at)[1] != NO_MESSAGE_SIZE for at in (start, end - 1))

    def mark_lost(self, damage_start: int, damage_end: int) -> int:
        """Turns the entries of messages in a damaged range of the log into lost ones; returns how many."""
        start, end = self.first_at_or_after(damage_start), self.first_at_or_after(damage_end)
        if start < end:
            lost = ENTRY.pack(damage_start, NO_MESSAGE_SIZE, 0) * (end - start)
            self.segments.write(lost, start * ENTRY_BYTES)
        return end - start

    def first_at_or_after(self, physical_offset: int) -> int:
        """The first offset whose message lies at or after `physical_offset`; `max_offset` if none does."""
        offsets = range(self.first_offset, self.max_offset)
        return offsets.start + bisect_left(offsets, True, key=lambda at: not self._lies_before(at, physical_offset))

    def next_place(self, offset: int) -> int:
        """The first offset behind this one whose entry leads elsewhere, as far as that can be told: all messages that
        were lost together have one place, and there may be millions."""
        try:
            return max(offset + 1, self.first_at_or_after(self.entry(offset)[0] + 1))
        except DamagedFile:
            return offset + 1

    def follow_log_start(self, log_min_offset: int) -> None:
        """Sets `min_offset` to the first message still in the log; to `max_offset` if none is, so that the highest
        offset ever given is not forgotten."""
        if self.min_offset < self.first_offset:
            self.min_offset = self.first_offset
        if self.min_offset < self.max_offset and self._lies_before(self.min_offset, log_min_offset):
            self.min_offset = self.first_at_or_after(log_min_offset)

    def drop_expired(self) -> list[str]:
        """Deletes files all of whose messages are gone from the log, never the newest; returns their paths."""
        return self.segments.drop_before(self.min_offset * ENTRY_BYTES)

    def end_physical_offset(self) -> int:
        """The end of the newest message in the log; 0 if the queue has none."""
        if self.max_offset <= self.first_offset:
            return 0
        physical_offset, size, _ = self.entry(self.max_offset - 1)
        return physical_offset if size == NO_MESSAGE_SIZE else physical_offset + size

    # --- what recovery asks

    def mend_gaps(self, log_min_offset: int) -> None:
        """Where a file is missing between two others, all behind it goes, where the log has any of the missing one
        still: all is put in again. Where it has not, the files before have expired, too, and go, so that no offset is
        given twice. One that lost its end is as good as missing."""
        self.segments.drop_short()
        self.segments.fill_up()
        for before, behind in pairwise(self.segments):
            end = before.base + before.length
            if behind.base == end:
                continue
            physical_offset, size, _ = self.entry(end // ENTRY_BYTES - 1)
            if size <= 0:
                return  # a crash took what was written last: the queue ends before
            next_there, next_size, _ = self.entry(behind.base // ENTRY_BYTES)
            last_end = physical_offset + (size if size != NO_MESSAGE_SIZE else 0)
            missing_end = next_there if next_size > 0 else last_end
            if missing_end >= log_min_offset:
                self.segments.cut(end)
                return
            self.segments.drop_before(behind.base)

    def may_lack_its_start(self, log_min_offset: int) -> bool:
        """Whether a file may be missing before its first one: where files have expired, or the queue began in the
        middle, the first entry is nearly always that of an expired message, or blank."""
        if not self.first_offset:
            return False
        return self.entry(self.first_offset)[1] <= 0 or not self._lies_before(self.first_offset, log_min_offset)

    def has_written_behind(self, offset: int, *, thorough: bool) -> bool:
        """Whether there are entries from `offset` on. Unless a power loss may have kept any mixture of them
        (`thorough`), the very next one tells."""
        position = offset * ENTRY_BYTES
        if position >= self.segments.capacity_end:
            return False
        if thorough:
            return not self.segments.is_zero_from(position)
        return any(self.segments.read(position, ENTRY_BYTES))

    def newest_message(self) -> int | None:
        """Where the newest message lies that is in it, or if none is, one of those that are written into its files;
        None if there are none, either."""
        for offset in range(self.max_offset - 1, self.first_offset - 1, -1):
            physical_offset, size, _ = self.entry(offset)
            if 0 < size < NO_MESSAGE_SIZE:
                return physical_offset
        for segment in self.segments:
            entries = np.frombuffer(segment.read(0, segment.length), ENTRY_DTYPE)
            written = entries[(entries["size"] > 0) & (entries["size"] < NO_MESSAGE_SIZE)]
            if len(written):
                return int(written[-1]["physical_offset"])
        return None

    def cut(self, offset: int) -> None:
        """Ends the queue at `offset` and zeroes what is written behind it, durably."""
        self.end_at(offset)
        self.segments.cut(offset * ENTRY_BYTES)

    def find_end_below(self, physical_offset: int) -> None:
        """Ends the queue behind its last entry for a message below `physical_offset`.

        Entries of messages below it are known to be on disk, one after another; what follows may be entries of later
        messages, or zeros, or (after a power loss) any mixture of both. In this order the search cannot be misled.
        """
        offsets = range(self.first_offset, self.segments.capacity_end // ENTRY_BYTES)
        known = bisect_left(offsets, True, key=lambda at: not self._is_entry_below(at, physical_offset))
        self.end_at(offsets.start + known)

    def end_at(self, offset: int) -> None:
        """Has it end before `offset`, whatever its files hold behind."""
        self.max_offset = self.next_offset = offset
        self.min_offset = min(self.min_offset, offset)

    def _is_entry_below(self, offset: int, physical_offset: int) -> bool:
        try:
            entry_offset, size, _ = self.entry(offset)
        except DamagedFile:
            return False  # its file is missing
        return size > 0 and 0 <= entry_offset < physical_offset

    def _lies_before(self, offset: int, physical_offset: int) -> bool:
        entry_offset, size, _ = self.entry(offset)
        return entry_offset < physical_offset or (entry_offset == 0 and size == NO_MESSAGE_SIZE)

    def _skip_to(self, queue_offset: int) -> None:
        if self.max_offset > self.first_offset:
            lost = ENTRY.pack(self.end_physical_offset(), NO_MESSAGE_SIZE, 0) * (queue_offset - self.max_offset)
            self.segments.write(lost, self.max_offset * ENTRY_BYTES)
            return
        self.segments.clear()
        first_entry = queue_offset - queue_offset % self.entries_per_segment
        blanks = ENTRY.pack(0, NO_MESSAGE_SIZE, 0) * (queue_offset - first_entry)
        if blanks:
            self.segments.write(blanks, first_entry * ENTRY_BYTES)
        self.min_offset = queue_offset

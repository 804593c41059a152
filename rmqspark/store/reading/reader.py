"""Reading a queue: entries say where its messages lie, the collector brings them.

Offsets, statuses and limits are RocketMQ's DefaultMessageStore.getMessage (spec: requests, code 11). Entries whose
messages are damaged or gone are stepped over.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Required, TypedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from rmqspark.errors import DamagedFile, OffsetMoved
from rmqspark.protocol.records.record import MIN_RECORD_BYTES, SIZE_MAGIC_PLACE
from rmqspark.store.queues.consume_queue import ENTRY_BYTES, ENTRY_DTYPE
from rmqspark.store.reading.collect import Collector
from rmqspark.store.reading.filtered_scan import FilteredScan, Found, Limits, RecordFilter
from rmqspark.store.reading.log_regions import LogRegion, regions_of
from rmqspark.store.reading.wanted_entries import ELSEWHERE_BELOW, as_wanted, has_message, rows_wanted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queue import ConsumeQueue, Entries
    from rmqspark.store.queues.consume_queues import ConsumeQueues

_FEWEST_SCANNED: Final = 16_000 // ENTRY_BYTES
_MOST_SCANNED_IN_BULK: Final = 1 << 20
_WINDOW_ENTRIES: Final = 1 << 15
_WINDOW_WORTH_A_LOOK: Final = 1 << 10  # at the size of the first message, if large ones leave most of it unused
_CLOSE_ENTRIES: Final = 1 << 13
_MOST_BYTES_TOGETHER: Final = 8 << 20
_GAP_BRIDGED_FOR_FEW: Final = 32 << 10  # one more piece costs as much as reading that, where pieces are few and small
_NO_BYTES: Final = np.empty(0, np.uint8)
_NOWHERE: Final = np.empty(0, np.int64)


class ReadStatus(Enum):
    """How a read went, under the names that travel in the remark of a pull's answer (RocketMQ's GetMessageStatus)."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"


class ReadResult(msgspec.Struct, frozen=True, gc=False):
    """`count` records back to back in `body`, and where to read on."""

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    count: int = 0
    body: bytes | memoryview = b""


class BulkReadResult(msgspec.Struct, frozen=True, gc=False):
    """Records back to back in `body`, or in `regions` of the log where it has any; their `sizes` (int32), and where to
    read on."""

    next_offset: int
    min_offset: int
    max_offset: int
    sizes: NDArray[np.int32]
    body: memoryview
    regions: Sequence[LogRegion] = ()


class Scattered(NamedTuple):
    """Records back to back in `body`, and their sizes."""

    sizes: Positions
    body: memoryview


class Wanted(TypedDict, total=False):
    """What a read may bring: so many messages, so many bytes, these tags, or what a filter accepts."""

    max_count: Required[int]
    max_bytes: Required[int]
    tag_codes: frozenset[int] | None
    record_filter: RecordFilter | None


class _Selection(NamedTuple):
    """What was chosen among the entries from the start of a scan up to `next_offset`."""

    next_offset: int
    physical_offsets: Positions
    sizes: Positions
    all_gone: bool  # there were entries, but none of them has a message any more


class Reader:
    """Reads messages by queue offset."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, collector: Collector) -> None:
        self._log = log
        self._queues = queues
        self._collector = collector
        self._scattered = Collector(log.segments, bridged_gap_bytes=_GAP_BRIDGED_FOR_FEW)

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None = None,
        record_filter: RecordFilter | None = None,
    ) -> ReadResult:
        """What a pull is answered with, by tags, or by `record_filter`, which reads the messages it looks at. The first
        message that fits is always returned."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        if (outside := _status_outside(queue, queue_offset)) is not None:
            status, next_offset = outside
            return ReadResult(status, next_offset, queue.min_offset, queue.max_offset)
        scanned_end = min(queue.max_offset, queue_offset + max(_FEWEST_SCANNED, max_count))
        if record_filter is not None:
            limits = Limits(max_count, max_bytes)
            return self._read_filtered(queue, queue_offset, scanned_end, limits, record_filter)
        try:
            is_one = scanned_end - queue_offset == 1 or max_count == 1
            if is_one and (record := self._read_one(queue, queue_offset, tag_codes)):
                return ReadResult(ReadStatus.FOUND, queue_offset + 1, queue.min_offset, queue.max_offset, 1, record)
            chosen = self._select(queue, queue_offset, scanned_end, Limits(max_count, max_bytes), tag_codes)
        except DamagedFile:
            return _result_beyond_damage(queue, queue_offset)
        return _result(queue, self._collect(chosen))

    def read_bulk(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        end_offset: int,
        *,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None = None,
        record_filter: RecordFilter | None = None,
        unchecked: bool = False,
    ) -> BulkReadResult:
        """The messages of [queue_offset, end_offset) as far as the limits allow, at least one if there is any.

        With tags, a call looks at about a million entries at most, with a filter at some thousands: nothing may be
        found although `next_offset` is below `end_offset`; read on from there. With `unchecked` they may be told by
        where they lie, and be damaged (`log_regions.py`). Raises OffsetMoved below the queue's first message.
        """
        queue = self._queues.get(topic, queue_id)
        low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
        if queue_offset < low:
            raise OffsetMoved(
                f"Offset {queue_offset} of {topic}/{queue_id} is gone; the first there is, is {low}.", next_offset=low
            )
        end = min(end_offset, high, queue_offset + _MOST_SCANNED_IN_BULK)
        if queue is None or queue_offset >= end:
            return BulkReadResult(queue_offset, low, high, np.empty(0, np.int32), memoryview(b""))
        limits = Limits(max_count, max_bytes)
        if record_filter is not None:
            found = self._scan(queue, queue_offset, end, limits, record_filter)
        else:
            chosen = self._select(queue, queue_offset, end, limits, tag_codes)
            regions = regions_of(self._log.segments, chosen.physical_offsets, chosen.sizes) if unchecked else None
            if regions is not None:
                sizes = chosen.sizes.astype(np.int32)
                return BulkReadResult(chosen.next_offset, low, high, sizes, memoryview(b""), regions)
            found = self._collect(chosen)
        return BulkReadResult(found.next_offset, low, high, found.sizes.astype(np.int32), found.body.data)

    def read_at_offsets(self, topic: str, queue_id: int, queue_offsets: Sequence[int]) -> Scattered | None:
        """The messages at these offsets, which rise: neighbours in the log are read together. None unless all are
        there, sound, and not too large for that."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offsets[0] <= queue_offsets[-1] < queue.max_offset:
            return None
        try:
            entries = _entries_at(queue, queue_offsets)
            if len(rows_wanted(self._log, entries, None)[0]) < len(queue_offsets):
                return None
            sizes = entries["size"].astype(np.int64)
            if int(sizes.sum()) > _MOST_BYTES_TOGETHER:
                return None
            body, _, sound = self._scattered.collect_sound(entries["physical_offset"].astype(np.int64), sizes)
        except DamagedFile:
            return None
        return Scattered(sizes, body.data) if sound.all() else None

    def _read_one(self, queue: ConsumeQueue, queue_offset: int, tag_codes: frozenset[int] | None) -> bytes | None:
        """The record of one entry; None if it has none with these tags, or one that is not of its place. What a waiting
        pull is answered with: arrays of one element would cost three times as much."""
        physical_offset, size, tags_code = queue.entry(queue_offset)
        if not has_message(self._log, physical_offset, size):
            return None
        if tag_codes is not None and not _may_be_one_of(tags_code, tag_codes):
            return None
        record = self._log.segments.read(physical_offset, size)
        stored_size, _, stored_offset = SIZE_MAGIC_PLACE.unpack_from(record)
        return record if (stored_size, stored_offset) == (size, physical_offset) else None

    def _read_filtered(
        self, queue: ConsumeQueue, queue_offset: int, end: int, limits: Limits, record_filter: RecordFilter
    ) -> ReadResult:
        """Within one file of the queue, of which the first entry shows whether it is there."""
        try:
            queue.entry(queue_offset)
        except DamagedFile:
            return _result_beyond_damage(queue, queue_offset)
        end = min(end, _next_file(queue, queue_offset))
        return _result(queue, self._scan(queue, queue_offset, end, limits, record_filter))

    def _scan(self, queue: ConsumeQueue, start: int, end: int, limits: Limits, record_filter: RecordFilter) -> Found:
        scan = FilteredScan(
            queue, self._collector, lambda entries: rows_wanted(self._log, entries, None)[0], record_filter
        )
        return scan.run(start, end, limits)

    def _collect(self, chosen: _Selection) -> Found:
        if not len(chosen.sizes):  # as mostly for those who wait for a rare tag
            return Found(chosen.next_offset, _NO_BYTES, _NOWHERE, chosen.all_gone)
        body, sizes, _ = self._collector.collect_sound(chosen.physical_offsets, chosen.sizes)
        return Found(chosen.next_offset, body, sizes, chosen.all_gone)

    def _select(
        self,
        queue: ConsumeQueue,
        start: int,
        end: int,
        limits: Limits,
        tag_codes: frozenset[int] | None,
    ) -> _Selection:
        """Goes through entries [start, end) window by window until a limit is reached. Where all are wanted the first
        window is for messages of the first one's size: of large ones few fit into an answer."""
        max_count, max_bytes = limits
        wanted = as_wanted(tag_codes)
        parts: list[tuple[Positions, Positions]] = []
        count = size_bytes = 0
        all_gone = start < end
        offset = start
        window = min(_WINDOW_ENTRIES, max(1, max_count), max_bytes // MIN_RECORD_BYTES + 1)
        if wanted is None and window > _WINDOW_WORTH_A_LOOK and start < end:
            _, first_size, _ = queue.entry(start)
            window = min(window, max_bytes // max(MIN_RECORD_BYTES, first_size) + 1)
        while offset < end and (not count or (count < max_count and size_bytes < max_bytes)):
            entries = queue.entries(offset, min(end, offset + window))
            rows, is_any_there = rows_wanted(self._log, entries, wanted)
            all_gone = all_gone and not is_any_there
            if not len(rows):
                offset, window = offset + len(entries), min(_WINDOW_ENTRIES, window * 2)
                continue
            sizes = entries["size"][rows].astype(np.int64)
            fit = int(np.searchsorted(np.cumsum(sizes), max_bytes - size_bytes, side="right"))
            fit = min(max(fit, 0 if count else 1), max(1, max_count) - count, len(sizes))
            parts.append((entries["physical_offset"][rows[:fit]].astype(np.int64), sizes[:fit]))
            count += fit
            size_bytes += int(sizes[:fit].sum())
            if fit < len(sizes):
                offset += int(rows[fit])
                break
            offset += len(entries)
            window = min(_WINDOW_ENTRIES, window * 2)
        if len(parts) < 2:
            return _Selection(offset, *(parts[0] if parts else (_NOWHERE, _NOWHERE)), all_gone)
        physical_offsets, sizes = (np.concatenate([part[column] for part in parts]) for column in (0, 1))
        return _Selection(offset, physical_offsets, sizes, all_gone)


def _entries_at(queue: ConsumeQueue, queue_offsets: Sequence[int]) -> Entries:
    """Read at once where they lie close, else one by one. Raises DamagedFile."""
    first, last = queue_offsets[0], queue_offsets[-1]
    if last - first < _CLOSE_ENTRIES:
        found: Entries = queue.entries(first, last + 1)[np.asarray(queue_offsets) - first]
        return found
    return np.array([queue.entry(queue_offset) for queue_offset in queue_offsets], ENTRY_DTYPE)


def _may_be_one_of(code: int, wanted: Iterable[int]) -> bool:
    """`may_have_tags` of one."""
    return code < ELSEWHERE_BELOW or _as_int32(code) in map(_as_int32, wanted)


def _as_int32(code: int) -> int:
    return (code + (1 << 31)) % (1 << 32) - (1 << 31)


def _result(queue: ConsumeQueue, found: Found) -> ReadResult:
    status = ReadStatus.MESSAGE_WAS_REMOVING if found.all_gone else ReadStatus.NO_MATCHED_MESSAGE
    count = len(found.sizes)
    if count:
        status = ReadStatus.FOUND
    return ReadResult(status, found.next_offset, queue.min_offset, queue.max_offset, count, found.body.data)


def _result_beyond_damage(queue: ConsumeQueue, queue_offset: int) -> ReadResult:
    """What a read in a file that is not there is told: to go on in the next, or at the end."""
    next_offset = min(_next_file(queue, queue_offset), queue.max_offset)
    return ReadResult(ReadStatus.OFFSET_FOUND_NULL, next_offset, queue.min_offset, queue.max_offset)


def _next_file(queue: ConsumeQueue, queue_offset: int) -> int:
    """The first offset of the queue's file behind the one that has this entry."""
    return queue_offset - queue_offset % queue.entries_per_segment + queue.entries_per_segment


def _status_outside(queue: ConsumeQueue, queue_offset: int) -> tuple[ReadStatus, int] | None:
    """Status and next offset of a read at which there is no entry; None if there is one."""
    if queue.max_offset == 0:
        return ReadStatus.NO_MESSAGE_IN_QUEUE, 0
    if queue_offset < queue.min_offset:
        return ReadStatus.OFFSET_TOO_SMALL, queue.min_offset
    if queue_offset == queue.max_offset:
        return ReadStatus.OFFSET_OVERFLOW_ONE, queue_offset
    if queue_offset > queue.max_offset:
        return ReadStatus.OFFSET_OVERFLOW_BADLY, queue.max_offset
    return None

"""Reading a queue: entries say where its messages lie, the collector brings them.

Offsets, statuses and limits are RocketMQ's DefaultMessageStore.getMessage (spec: requests, code 11). Entries whose
messages are damaged or gone are stepped over.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rmqspark.errors import DamagedFile, OffsetMoved
from rmqspark.protocol.record import MIN_RECORD_BYTES, PHYSICAL_OFFSET_AT
from rmqspark.protocol.spans import gather
from rmqspark.store.collect import Collector
from rmqspark.store.consume_queue import ENTRY_BYTES

if TYPE_CHECKING:
    from rmqspark.protocol.spans import Bytes, Positions
    from rmqspark.store.commit_log import CommitLog
    from rmqspark.store.consume_queue import ConsumeQueue, Entries
    from rmqspark.store.consume_queues import ConsumeQueues

_FEWEST_SCANNED: Final = 16_000 // ENTRY_BYTES
_MOST_SCANNED_IN_BULK: Final = 1 << 20
_WINDOW_ENTRIES: Final = 1 << 15
_PLACE: Final = Struct(f">i{PHYSICAL_OFFSET_AT - 4}xq")  # of a record: its size and where it says it is


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
    """Records back to back in `body`, their `sizes` (int32), and where to read on."""

    next_offset: int
    min_offset: int
    max_offset: int
    sizes: NDArray[np.int32]
    body: memoryview


class _Selection(NamedTuple):
    """What was chosen among the entries from the start of a scan up to `next_offset`."""

    next_offset: int
    physical_offsets: Positions
    sizes: Positions
    all_gone: bool  # there were entries, but none of them has a message any more


class Reader:
    """Reads messages by queue offset."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues) -> None:
        self._log = log
        self._queues = queues
        self._collector = Collector(log.segments)

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None = None,
    ) -> ReadResult:
        """What a pull is answered with. The first message that fits the tags is always returned."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        if (outside := _status_outside(queue, queue_offset)) is not None:
            status, next_offset = outside
            return ReadResult(status, next_offset, queue.min_offset, queue.max_offset)
        scanned_end = min(queue.max_offset, queue_offset + max(_FEWEST_SCANNED, max_count))
        try:
            is_one = scanned_end - queue_offset == 1 or max_count == 1
            if is_one and (record := self._read_one(queue, queue_offset, tag_codes)):
                return ReadResult(ReadStatus.FOUND, queue_offset + 1, queue.min_offset, queue.max_offset, 1, record)
            chosen = self._select(queue, queue_offset, scanned_end, max_count, max_bytes, tag_codes)
        except DamagedFile:
            next_file = queue_offset - queue_offset % queue.entries_per_segment + queue.entries_per_segment
            return ReadResult(ReadStatus.OFFSET_FOUND_NULL, next_file, queue.min_offset, queue.max_offset)
        body, sizes = self._collect(chosen)
        status = ReadStatus.MESSAGE_WAS_REMOVING if chosen.all_gone else ReadStatus.NO_MATCHED_MESSAGE
        if len(sizes):
            status = ReadStatus.FOUND
        return ReadResult(status, chosen.next_offset, queue.min_offset, queue.max_offset, len(sizes), body.data)

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
    ) -> BulkReadResult:
        """The messages of [queue_offset, end_offset) as far as the limits allow, at least one if there is any.

        With tags, a call looks at about a million entries at most: nothing may be found although `next_offset` is
        below `end_offset`; read on from there. Raises OffsetMoved below the queue's first message.
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
        chosen = self._select(queue, queue_offset, end, max_count, max_bytes, tag_codes)
        body, sizes = self._collect(chosen)
        return BulkReadResult(chosen.next_offset, low, high, sizes.astype(np.int32), body.data)

    def _read_one(self, queue: ConsumeQueue, queue_offset: int, tag_codes: frozenset[int] | None) -> bytes | None:
        """The record of one entry; None if it has none with these tags, or one that is not of its place. What a waiting
        pull is answered with: arrays of one element would cost three times as much."""
        physical_offset, size, tags_code = queue.entry(queue_offset)
        is_there = physical_offset >= self._log.min_offset
        if not is_there or not MIN_RECORD_BYTES <= size <= self._log.end_offset - physical_offset:
            return None
        if tag_codes is not None and _as_int32(tags_code) not in map(_as_int32, tag_codes):
            return None
        record = self._log.segments.read(physical_offset, size)
        stored_size, stored_offset = _PLACE.unpack_from(record)
        return record if (stored_size, stored_offset) == (size, physical_offset) else None

    def _collect(self, chosen: _Selection) -> tuple[Bytes, Positions]:
        """The records chosen and their sizes. What is not a record of its place is left out: nobody is to be handed
        bytes that a damaged queue entry leads to."""
        physical_offsets, sizes = chosen.physical_offsets, chosen.sizes
        body = self._collector.collect(physical_offsets, sizes)
        starts = np.cumsum(sizes) - sizes
        sound = gather(body, starts, np.int32) == sizes
        sound &= gather(body, starts + PHYSICAL_OFFSET_AT, np.int64) == physical_offsets
        if not sound.all():
            physical_offsets, sizes = physical_offsets[sound], sizes[sound]
            body = self._collector.collect(physical_offsets, sizes)
        return body, sizes

    def _select(
        self,
        queue: ConsumeQueue,
        start: int,
        end: int,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None,
    ) -> _Selection:
        """Goes through entries [start, end) window by window until a limit is reached."""
        wanted = None if tag_codes is None else np.fromiter(tag_codes, np.int64, len(tag_codes)).astype(np.int32)
        parts: list[tuple[Positions, Positions]] = []
        count = size_bytes = 0
        all_gone = start < end
        offset = start
        window = min(_WINDOW_ENTRIES, max(1, max_count), max_bytes // MIN_RECORD_BYTES + 1)
        while offset < end and (not count or (count < max_count and size_bytes < max_bytes)):
            entries = queue.entries(offset, min(end, offset + window))
            rows, is_any_there = self._matching(entries, wanted)
            all_gone = all_gone and not is_any_there
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
        if len(parts) == 1:
            return _Selection(offset, *parts[0], all_gone)
        physical_offsets, sizes = (np.concatenate([part[column] for part in parts]) for column in (0, 1))
        return _Selection(offset, physical_offsets, sizes, all_gone)

    def _matching(self, entries: Entries, wanted: NDArray[np.int32] | None) -> tuple[NDArray[np.int64], bool]:
        """The rows that have a message with these tags, and whether any has a message at all."""
        physical_offsets, sizes = entries["physical_offset"], entries["size"]
        there = (
            (physical_offsets >= self._log.min_offset)
            & (sizes >= MIN_RECORD_BYTES)
            & (sizes <= self._log.end_offset - physical_offsets)
        )
        if wanted is None:
            rows = np.flatnonzero(there)
            return rows, len(rows) > 0
        matches = there & np.isin(entries["tags_code"].astype(np.int32), wanted)
        return np.flatnonzero(matches), bool(there.any())


def _as_int32(code: int) -> int:
    return (code + (1 << 31)) % (1 << 32) - (1 << 31)


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

"""From a time to an offset: a binary search over the store times of a queue's messages (spec: storage, section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from rmqspark.errors import DamagedFile
from rmqspark.protocol.records.record import MIN_RECORD_BYTES, SYS_FLAG_AT, store_timestamp_at
from rmqspark.store.reading.wanted_entries import has_message

if TYPE_CHECKING:
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queue import ConsumeQueue

    Boundary = Literal["LOWER", "UPPER"]

_NO_TIME: Final = -1


class TimeSearch:
    """Store times of messages, and the way back from a time."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log

    def store_time(self, queue: ConsumeQueue, offset: int) -> int:
        """When the message at `offset` was stored; -1 if there is none, or its queue cannot be read there."""
        if not queue.min_offset <= offset < queue.max_offset:
            return _NO_TIME
        try:
            physical_offset, size, _ = queue.entry(offset)
        except DamagedFile:
            return _NO_TIME
        return self.store_time_of(physical_offset) if has_message(self._log, physical_offset, size) else _NO_TIME

    def store_time_of(self, physical_offset: int) -> int:
        """When the message at a physical offset was stored; -1 if its file is not there."""
        try:
            head = self._log.segments.read(physical_offset, MIN_RECORD_BYTES)
        except DamagedFile:
            return _NO_TIME
        at = store_timestamp_at(int.from_bytes(head[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big"))
        return int.from_bytes(head[at : at + 8], "big", signed=True)

    def offset(self, queue: ConsumeQueue, timestamp_ms: int, boundary: Boundary) -> int:
        """LOWER: the first message stored at `timestamp_ms` or later, `max_offset` if there is none. UPPER: the last
        one stored then or earlier, `min_offset` if there is none."""
        if boundary == "LOWER":
            return self._first_after(queue, timestamp_ms - 1)
        return max(queue.min_offset, self._first_after(queue, timestamp_ms) - 1)

    def _first_after(self, queue: ConsumeQueue, timestamp_ms: int) -> int:
        """The first message stored after `timestamp_ms`; `max_offset` if there is none."""
        low, high = queue.min_offset, queue.max_offset
        while low < high:
            middle = (low + high) // 2
            there = self._next_there(queue, middle, high)
            if there < high and self.store_time(queue, there) <= timestamp_ms:
                low = there + 1
            else:
                high = middle
        return low

    def _next_there(self, queue: ConsumeQueue, offset: int, end: int) -> int:
        """The first offset from `offset` on whose message was not lost; `end` if there is none below it."""
        while offset < end and self.store_time(queue, offset) == _NO_TIME:
            offset = queue.next_place(offset)
        return min(offset, end)

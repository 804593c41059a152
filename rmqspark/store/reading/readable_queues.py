"""What is asked about a store's queues, by topic and number: where they begin and end, and what lies where.

A queue that does not exist has an answer, too: it is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqspark.store.queues.consume_queue import ENTRY_DTYPE
from rmqspark.store.reading.measuring import Extent, measure
from rmqspark.store.reading.wanted_entries import has_message

if TYPE_CHECKING:
    from rmqspark.protocol.records.record import Record
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queue import Entries
    from rmqspark.store.queues.consume_queues import ConsumeQueues
    from rmqspark.store.reading.time_search import Boundary, TimeSearch


class ReadableQueues:
    """The queues as readers see them. What counts as recent is within `recent_bytes` of the log's end."""

    def __init__(self, queues: ConsumeQueues, log: CommitLog, times: TimeSearch, recent_bytes: int) -> None:
        self._queues = queues
        self._log = log
        self._times = times
        self._recent_bytes = recent_bytes

    def topics(self) -> list[str]:
        """The topics that have queues."""
        return self._queues.topics()

    def queue_ids(self, topic: str) -> list[int]:
        return self._queues.queue_ids(topic)

    def ends(self, topic: str) -> dict[int, int]:
        """One past the last readable offset of each of a topic's queues, by their ids."""
        return self._queues.ends(topic)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The first readable offset; 0 for a queue that does not exist."""
        queue = self._queues.get(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """One past the last readable offset; 0 for a queue that does not exist."""
        queue = self._queues.get(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def next_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the next message that is stored, behind those that no reader sees yet; 0 for a queue that does
        not exist."""
        queue = self._queues.get(topic, queue_id)
        return queue.next_offset if queue is not None else 0

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first readable offset, and one past the last; 0 and 0 for a queue that does not exist."""
        queue = self._queues.get(topic, queue_id)
        return (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)

    def measure(self, topic: str, queue_id: int, start: int, end: int, *, max_bytes: int, max_entries: int) -> Extent:
        """How many messages of [start, end) fit into `max_bytes`; see `measuring.measure`."""
        queue = self._queues.get(topic, queue_id)
        bounds = {"max_bytes": max_bytes, "max_entries": max_entries}
        return measure(self._log, queue, start, end, **bounds) if queue is not None else Extent(start)

    def locate(self, topic: str, queue_id: int, offset: int) -> tuple[int, int] | None:
        """(physical offset, size) of a queue's message; None where it is gone or lost. Raises DamagedFile where
        the queue itself is."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return None
        physical_offset, size, _ = queue.entry(offset)
        return (physical_offset, size) if has_message(self._log, physical_offset, size) else None

    def place_at(self, topic: str, queue_id: int, offset: int) -> int | None:
        """From which physical offset on the messages of a queue lie that begin at this offset: that of its message, or
        of the damage that took it. None behind the last. Raises DamagedFile where the queue itself is damaged."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return None
        return queue.entry(offset)[0]

    def holds(self, record: Record) -> bool:
        """Whether the place in a queue that a record names is its own. What only looks like a record, in the body of
        another message, is in no queue, even where it says the right physical offset: who knows where the log ends can
        have it say that. Raises DamagedFile where the queue is damaged."""
        place = self.locate(record.topic, record.queue_id, record.queue_offset)
        return place == (record.physical_offset, record.size)

    def entries(self, topic: str, queue_id: int, start: int, end: int) -> Entries:
        """The readable ones of the entries [start, end): physical offsets, sizes, tags codes (or deliver times)."""
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return np.empty(0, ENTRY_DTYPE)
        start, end = max(start, queue.min_offset), min(end, queue.max_offset)
        return queue.entries(start, end) if start < end else np.empty(0, ENTRY_DTYPE)

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = "LOWER") -> int:
        """The offset for a store time; see `TimeSearch.offset`. 0 for a queue that does not exist."""
        queue = self._queues.get(topic, queue_id)
        return self._times.offset(queue, timestamp_ms, boundary) if queue is not None else 0

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored, ms; -1 if there is none at this offset."""
        queue = self._queues.get(topic, queue_id)
        return self._times.store_time(queue, offset) if queue is not None else -1

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """When the first message of a queue was stored, ms; -1 if it has none."""
        return self.store_time_at(topic, queue_id, self.min_offset(topic, queue_id))

    def is_recent(self, topic: str, queue_id: int) -> bool:
        """Whether the queue's very first message is still there and recent enough to be in memory. A group that never
        committed then starts at 0 (spec: requests, code 14)."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or queue.min_offset > 0 or queue.max_offset == 0:
            return False
        physical_offset, _, _ = queue.entry(0)
        return self._log.end_offset - physical_offset <= self._recent_bytes

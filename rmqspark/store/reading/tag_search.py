"""From tags to messages: queue entries have their hash, so no index is needed for them.

The index of RocketMQ 5.5 has an entry for the tags of each message, a third more of them. We write none, and use none
of those that there are.
"""

from __future__ import annotations

from contextlib import suppress
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.errors import MessageNotFound
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record
from rmqspark.store.reading.wanted_entries import as_wanted, rows_wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queue import ConsumeQueue
    from rmqspark.store.queues.consume_queues import ConsumeQueues
    from rmqspark.store.reading.time_search import TimeSearch

_MOST_LOOKED_AT: Final = 1 << 19  # entries of a search, the newest of each queue: others wait while it runs
_MOST_READ: Final = 1 << 12  # messages, of which entries do not tell that they have others: `ELSEWHERE_BELOW`, too
_MOST_READ_BYTES: Final = 64 << 20
_WINDOW_ENTRIES: Final = 1 << 13


class TagSearch:
    """Looks through the queues of a topic, from their ends backwards."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, times: TimeSearch) -> None:
        self._log = log
        self._queues = queues
        self._times = times

    def run(self, topic: str, tags: str, begin_ms: int, end_ms: int, max_count: int, max_bytes: int) -> list[bytes]:
        """The newest messages stored in [begin_ms, end_ms] with these tags, in the order of the log.

        As many of them as fit into `max_bytes`, but one at least; of half a million entries in all, and of a few
        thousand messages that may have them, no older ones."""
        queues = [queue for queue in self._queues.by_topic.get(topic, {}).values() if queue.max_offset]
        most_entries = _MOST_LOOKED_AT // max(1, len(queues))
        places = [self._places(queue, tags, begin_ms, end_ms, most_entries) for queue in queues]
        chosen: list[bytes] = []
        left = max_bytes
        for record in islice(self._records(merge(*places, reverse=True), tags), max_count):
            left -= len(record)
            if left < 0 and chosen:
                break
            chosen.append(record)
        return chosen[::-1]

    def _stored_within(self, queue: ConsumeQueue, begin_ms: int, end_ms: int) -> tuple[int, int]:
        """The first offset of these times, and the first one behind them. Most ask for all there ever was."""
        newest_ms = self._times.store_time(queue, queue.max_offset - 1)
        first = self._times.offset(queue, begin_ms, "LOWER") if begin_ms > 0 else queue.min_offset
        end = self._times.offset(queue, end_ms + 1, "LOWER") if end_ms < newest_ms else queue.max_offset
        return first, end

    def _places(self, queue: ConsumeQueue, tags: str, begin_ms: int, end_ms: int, most_entries: int) -> Iterator[int]:
        """Where the messages of a queue lie in the log that may have these tags, the newest first."""
        wanted = as_wanted([tags_code(tags)])
        first, end = self._stored_within(queue, begin_ms, end_ms)
        first = max(first, end - most_entries)
        while first < end:
            start = max(first, end - _WINDOW_ENTRIES)
            entries = queue.entries(start, end)
            rows, _ = rows_wanted(self._log, entries, wanted)
            yield from entries["physical_offset"][rows[::-1]].astype(np.int64).tolist()
            end = start

    def _records(self, places: Iterable[int], tags: str) -> Iterator[bytes]:
        """Those of them that have these tags."""
        left = _MOST_READ_BYTES
        for physical_offset in islice(places, _MOST_READ):
            with suppress(MessageNotFound):  # it has expired
                record = self._log.read_record(physical_offset)
                if decode_record(record).property_map().get(Property.TAGS) == tags:
                    yield record
                left -= len(record)
            if left <= 0:
                return

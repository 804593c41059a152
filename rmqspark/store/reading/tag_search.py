"""From tags to messages: queue entries have their hash, so no index is needed for them.

The index of RocketMQ 5.5 has an entry for the tags of each message, a third more of them. We write none, and use none
of those that there are.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.errors import MessageNotFound
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record
from rmqspark.store.reading.wanted_entries import as_wanted, rows_wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queue import ConsumeQueue
    from rmqspark.store.queues.consume_queues import ConsumeQueues
    from rmqspark.store.reading.time_search import TimeSearch

_MOST_LOOKED_AT: Final = 1 << 19  # entries of a search, the newest of each queue: others wait while it runs
_WINDOW_ENTRIES: Final = 1 << 13


class TagSearch:
    """Looks through the queues of a topic, from their ends backwards."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, times: TimeSearch) -> None:
        self._log = log
        self._queues = queues
        self._times = times

    def run(self, topic: str, tags: str, begin_ms: int, end_ms: int, max_count: int, max_bytes: int) -> list[bytes]:
        """The newest messages stored in [begin_ms, end_ms] with the hash of these tags, but for those that have others,
        in the order of the log.

        As many of them as fit into `max_bytes`, but one at least; of half a million entries in all, no older ones."""
        queues = [queue for queue in self._queues.by_topic.get(topic, {}).values() if queue.max_offset]
        places: list[int] = []
        for queue in queues:
            first, end = self._stored_within(queue, begin_ms, end_ms)
            first = max(first, end - _MOST_LOOKED_AT // len(queues))
            places += self._places(queue, tags, first, end, max_count)
        chosen: list[bytes] = []
        left = max_bytes
        for record in self._records(sorted(places, reverse=True)[:max_count], tags):
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

    def _places(self, queue: ConsumeQueue, tags: str, first: int, end: int, max_count: int) -> list[int]:
        """Where the newest messages of a queue lie in the log that have the hash of these tags."""
        wanted = as_wanted([tags_code(tags)])
        found: list[int] = []
        while first < end and len(found) < max_count:
            start = max(first, end - _WINDOW_ENTRIES)
            entries = queue.entries(start, end)
            rows, _ = rows_wanted(self._log, entries, wanted)
            found += entries["physical_offset"][rows[::-1]].astype(np.int64).tolist()
            end = start
        return found[:max_count]

    def _records(self, places: list[int], tags: str) -> Iterator[bytes]:
        for physical_offset in places:
            with suppress(MessageNotFound):  # it has expired
                record = self._log.read_record(physical_offset)
                if decode_record(record).property_map().get(Property.TAGS) == tags:
                    yield record

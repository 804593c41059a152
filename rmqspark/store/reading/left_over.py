"""What is left of deleted topics in queues: a crash may have cut their deletion short, or the disk refused it.

Where it refused, the next topic of that name goes on in the same queue, behind what the last one had in it. That is
hidden: while the broker runs, by where the queue begins; by the deletion that is noted at the next start, and for who
reads the files.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING, Final

from rmqspark.store.queues.consume_queue import NO_MESSAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.store.deletions import Deletion, Deletions
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queue import ConsumeQueue
    from rmqspark.store.queues.consume_queues import ConsumeQueues
    from rmqspark.store.reading.time_search import TimeSearch

_NOT_LONG_AGO_MS: Final = 1 << 62


class LeftOver:
    """Knows of queues that were loaded what in them was deleted."""

    def __init__(self, deletions: Deletions, log: CommitLog, times: TimeSearch) -> None:
        self._deletions = deletions
        self._log = log
        self._times = times

    def is_all_of(self, queue: ConsumeQueue) -> bool:
        """Whether all messages of a queue went with a topic: the newest tells. One with none has lost them with the
        power, or never had any; those that came since the deletion are in the log."""
        deletion = self._deletions.get(queue.topic)
        if deletion is None or deletion.log_end_offset <= self._log.min_offset:
            return False
        newest = queue.newest_message()
        return newest is None or deletion.took(newest, partial(self._stored_ms, newest))

    def whole_queues(self, queues: ConsumeQueues) -> Iterator[tuple[str, list[int]]]:
        """The ids of those all of whose messages went, topic by topic; they may be removed meanwhile."""
        for topic in queues.topics():
            found = [queue_id for queue_id, queue in queues.by_topic[topic].items() if self.is_all_of(queue)]
            if found:
                yield topic, found

    def hide(self, queue: ConsumeQueue) -> None:
        """Has a queue, which follows the start of the log already, begin behind what went with the last topic of its
        name."""
        deletion = self._deletions.get(queue.topic)
        if deletion is not None:
            offsets = range(queue.min_offset, queue.max_offset)
            queue.min_offset += bisect_left(offsets, True, key=lambda at: not self._is_of(queue.entry(at), deletion))

    def _is_of(self, entry: tuple[int, int, int], deletion: Deletion) -> bool:
        """Whether a message went. A lost one has no time: where places do not tell, rather a gap more than a message
        less."""
        physical_offset, size, _ = entry
        if size == NO_MESSAGE_SIZE and not deletion.only_ours_since:
            return False
        return deletion.took(physical_offset, partial(self._stored_ms, physical_offset))

    def _stored_ms(self, physical_offset: int) -> int:
        """When a message was stored. One that has expired was before all others; of one in a file that is missing it is
        not known, and nothing goes on a guess."""
        is_there = self._log.segments.segment_at(physical_offset) is not None
        is_unknown = not is_there and physical_offset >= self._log.min_offset
        return _NOT_LONG_AGO_MS if is_unknown else self._times.store_time_of(physical_offset)

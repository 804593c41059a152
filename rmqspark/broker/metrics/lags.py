"""How far consumer groups are behind, of every group and topic that there is an offset or a subscription of.

There may be a hundred thousand such pairs, and a scrape must not hold others up: they are looked at a few at a time,
and what was found is kept for some seconds. The pairs that are most behind are told, `MOST_TOLD` at most; since when
their first message has been waiting is read from the log, for those alone. Unlike RocketMQ's, the lag of a group that
filters counts what the filter leaves out, and groups that are not online are told, too: ConsumerLagCalculator.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.broker.metrics.families import INFLIGHT, LAG, LAG_LATENCY, LEFT_OUT, QUEUEING_LATENCY, READY
from rmqspark.broker.metrics.figures import word
from rmqspark.protocol.names import HIDDEN_TOPICS, RETRY_PREFIX, is_system_group, is_system_topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.metrics.figures import Figures
    from rmqspark.broker.offsets import ConsumerOffsets
    from rmqspark.broker.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.store.reading.readable_queues import ReadableQueues

MOST_TOLD: Final = 10_000
FRESH_MS: Final = 5_000
_QUEUES_AT_ONCE: Final = 500  # a millisecond or less
_READS_AT_ONCE: Final = 100


class Pair(NamedTuple):
    """Figures of a group and a topic. `unread` and `unpulled` are where the first such message of each queue is: queue
    id and queue offset."""

    group: str
    topic: str
    lag: int = 0
    inflight: int = 0
    ready: int = 0
    unread: tuple[tuple[int, int], ...] = ()
    unpulled: tuple[tuple[int, int], ...] = ()


class _Dated(NamedTuple):
    """Store times of the first messages not consumed and not pulled, ms; -1 where there is none."""

    pair: Pair
    unread_ms: int
    unpulled_ms: int


class Lags:
    """Of all groups of one broker, not older than some seconds."""

    def __init__(
        self,
        queues: ReadableQueues,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        clients: ClientRegistry,
        clock: Clock,
    ) -> None:
        self._queues = queues
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._clock = clock
        self._looking = asyncio.Lock()
        self._found: list[_Dated] = []
        self._left_out = 0
        self._found_ms = -FRESH_MS

    async def tell(self, figures: Figures) -> None:
        """Looks anew, if it is long ago; who asks meanwhile waits for that."""
        async with self._looking:
            if self._clock.monotonic_ms() - self._found_ms >= FRESH_MS:
                await self._look()
        now_ms = self._clock.now_ms()
        for dated in self._found:
            _tell(figures, dated, now_ms)
        figures.add(LEFT_OUT, (), self._left_out)

    async def _look(self) -> None:
        pairs, seen = [], 0
        for group, topic in self._pairs():
            pair = self._measure(group, topic)
            if pair is not None:
                pairs.append(pair)
            seen += 1
            if seen * 8 >= _QUEUES_AT_ONCE:
                seen = 0
                await asyncio.sleep(0)
        told = heapq.nlargest(MOST_TOLD, pairs, key=lambda pair: pair.lag)
        self._found = [dated async for dated in self._dated(told)]
        self._left_out = len(pairs) - len(told)
        self._found_ms = self._clock.monotonic_ms()

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Each once: those with a committed offset, and what consumers that are online subscribe to."""
        known = dict.fromkeys((group, topic) for topic, group in self._offsets.pairs())
        for group in self._clients.consumer_groups():
            known.update(dict.fromkeys((group.name, topic) for topic in group.subscriptions))
        return (pair for pair in known if not is_system_group(pair[0]) and pair[1] not in HIDDEN_TOPICS)

    def _measure(self, group: str, topic: str) -> Pair | None:
        """None of a topic that is gone. A queue of which nothing is committed, or pulled, counts as caught up."""
        config = self._topics.get(topic)
        if config is None:
            return None
        lag = inflight = ready = 0
        unread, unpulled = [], []
        committed_queues, ends = self._offsets.committed_queues(group, topic), self._queues.ends(topic)
        for queue_id in range(config.writeQueueNums):
            end = ends.get(queue_id, 0)
            pulled = self._offsets.pull_offset(group, topic, queue_id)
            committed = committed_queues.get(queue_id)
            if committed is not None and committed < end:
                lag += end - committed
                unread.append((queue_id, committed))
            if pulled is None:
                continue
            inflight += max(0, pulled - committed) if committed is not None else 0
            if pulled < end:
                ready += end - pulled
                unpulled.append((queue_id, pulled))
        return Pair(group, topic, lag, inflight, ready, tuple(unread), tuple(unpulled))

    async def _dated(self, pairs: Sequence[Pair]) -> AsyncIterator[_Dated]:
        reads = 0
        for pair in pairs:
            yield _Dated(pair, self._earliest_ms(pair.topic, pair.unread), self._earliest_ms(pair.topic, pair.unpulled))
            reads += len(pair.unread) + len(pair.unpulled)
            if reads >= _READS_AT_ONCE:
                reads = 0
                await asyncio.sleep(0)

    def _earliest_ms(self, topic: str, places: Sequence[tuple[int, int]]) -> int:
        """The earliest store time of these messages; of those that have expired, of the first that is left."""
        times = []
        for queue_id, offset in places:
            at = max(offset, self._queues.min_offset(topic, queue_id))
            times.append(self._queues.store_time_at(topic, queue_id, at))
        return min((time_ms for time_ms in times if time_ms > 0), default=-1)


def _tell(figures: Figures, dated: _Dated, now_ms: int) -> None:
    pair = dated.pair
    is_retry = pair.topic.startswith(RETRY_PREFIX)
    labels = (pair.group, pair.topic, word(is_retry), word(is_system_topic(pair.topic) or is_system_group(pair.group)))
    figures.add(LAG, labels, pair.lag)
    figures.add(LAG_LATENCY, labels, _age(dated.unread_ms, now_ms))
    figures.add(INFLIGHT, labels, pair.inflight)
    figures.add(QUEUEING_LATENCY, labels, _age(dated.unpulled_ms, now_ms))
    figures.add(READY, labels, pair.ready)


def _age(stored_ms: int, now_ms: int) -> int:
    return max(0, now_ms - stored_ms) if stored_ms > 0 else 0

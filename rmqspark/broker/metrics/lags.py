"""How far consumer groups are behind, of every group and topic that there is an offset or a subscription of.

There may be a hundred thousand such pairs, and a scrape must not hold others up: they are looked at a few at a time,
and what was found is kept for some seconds. The pairs that are most behind are told, `MOST_TOLD` at most; since when
their first message has been waiting is read from the log, for those alone. Unlike RocketMQ's, the lag of a group that
filters counts what the filter leaves out, queues count that are read and no longer written, and groups that are not
online are told, too: ConsumerLagCalculator.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.broker.metrics.families import INFLIGHT, LAG, LAG_LATENCY, LEFT_OUT, QUEUEING_LATENCY, READY
from rmqspark.broker.metrics.figures import word
from rmqspark.broker.metrics.turns import Turns
from rmqspark.protocol.names import HIDDEN_TOPICS, RETRY_PREFIX, is_system_group

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.metrics.figures import Figures
    from rmqspark.broker.state.offsets import ConsumerOffsets
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.store.reading.readable_queues import ReadableQueues

MOST_TOLD: Final = 10_000
FRESH_MS: Final = 5_000
_QUEUES_AT_ONCE: Final = 500
_READS_AT_ONCE: Final = 100
_TOLD_AT_ONCE: Final = 100


class Lag(NamedTuple):
    """What a group has not consumed of a topic. Compares by how much that is."""

    messages: int
    group: str
    topic: str


class _Known(NamedTuple):
    """All that is told of a lag. The times are when the first messages were stored that are not consumed and not
    pulled, ms; -1 where there are none."""

    lag: Lag
    inflight: int
    ready: int
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
        self._found: list[_Known] = []
        self._left_out = 0
        self._found_ms = -FRESH_MS

    async def tell(self, figures: Figures) -> None:
        """Looks anew, if it is long ago; who asks meanwhile waits for that."""
        async with self._looking:
            if self._clock.monotonic_ms() - self._found_ms >= FRESH_MS:
                await self._look()
        now_ms, turns = self._clock.now_ms(), Turns(_TOLD_AT_ONCE)
        for known in self._found:
            is_system = self._topics.is_system(known.lag.topic) or is_system_group(known.lag.group)
            _tell(figures, known, now_ms, is_system=is_system)
            await turns.did()
        figures.add(LEFT_OUT, (), self._left_out)

    async def _look(self) -> None:
        """Keeps those most behind, the least of them first in a heap."""
        most_behind: list[Lag] = []
        seen, turns = 0, Turns(_QUEUES_AT_ONCE)
        for group, topic in self._pairs():
            config = self._topics.get(topic)
            if config is None:
                continue
            seen += 1
            keep = heapq.heappush if len(most_behind) < MOST_TOLD else heapq.heappushpop
            keep(most_behind, Lag(self._behind(group, topic, config.queue_count), group, topic))
            await turns.did(max(1, config.queue_count))
        self._found = [known async for known in self._known(most_behind)]
        self._left_out = seen - len(most_behind)
        self._found_ms = self._clock.monotonic_ms()

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Each once: those with a committed offset, and what consumers that are online subscribe to besides."""
        for topic, group in self._offsets.pairs():
            if not is_system_group(group) and topic not in HIDDEN_TOPICS:
                yield group, topic
        for online in self._clients.consumer_groups():
            for topic in list(online.subscriptions):
                if not is_system_group(online.name) and not self._offsets.committed_queues(online.name, topic):
                    yield online.name, topic

    def _behind(self, group: str, topic: str, queues: int) -> int:
        """In messages. A queue of which nothing is committed counts as consumed."""
        committed, ends = self._offsets.committed_queues(group, topic), self._queues.ends(topic)
        behind = 0
        for queue_id, offset in committed.items():
            if queue_id < queues:  # masters of RocketMQ's take offsets below 0, and their slaves follow
                behind += max(0, ends.get(queue_id, 0) - max(0, offset))
        return behind

    async def _known(self, lags: Sequence[Lag]) -> AsyncIterator[_Known]:
        turns = Turns(_READS_AT_ONCE)
        for lag in lags:
            config = self._topics.get(lag.topic)
            if config is not None:  # nobody has deleted it meanwhile
                yield self._look_at(lag, config.queue_count)
                await turns.did(max(1, config.queue_count))

    def _look_at(self, lag: Lag, queues: int) -> _Known:
        """Where nothing is pulled of a queue, nothing is in flight, and nothing ready."""
        group, topic = lag.group, lag.topic
        inflight = ready = 0
        unread, unpulled = [], []
        committed_queues, ends = self._offsets.committed_queues(group, topic), self._queues.ends(topic)
        for queue_id in range(queues):
            end, committed = ends.get(queue_id, 0), committed_queues.get(queue_id)
            pulled = self._offsets.pull_offset(group, topic, queue_id)
            if committed is not None and committed < end:
                unread.append((queue_id, committed))
            if pulled is None:
                continue
            inflight += max(0, pulled - max(0, committed)) if committed is not None else 0
            if pulled < end:
                ready += end - pulled
                unpulled.append((queue_id, pulled))
        return _Known(lag, inflight, ready, self._earliest_ms(topic, unread), self._earliest_ms(topic, unpulled))

    def _earliest_ms(self, topic: str, places: Sequence[tuple[int, int]]) -> int:
        """The earliest store time of these messages; of those that have expired, of the first that is left."""
        times = []
        for queue_id, offset in places:
            at = max(offset, self._queues.min_offset(topic, queue_id))
            times.append(self._queues.store_time_at(topic, queue_id, at))
        return min((time_ms for time_ms in times if time_ms > 0), default=-1)


def _tell(figures: Figures, known: _Known, now_ms: int, *, is_system: bool) -> None:
    messages, group, topic = known.lag
    labels = (group, topic, word(topic.startswith(RETRY_PREFIX)), word(is_system))
    figures.add(LAG, labels, messages)
    figures.add(LAG_LATENCY, labels, _age(known.unread_ms, now_ms))
    figures.add(INFLIGHT, labels, known.inflight)
    figures.add(QUEUEING_LATENCY, labels, _age(known.unpulled_ms, now_ms))
    figures.add(READY, labels, known.ready)


def _age(stored_ms: int, now_ms: int) -> int:
    return max(0, now_ms - stored_ms) if stored_ms > 0 else 0

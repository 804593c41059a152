"""What topics have got since the broker started: messages, bytes, and how large each was.

Nothing is counted when messages are stored: a queue knows how many it has, and its entries say how large they are. They
are read a little later, a whole range of them at a time: every ten seconds, and before figures are told. What messages
are cannot be seen there. So those that are unlike most are told when they are stored: what was committed, delivered
late, or has a sharding key. Retries, dead letters and what brokers write for themselves are not counted; nor is
anything of a topic that is gone. RocketMQ: SendMessageProcessor.handlePutMessageResult, ScheduleMessageService.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from rmqspark.broker.metrics.families import MESSAGE_SIZE
from rmqspark.broker.metrics.histograms import Histogram
from rmqspark.broker.metrics.turns import Turns
from rmqspark.errors import DamagedFile
from rmqspark.protocol.names import (
    CHECK_MAX_TIME_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    HIDDEN_TOPICS,
    OP_HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from rmqspark.store.queues.consume_queue import NO_MESSAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqspark.store.draft import Appended, Draft
    from rmqspark.store.reading.readable_queues import ReadableQueues

MessageType = Literal["normal", "fifo", "delay", "transaction"]

_KINDS: Final[dict[str, MessageType]] = {HALF_TOPIC: "transaction", SCHEDULE_TOPIC: "delay", TIMER_TOPIC: "delay"}
"""What messages of these topics are, if nothing else is told of them."""
_NOT_COUNTED: Final = HIDDEN_TOPICS | {OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC}
_ENTRIES_AT_ONCE: Final = 65_536  # a millisecond or less
_QUEUES_AT_ONCE: Final = 500


class Arrived(NamedTuple):
    """Messages of one type that a topic got. Their bytes are the sum of `sizes`."""

    topic: str
    message_type: MessageType
    sizes: Histogram


class _Topic:
    """`ends`: of each queue, up to which entry it is in `all`. `told`: of these, by what was told of them."""

    __slots__ = ("all", "ends", "rest", "told")

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.all = Histogram(MESSAGE_SIZE.bounds)
        self.told: dict[MessageType, Histogram] = {}
        self.rest = Histogram(MESSAGE_SIZE.bounds)

    def by_type(self, topic: str) -> Iterator[Arrived]:
        """What is told may be ahead of what is read: a counter must not go back for that."""
        self.rest.at_least(self.all.minus(self.told.values()))
        usual = _KINDS.get(topic, "normal")
        for message_type, sizes in self.told.items():
            if message_type != usual:
                yield Arrived(topic, message_type, sizes)
        if sum(self.rest.counts):
            yield Arrived(topic, usual, self.rest)


class Arrivals:
    """Of one broker. Belongs to the event loop's thread."""

    def __init__(self, queues: ReadableQueues) -> None:
        self._queues = queues
        self._topics: dict[str, _Topic] = {}
        self._counting = asyncio.Lock()
        for topic in filter(_is_counted, queues.topics()):
            self._topic(topic).ends = queues.ends(topic)

    def tell(self, topic: str, message_type: MessageType, sizes: Sequence[int] | NDArray[np.int64]) -> None:
        """Messages of this type have been stored; so large are their records."""
        if _is_counted(topic) and message_type != _KINDS.get(topic, "normal"):
            told = self._topic(topic).told
            histogram = told.get(message_type)
            if histogram is None:
                histogram = told[message_type] = Histogram(MESSAGE_SIZE.bounds)
            histogram.record_all(np.asarray(sizes))

    def tell_stored(self, message_type: MessageType, drafts: Sequence[Draft], places: Sequence[Appended]) -> None:
        """The same of messages that have just been appended; places behind those of `drafts` are not theirs."""
        for draft, place in zip(drafts, places, strict=False):
            self.tell(draft.topic, message_type, (place.size,))

    async def count(self) -> None:
        """Reads what has come since."""
        async with self._counting:
            await self._count()

    async def _count(self) -> None:
        topics = self._queues.topics()
        for gone in self._topics.keys() - set(topics):
            del self._topics[gone]
        turns = Turns(_QUEUES_AT_ONCE)
        for topic in filter(_is_counted, topics):
            for queue_id, end in self._queues.ends(topic).items():
                if end != self._topic(topic).ends.get(queue_id, 0):
                    await self._count_queue(topic, queue_id, end)
                await turns.did()

    def totals(self) -> Iterator[tuple[str, int, int]]:
        """Topic, messages and bytes, of those that got any; as far as it was read."""
        for name, topic in list(self._topics.items()):
            if messages := sum(topic.all.counts):
                yield name, messages, topic.all.total

    def by_type(self) -> Iterator[Arrived]:
        """As far as it was read. Topics may come and go meanwhile."""
        for name, topic in list(self._topics.items()):
            yield from topic.by_type(name)

    async def _count_queue(self, topic: str, queue_id: int, end: int) -> None:
        """A queue that ends before it did is another one: its topic was deleted, and made again. What cannot be read of
        one is not counted: the others are told of all the same."""
        known = self._topic(topic).ends.get(queue_id, 0)
        start = known if known < end else 0
        while start < end:
            stop, found = min(end, start + _ENTRIES_AT_ONCE), self._topic(topic)
            with suppress(DamagedFile):
                sizes = self._queues.entries(topic, queue_id, start, stop)["size"].astype(np.int64)
                found.all.record_all(sizes[sizes != NO_MESSAGE_SIZE])
            found.ends[queue_id] = start = stop
            if start < end:
                await asyncio.sleep(0)

    def _topic(self, topic: str) -> _Topic:
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = _Topic()
        return known


def _is_counted(topic: str) -> bool:
    return topic not in _NOT_COUNTED and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))

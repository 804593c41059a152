"""Which queue a message goes to: in turn, by its shard, or the one the caller named. Pure."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import InvalidArgument, InvalidQueue, NoPermission
from rmqspark.message_queue import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqspark.entropy import Entropy

_MOST_TOPICS: Final = 10_000


class RoundRobin:
    """Takes the queues of a topic in turn, beginning anywhere, so that many producers do not march in step.

    Safe to share between threads: a turn is one `next()` of a counter in C.
    """

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._turns: dict[str, Iterator[int]] = {}

    def pick(self, topic: str, queues: Sequence[MessageQueue]) -> MessageQueue:
        """The next of the queues that may be taken. NoPermission where there are none."""
        return _some(topic, queues)[self._turn(topic) % len(queues)]

    def _turn(self, topic: str) -> int:
        turns = self._turns.get(topic)
        if turns is None:
            if len(self._turns) >= _MOST_TOPICS:
                self._turns.clear()  # topics come and go; each begins anywhere anyway
            turns = self._turns.setdefault(topic, count(self._entropy.below(1 << 16)))
        return next(turns)


class Target(NamedTuple):
    """Where the caller wants a message: in a queue (named by its id or in full), the queue of a shard, or anywhere."""

    queue: int | MessageQueue | None = None
    shard: str | None = None

    @property
    def chosen(self) -> bool:
        return self.queue is not None or self.shard is not None

    def choose(self, topic: str, queues: Sequence[MessageQueue]) -> MessageQueue:
        """The caller's queue among those the topic has. InvalidQueue where it has no such queue."""
        if self.queue is not None and self.shard is not None:
            raise InvalidArgument("queue and shard exclude each other.", hint="A shard chooses its queue itself.")
        if self.shard is not None:
            return queue_for_shard(self.shard, _some(topic, queues))
        if isinstance(self.queue, MessageQueue):
            return _among(self.queue, topic, queues)
        return _with_id(self.queue, topic, queues)


def queue_for_shard(shard: str, queues: Sequence[MessageQueue]) -> MessageQueue:
    """The queue of a shard: the same for every client on every machine, as long as the number of queues stays.

    It is the queue that RocketMQ's SelectMessageQueueByHash picks for the same string: |String.hashCode % n|, with
    Java's remainder, which takes the sign of the dividend; so Java and Python producers keep one key in one queue.
    """
    from rmqspark.protocol.java_hash import java_hash  # brings NumPy, which only senders by shard are asked to load

    return queues[abs(java_hash(shard)) % len(queues)]


def _among(queue: MessageQueue, topic: str, queues: Sequence[MessageQueue]) -> MessageQueue:
    if queue.topic != topic:
        raise InvalidQueue(f"Queue {queue} is not of the message's topic, {topic!r}.")
    if queue not in queues:
        raise InvalidQueue(f"Queue {queue} cannot be sent to.", hint=_what_there_is(queues))
    return queue


def _with_id(queue_id: int | None, topic: str, queues: Sequence[MessageQueue]) -> MessageQueue:
    found = [queue for queue in queues if queue.queue_id == queue_id]
    if not found:
        raise InvalidQueue(f"Topic {topic!r} has no queue {queue_id} to send to.", hint=_what_there_is(queues))
    if len(found) > 1:
        brokers = ", ".join(queue.broker_name for queue in found)
        raise InvalidQueue(
            f"Topic {topic!r} has a queue {queue_id} on each of: {brokers}.",
            hint=f"Say which: queue=MessageQueue({topic!r}, {found[0].broker_name!r}, {queue_id}).",
        )
    return found[0]


def _some(topic: str, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
    if not queues:
        raise NoPermission(
            f"No queue of topic {topic!r} can be sent to.",
            hint="Its write permission is off, or the master of its broker is down: rmq topic describe tells.",
        )
    return queues


def _what_there_is(queues: Sequence[MessageQueue]) -> str:
    return f"There are: {', '.join(f'{queue.broker_name}/{queue.queue_id}' for queue in queues[:16]) or 'none'}."

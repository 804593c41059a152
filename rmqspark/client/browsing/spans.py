"""What lies between two positions in the queues of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.errors import Conflict

if TYPE_CHECKING:
    from rmqspark.client.moments import Position
    from rmqspark.client.pull_consumer import PullConsumer
    from rmqspark.message_queue import MessageQueue


class Span(NamedTuple):
    """The messages of one queue at [start, end)."""

    queue: MessageQueue
    start: int
    end: int


def spans(consumer: PullConsumer, topic: str, begin: Position, end: Position) -> list[Span]:
    """What lies between two positions, of each queue of a topic."""
    return [
        Span(queue, resolve(consumer, queue, begin), resolve(consumer, queue, end))
        for queue in readable_queues(consumer, topic)
    ]


def readable_queues(consumer: PullConsumer, topic: str) -> list[MessageQueue]:
    """Conflict where there are none: that nothing is printed would say that nothing is there."""
    queues = consumer.queues(topic)
    if not queues:
        raise Conflict(
            f"Topic {topic!r} has no queue that may be read.", hint=f"Allow it: rmq topic update {topic} --perm rw."
        )
    return queues


def resolve(consumer: PullConsumer, queue: MessageQueue, position: Position) -> int:
    first, last = consumer.min_offset(queue), consumer.max_offset(queue)
    if position.name == "earliest":
        return first
    if position.name == "latest":
        return last
    if position.timestamp_ms is not None:
        return consumer.offset_by_time(queue, position.timestamp_ms)
    if position.after_first is not None:
        return min(last, first + position.after_first)
    offset = position.offset or 0
    return min(last, max(first, offset if offset >= 0 else last + offset))

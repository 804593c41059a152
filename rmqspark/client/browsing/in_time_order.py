"""The messages of several queues as one sequence, in the order in which they were stored.

Each queue is in that order already, or nearly; so the next message is the oldest of those that are first in their
queues, once every queue that goes on has shown its first.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.client.browsing.spans import Span
    from rmqspark.client.pull_consumer import PullConsumer
    from rmqspark.clock import Clock
    from rmqspark.model import MessageQueue, ReceivedMessage

_AHEAD_BYTES = 8 << 20  # of messages of one queue that wait for others; then it is not read on
_OBJECT_BYTES = 1 << 10  # what a message takes beside its body, about: a million small ones are not small
_POLL_MS = 1_000


def in_time_order(consumer: PullConsumer, spans: list[Span]) -> Iterator[ReceivedMessage]:
    """All messages of the spans by store time, those of one queue in its own order. Raises what reading raises."""
    return iter(InTimeOrder(consumer, spans))


class InTimeOrder:
    """The same for who may stop on the way, and go on later from `positions`; by itself it stops once it has been
    `until_ms` by the clock, for a filter may let nothing through."""

    def __init__(
        self, consumer: PullConsumer, spans: list[Span], *, until_ms: int | None = None, clock: Clock | None = None
    ) -> None:
        self._consumer = consumer
        self._queues = [_Waiting(number, span) for number, span in enumerate(spans)]
        self._until_ms = until_ms
        self._clock = clock
        self.is_broken_off = False

    def __iter__(self) -> Iterator[ReceivedMessage]:
        reading: set[MessageQueue] = set()
        queues = self._queues
        while any(queue.open or queue.messages for queue in queues):
            if not any(queue.open and not queue.messages for queue in queues):
                yield from _until_one_is_empty(queues)
            elif self._is_late():
                self.is_broken_off = True
                return
            else:
                reading = _read_on(self._consumer, queues, reading)

    def positions(self) -> dict[MessageQueue, int]:
        """Where each queue goes on: at the first message that was not given yet, or where reading has come to."""
        return {
            each.queue: each.messages[0].queue_offset if each.messages else min(each.position, each.end)
            for each in self._queues
        }

    def _is_late(self) -> bool:
        return self._clock is not None and self._until_ms is not None and self._clock.monotonic_ms() >= self._until_ms


class _Waiting:
    """One queue: how far it is read, and what was read of it and waits for its turn."""

    def __init__(self, number: int, span: Span) -> None:
        self.number = number
        self.queue = span.queue
        self.end = span.end
        self.position = span.start
        self.messages: deque[ReceivedMessage] = deque()
        self.size_bytes = 0

    @property
    def open(self) -> bool:
        return self.position < self.end

    @property
    def has_room(self) -> bool:
        return self.open and self.size_bytes < _AHEAD_BYTES

    def put(self, message: ReceivedMessage) -> None:
        if message.queue_offset < self.end:
            self.messages.append(message)
            self.size_bytes += len(message.body) + _OBJECT_BYTES

    def take(self) -> ReceivedMessage:
        message = self.messages.popleft()
        self.size_bytes -= len(message.body) + _OBJECT_BYTES
        return message


def _read_on(consumer: PullConsumer, queues: list[_Waiting], reading: set[MessageQueue]) -> set[MessageQueue]:
    """Reads what comes next of the queues that have room; returns which they are."""
    by_queue = {waiting.queue: waiting for waiting in queues if waiting.has_room}
    if by_queue.keys() != reading:
        consumer.assign(by_queue)
        for queue in by_queue.keys() - reading:
            consumer.seek(queue, by_queue[queue].position)
    for message in consumer.poll(_POLL_MS):
        by_queue[message.queue].put(message)
    for waiting in by_queue.values():
        waiting.position = consumer.position(waiting.queue)
    return set(by_queue)


def _until_one_is_empty(queues: list[_Waiting]) -> Iterator[ReceivedMessage]:
    """What is certain to be next: up to where a queue that goes on has nothing to show."""
    heads = [(queue.messages[0].store_timestamp_ms, queue.number) for queue in queues if queue.messages]
    heapq.heapify(heads)
    while heads:
        queue = queues[heads[0][1]]
        yield queue.take()
        if queue.messages:
            heapq.heapreplace(heads, (queue.messages[0].store_timestamp_ms, queue.number))
        elif queue.open:
            return
        else:
            heapq.heappop(heads)

"""What one append of single messages brings to each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.record import topic_field
from rmqspark.store.dispatcher import QueuedEntries

if TYPE_CHECKING:
    from rmqspark.store.consume_queue import ConsumeQueue
    from rmqspark.store.consume_queues import ConsumeQueues


class Lane:
    """What goes to one queue."""

    __slots__ = ("delay_ms", "entries", "next_offset", "queue", "tags_codes", "topic_field")

    def __init__(self, queue: ConsumeQueue) -> None:
        self.queue = queue
        self.topic_field = topic_field(queue.topic)
        self.delay_ms = queue.delay_ms
        self.next_offset = queue.next_offset
        self.entries: list[bytes] = []
        self.tags_codes: list[int] = []


class Lanes(dict[tuple[str, int], Lane]):
    """By topic and queue id, made when they are asked for."""

    def __init__(self, queues: ConsumeQueues) -> None:
        super().__init__()
        self._queues = queues

    def __missing__(self, queue: tuple[str, int]) -> Lane:
        lane = self[queue] = Lane(self._queues.get_or_make(*queue))
        return lane

    def queued(self) -> list[QueuedEntries]:
        """What is to be dispatched."""
        return [
            QueuedEntries(lane.queue, lane.queue.next_offset, b"".join(lane.entries), lane.tags_codes)
            for lane in self.values()
            if lane.entries
        ]

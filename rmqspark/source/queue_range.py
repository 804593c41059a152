"""What is read: apart from `planner`, which tasks have no use for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rmqspark.message_queue import MessageQueue


class QueueRange(NamedTuple):
    """The messages of one queue from `start` up to, not including, `end`."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

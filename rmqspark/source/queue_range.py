"""What is read: apart from `planner`, which tasks have no use for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rmqspark.message_queue import MessageQueue


class QueueRange(NamedTuple):
    """The messages of one queue from `start` up to, not including, `end`; when a topic of that name had last been
    deleted, ms (0: never); and in which store they are ("": one that does not say). After a later deletion, and in
    another store, these offsets are other messages'."""

    queue: MessageQueue
    start: int
    end: int
    topic_deleted_ms: int = 0
    store_id: str = ""

    @property
    def size(self) -> int:
        return self.end - self.start

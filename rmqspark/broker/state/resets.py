"""Resets of groups that their readers have not heard of yet. Pure; kept over a restart (config/offsetResets.json).

An operator moved a committed offset; until whoever reads the queue for the group knows, commits are not taken, else
they would undo it. A stock consumer is told by its next pull. A streaming query asks (RMQ_GROUP_RESETS), writes the new
place into its checkpoint, and only then says that it knows: whatever dies in between, the reset is asked for again.
RocketMQ keeps the same table in memory only (ConsumerOffsetManager.resetOffsetTable).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.protocol.bodies.admin import ConsumerOffsetTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class GroupQueue(NamedTuple):
    """One queue as one group sees it."""

    group: str
    topic: str
    queue_id: int


class PendingResets:
    """Where readers have to go on, by group and queue. `revision` moves with every change."""

    def __init__(self) -> None:
        self.revision = 0
        self._offsets: dict[GroupQueue, int] = {}

    def __contains__(self, queue: GroupQueue) -> bool:
        return queue in self._offsets

    def put(self, queue: GroupQueue, offset: int) -> None:
        self._offsets[queue] = offset
        self.revision += 1

    def take(self, queue: GroupQueue) -> int | None:
        """The offset, told once; None if there was no reset."""
        offset = self._offsets.pop(queue, None) if self._offsets else None
        self.revision += offset is not None
        return offset

    def of(self, group: str) -> dict[GroupQueue, int]:
        return {queue: offset for queue, offset in self._offsets.items() if queue.group == group}

    def settle(self, queue: GroupQueue, offset: int) -> None:
        """The reader stands at `offset` now. Another reset that came meanwhile stays."""
        if self._offsets.get(queue) == offset:
            self.take(queue)

    def forget(self, concerned: Callable[[GroupQueue], bool]) -> None:
        for queue in [queue for queue in self._offsets if concerned(queue)]:
            self.take(queue)

    def forget_topics(self, topics: Collection[str]) -> None:
        self.forget(lambda queue: queue.topic in topics)

    def table(self) -> ConsumerOffsetTable:
        """In the form of config/offsetResets.json, which is that of consumerOffset.json."""
        offsets: dict[str, dict[int, int]] = {}
        for queue, offset in self._offsets.items():
            offsets.setdefault(f"{queue.topic}@{queue.group}", {})[queue.queue_id] = offset
        return ConsumerOffsetTable(offsets)

    def load(self, table: ConsumerOffsetTable) -> None:
        """Takes over a stored table; keys that are not `topic@group` are left out."""
        for key, queues in table.offsetTable.items():
            topic, _, group = key.partition("@")
            if topic and group:
                self._offsets.update((GroupQueue(group, topic, each), offset) for each, offset in queues.items())

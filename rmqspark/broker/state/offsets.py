"""How far each consumer group has come: the next offset it will consume, per topic and queue.

Three things are known of a group and a queue, in falling order of weight:
- the *committed* offset, which survives restarts (config/consumerOffset.json);
- a *pending reset*: an operator moved the committed offset, and its reader has to be told so. Until then commits are
  ignored (`resets`);
- the *pull offset*: where the next pull will probably begin. Only shown to operators.
RocketMQ: ConsumerOffsetManager; spec: requests, sections 5 and 7 (code 222), storage, section 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.state.resets import GroupQueue, PendingResets
from rmqspark.errors import Busy
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable
from rmqspark.protocol.bodies.route import DataVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping


_MOST: Final = 4_000_000  # some hundred megabytes


class ConsumerOffsets:
    """The offset table of one broker. `revision` moves with every change that a restart must remember. It has `most`
    committed offsets at most: all groups may commit to all queues."""

    def __init__(self, most: int = _MOST) -> None:
        self.revision = 0
        self.resets = PendingResets()
        self._most = most
        self._count = 0
        self._committed: dict[tuple[str, str], dict[int, int]] = {}  # (topic, group) -> queue id -> offset
        self._pulled: dict[GroupQueue, int] = {}

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Stores the group's next offset. False, with nothing stored, while a reset waits for the next pull. Raises
        Busy for one too many."""
        if self.has_reset(group, topic, queue_id):
            return False
        self._store(group, topic, queue_id, offset)
        return True

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """The group's next offset; None if it never committed one."""
        queues = self._committed.get((topic, group))
        return None if queues is None else queues.get(queue_id)

    def committed_queues(self, group: str, topic: str) -> Mapping[int, int]:
        """Queue id -> committed offset, of the queues that have one."""
        return self._committed.get((topic, group), {})

    def pairs(self) -> list[tuple[str, str]]:
        """Topics and groups of which something is committed."""
        return list(self._committed)

    def snapshot(self) -> dict[tuple[str, str], dict[int, int]]:
        """All committed offsets as they are now, by topic and group, then queue. Of a hundred thousand pairs it takes
        a tenth of a second."""
        return {pair: queues.copy() for pair, queues in self._committed.items()}

    def clone(self, source: str, target: str, topic: str) -> None:
        """One group is in all queues of a topic where another one is, if that committed anything in it. Resets that
        wait for the next pull stay. Raises Busy for too many."""
        queues = self._committed.get((topic, source))
        if queues is not None and source != target:
            self._require_room(len(queues) - len(self._committed.get((topic, target), ())))
            self._replace({(topic, target): queues.copy()})
            self.revision += 1

    def note_pull(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        queue = GroupQueue(group, topic, queue_id)
        if queue in self._pulled or len(self._pulled) < self._most:
            self._pulled[queue] = next_offset

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        return self._pulled.get(GroupQueue(group, topic, queue_id))

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Moves the committed offset and has the reader told. Raises Busy for one too many."""
        self._store(group, topic, queue_id, offset)
        self.resets.put(GroupQueue(group, topic, queue_id), offset)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether a reset waits for the next pull."""
        return GroupQueue(group, topic, queue_id) in self.resets

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset a pull must be told instead of an answer, once; None if there was no reset."""
        return self.resets.take(GroupQueue(group, topic, queue_id))

    def topics_of(self, group: str) -> list[str]:
        return sorted(topic for topic, owner in self._committed if owner == group)

    def groups_of(self, topic: str) -> list[str]:
        return sorted(group for name, group in self._committed if name == topic)

    def forget_topics(self, topics: Collection[str]) -> None:
        self._forget(lambda topic, _: topic in topics)

    def forget_group(self, group: str) -> None:
        self._forget(lambda _, owner: owner == group)

    def forget_pairs(self, pairs: Collection[tuple[str, str]]) -> None:
        """Of these topics and groups."""
        self._forget(lambda topic, owner: (topic, owner) in pairs)

    def clamp(self, bounds: Callable[[str, int], tuple[int, int]]) -> list[tuple[GroupQueue, int]]:
        """Moves every committed offset into [min, max] of its queue; returns what was moved, and from where.

        A log that lost its tail is shorter than some groups remember. Left alone, such a group would skip the first
        messages that are stored next (reliability, G5).
        """
        moved = []
        for queue, offset in list(self):
            low, high = bounds(queue.topic, queue.queue_id)
            inside = min(max(offset, low), high)
            if inside != offset:
                self._store(*queue, inside)
                moved.append((queue, offset))
        return moved

    def __iter__(self) -> Iterator[tuple[GroupQueue, int]]:
        for (topic, group), queues in self._committed.items():
            for queue_id, offset in queues.items():
                yield GroupQueue(group, topic, queue_id), offset

    def table(self, now_ms: int) -> ConsumerOffsetTable:
        """The table in the form of config/consumerOffset.json, and of code 43."""
        offsets = {f"{topic}@{group}": dict(queues) for (topic, group), queues in self._committed.items()}
        return ConsumerOffsetTable(offsets, DataVersion(counter=self.revision, timestamp=now_ms))

    def load(self, table: ConsumerOffsetTable) -> None:
        """Takes over a stored table. Keys that are not `topic@group` are left out, as RocketMQ does."""
        self._replace(by_pair(table))

    def follow(self, table: ConsumerOffsetTable) -> set[tuple[str, str]]:
        """Takes over what a master's table says, and returns the topics and groups that it names; of others nothing
        changes."""
        told = by_pair(table)
        changed = {pair: queues for pair, queues in told.items() if self._committed.get(pair) != queues}
        self._replace(changed)
        self.revision += len(changed)
        return set(told)

    def _replace(self, offsets: Mapping[tuple[str, str], dict[int, int]]) -> None:
        for pair, queues in offsets.items():
            self._count += len(queues) - len(self._committed.get(pair, ()))
            self._committed[pair] = queues

    def _store(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        queues = self._committed.get((topic, group), {})
        if queue_id not in queues:
            self._require_room(1)
            self._count += 1
            self._committed[topic, group] = queues
        queues[queue_id] = offset
        self.revision += 1

    def _require_room(self, more: int) -> None:
        if more > 0 and self._count + more > self._most:
            raise Busy(
                f"This broker has {self._count} committed offsets, and may have {self._most}.",
                hint="Delete groups that nobody reads for any more: rmq group delete.",
            )

    def _forget(self, concerned: Callable[[str, str], bool]) -> None:
        gone = [key for key in self._committed if concerned(*key)]
        for key in gone:
            self._count -= len(self._committed.pop(key))
        self.revision += bool(gone)
        for queue in [queue for queue in self._pulled if concerned(queue.topic, queue.group)]:
            del self._pulled[queue]
        self.resets.forget(lambda queue: concerned(queue.topic, queue.group))


def by_pair(table: ConsumerOffsetTable) -> dict[tuple[str, str], dict[int, int]]:
    """Offsets by topic and group, then queue."""
    keys = {key: key.partition("@") for key in table.offsetTable}
    return {(topic, group): table.offsetTable[key] for key, (topic, _, group) in keys.items() if topic and group}

"""What masters let go of in a run, read before it goes: so that what has expired can be told from what was lost.

Expiry takes whole files of the log, and the first messages of each queue with them. What is still there is noted before
each round; what the round took, or one that a crash cut short, is below where the queue begins from then on.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rmqspark.client.pulling.received import received_all
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC
from rmqspark.store.message_store import MessageStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage
    from rmqspark.testing.sim.node import Node
    from rmqspark.testing.sim.world import World

_MOST_BYTES = 1 << 30


class Expired:
    """Of all queues that are looked at, as far as the last look goes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._masters: dict[str, Node] = {}
        self._stores: dict[str, MessageStore] = {}
        self._queues: dict[str, list[MessageQueue]] = {}
        self._held: dict[MessageQueue, list[ReceivedMessage]] = {}
        self._begins: dict[MessageQueue, list[int]] = {}
        self._gone: dict[MessageQueue, dict[int, str]] = {}
        """Names of messages by their offsets."""

    def watch(self, masters: dict[str, Node], queues: Iterable[MessageQueue]) -> None:
        """From now on, what these queues lose by expiry is noted."""
        self._masters = masters
        for queue in queues:
            self._queues.setdefault(queue.broker_name, []).append(queue)
        self._world.replaced.append((MessageStore, "expire", self._watched(MessageStore.expire)))

    def opened(self, broker_name: str, store: MessageStore) -> None:
        """A master begins to serve. Its last life may have ended within a round."""
        self._stores[broker_name] = store
        if broker_name in self._masters:
            self._look(broker_name)

    def begin(self, queue: MessageQueue) -> int:
        """The offset before which all has expired."""
        begins = self.begins(queue)
        return begins[-1] if begins else 0

    def begins(self, queue: MessageQueue) -> list[int]:
        """That, and what it was before, since something has expired. A broker that starts lifts to there what groups
        have committed."""
        return self._begins.get(queue, [])

    def names(self, queues: Iterable[MessageQueue]) -> Counter[str]:
        """How often each message was there, of those that have expired."""
        return Counter(name for queue in queues for name in self._gone.get(queue, {}).values())

    def _look(self, broker_name: str) -> None:
        """Where the queues of a master begin by now."""
        with self._masters[broker_name].files.undisturbed():
            for queue in self._queues.get(broker_name, ()):
                self._take(queue, begin_of(self._stores[broker_name], queue))

    def _take(self, queue: MessageQueue, begin: int) -> None:
        """All before `begin` is gone, and nothing else: files that went come back where the power does before that is
        on disk."""
        if begin == self.begin(queue):
            return
        self._begins.setdefault(queue, []).append(begin)
        gone = self._gone.setdefault(queue, {})
        for offset in [offset for offset in gone if offset >= begin]:
            del gone[offset]
        taken = [each for each in self._held.get(queue, ()) if each.queue_offset < begin]
        taken = [each for each in taken if each.queue_offset not in gone]
        if not taken:
            return
        self._world.trace.reached("message expired")
        gone.update((each.queue_offset, each.keys[0] if each.keys else "") for each in taken)
        if queue.topic == CHECK_MAX_TIME_TOPIC:  # nobody reads that: it is no part of the history
            return
        number = self._world.history.reading(f"expired/{queue}", queue, taken[0].queue_offset)
        self._world.history.seen(number, taken[-1].queue_offset + 1, taken)

    def _watched(self, expire: Any) -> Any:
        def watched(store: MessageStore, now_ms: int, **kept: int | None) -> Any:
            if self._world.is_healed:
                return expire(store, now_ms, keep_from=0)
            master = next((name for name, of_master in self._stores.items() if of_master is store), "")
            if master:
                self._note(master)
            report = expire(store, now_ms, **kept)
            if master and report.deleted:
                self._look(master)
            return report

        return watched

    def _note(self, broker_name: str) -> None:
        with self._masters[broker_name].files.undisturbed():
            for queue in self._queues.get(broker_name, ()):
                self._held[queue] = messages_of(self._stores[broker_name], queue)


def begin_of(store: MessageStore, queue: MessageQueue) -> int:
    """The offset of the first message that is there."""
    return store.read(queue.topic, queue.queue_id, 0, max_count=1, max_bytes=1).min_offset


def messages_of(store: MessageStore, queue: MessageQueue) -> list[ReceivedMessage]:
    begin = begin_of(store, queue)
    found = store.read(queue.topic, queue.queue_id, begin, max_count=100_000, max_bytes=_MOST_BYTES)
    return received_all(bytes(found.body), queue.broker_name) if found.count else []

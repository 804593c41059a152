"""A master whose disk is gone for good, and the slave that an operator makes the master in its place.

What the operator does is what docs/operations.md says: stop the slave, start its store with id 0 and a master's role.
The old master never comes back, or comes back as a slave of its successor, with an empty store, or with the one it had.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from rmqspark.broker.replica.replicating import MasterRole
from rmqspark.message_queue import MessageQueue
from rmqspark.testing.sim.cluster import BrokerPlace, opened_by, place
from rmqspark.testing.sim.loop import LIFE

if TYPE_CHECKING:
    from rmqspark.broker.given import Given
    from rmqspark.store.message_store import MessageStore
    from rmqspark.store.replica import ReplicaLog
    from rmqspark.testing.sim.cluster import Cluster, Plan
    from rmqspark.testing.sim.world import World


class Return(Enum):
    """How a master that was lost comes back, as a slave."""

    NEVER = "never"
    EMPTY = "with an empty store"
    AS_IT_WAS = "with the store that it had"


class Succession:
    """Of one master by its slave, from the loss of its host on. Each step is taken once."""

    def __init__(self, world: World, cluster: Cluster, plan: Plan, name: str, returns: Return) -> None:
        self._world = world
        self._cluster = cluster
        self._plan = plan
        self._name = name
        self._returns = returns
        self._master, self._slave = cluster.brokers[name], cluster.slaves[name][0]
        self._is_promoted = False
        self.is_lost = False
        self.is_over = False

    def lose(self, *, silently: bool) -> None:
        """The host dies, and in most cases its disk is empty when it is there again, if ever."""
        if self.is_lost:
            return
        self.is_lost = True
        store = self._master.server.store
        self._world.heirs.lost(self._name, store.safe_offset, _ends_of(store, self._name))
        if self._master.is_up:
            self._master.lose_power(silently=silently)
        if self._returns is not Return.AS_IT_WAS:
            self._master.files.wipe()

    def promote(self) -> None:
        """The slave, which must be down, starts as the master. Where there is no other copy any more it waits for
        none."""
        self._is_promoted = True
        comes_back = self._returns is not Return.NEVER
        role = self._plan.broker.broker_role if comes_back else "ASYNC_MASTER"
        self._cluster.brokers[self._name] = heir = self._slave
        self._cluster.slaves[self._name] = [self._master] if comes_back else []
        place(self._plan, heir, BrokerPlace(self._name, 0, role))
        self._master.on_listen = _nobody
        heir.on_listen = opened_by(self._world, self._name, heir)
        self._world.heirs.promoted(self._name, heir.host)
        self._cluster.succeeded(self._name)
        self._world.trace.reached("slave made the master")
        self._world.note(f"{heir.name} is the master of {self._name}, a {role}")
        heir.start()

    def come_back(self) -> None:
        """The old master's host starts again, if it ever does."""
        self.is_over = True
        if self._returns is not Return.NEVER:
            self._world.trace.reached(f"master came back {self._returns.value}")
            place(self._plan, self._master, BrokerPlace(self._name, 1, "SLAVE"))
            self._master.start()

    def finish(self) -> None:
        """All that is left to do, at once."""
        if not self.is_lost:
            self.is_over = True
        if not self.is_over and not self._is_promoted:
            self._slave.kill()
            self.promote()
        if not self.is_over:
            self.come_back()


class Heirs:
    """What is known of stores that became a master's: how much of what their masters had shown they have."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._shown: dict[str, tuple[int, dict[MessageQueue, int]]] = {}
        self._waited_for: dict[str, str] = {}
        self._bare: set[str] = set()
        self.reused: dict[MessageQueue, range] = {}
        """Offsets of messages that nobody had been promised to keep, and that others may get now."""
        self.excused: dict[str, int] = {}
        """By how much an incarnation was raised though nothing is missing that had been readable."""
        self.raised: dict[str, int] = {}
        """The same, for all promotions."""

    def watch(self) -> None:
        self._world.replaced.append((MasterRole, "__init__", self._watched(MasterRole.__init__)))

    def lost(self, name: str, shown: int, ends: dict[MessageQueue, int]) -> None:
        self._shown[name] = shown, ends

    def promoted(self, name: str, host: str) -> None:
        self._waited_for[host] = name

    def is_awaited(self, name: str) -> bool:
        """Whether its store's next incarnation is one of a slave made the master."""
        return name in self._waited_for.values()

    def opened(self, name: str, raised_by: int) -> None:
        """The first time it serves."""
        self._waited_for = {host: other for host, other in self._waited_for.items() if other != name}
        self.raised[name] = self.raised.get(name, 0) + raised_by
        if name in self._bare:
            self._world.trace.reached("slave made the master lacked what was not promised")
        else:
            self.excused[name] = self.excused.get(name, 0) + raised_by
        if raised_by < 1:
            self._world.violated(f"Law 15: {name} has another store, and says nothing of it")

    def kept(self, name: str, raised_by: int) -> bool:
        """Whether all that was acknowledged must be there, though its incarnation has risen by so much."""
        if name in self._bare and not self._world.promises_copies:
            return False
        return raised_by == self.raised.get(name, 0)

    def _watched(self, begin: Any) -> Any:
        def watched(role: MasterRole, given: Given, store: MessageStore, *others: Any) -> None:
            life = LIFE.get()
            name = self._waited_for.get(life.host, "") if life is not None else ""
            if name in self._shown:
                self._compare(name, store.replica)
            begin(role, given, store, *others)

        return watched

    def _compare(self, name: str, replica: ReplicaLog) -> None:
        shown, ends = self._shown.pop(name)
        if replica.end_offset >= shown:
            return
        self._bare.add(name)
        has = {(queue.topic, queue.queue_id): queue.max_offset for queue in replica._queues}
        for queue, end in ends.items():
            begin = has.get((queue.topic, queue.queue_id), 0)
            if begin < end:
                before = self.reused.get(queue, range(begin, end))
                self.reused[queue] = range(min(begin, before.start), max(end, before.stop))
        self._world.note(f"{name} begins at {replica.end_offset}, {shown} had been shown: {self.reused}")


def _ends_of(store: Any, name: str) -> dict[MessageQueue, int]:
    return {
        MessageQueue(topic, name, queue_id): store.queues.bounds(topic, queue_id)[1]
        for topic in store.queues.topics()
        for queue_id in store.queues.queue_ids(topic)
    }


def _nobody() -> None:
    """Of a slave nothing is told."""

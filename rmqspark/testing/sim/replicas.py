"""Law 11: what a SYNC_MASTER acknowledged its slave has, and where both logs are, they are the same to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.store.message_store import MessageStore
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.node import Node
    from rmqspark.testing.sim.world import World

_COMPARED_BYTES: Final = 4_096


class Replicas:
    """The masters of a run and their slaves."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._cluster = cluster

    def acknowledged(self, broker_name: str, physical_offset: int) -> None:
        """A SYNC_MASTER has just said that this is stored: on a slave, then. One that is down has to be believed."""
        slaves = self._cluster.slaves[broker_name]
        ends = [_store_of(slave).end_offset for slave in slaves if slave.serves]
        if ends and len(ends) == len(slaves) and not self._world.heirs.is_awaited(broker_name):
            self._world.trace.reached("slave looked at after an answer")
            if max(ends) <= physical_offset:
                self._world.violated(f"Law 11: {broker_name} acknowledged {physical_offset}, its slaves end at {ends}")

    def left_behind(self) -> list[Node]:
        """Slaves that lack what has expired on their master: an operator has to empty them. All must serve."""
        return [
            slave
            for name, master in self._cluster.brokers.items()
            for slave in self._cluster.slaves[name]
            if not _store_of(slave).replica.is_empty
            and _store_of(slave).end_offset <= _store_of(master).min_physical_offset
        ]

    def all_have_come_up(self) -> bool:
        """Whether every slave has all that its master has."""
        return all(
            _store_of(master).end_offset == _store_of(slave).end_offset
            for name, master in self._cluster.brokers.items()
            for slave in self._cluster.slaves[name]
        )

    def compare(self) -> None:
        """All must serve."""
        for name, master in self._cluster.brokers.items():
            for slave in self._cluster.slaves[name]:
                differs_at = _first_difference(_store_of(master), _store_of(slave))
                if differs_at is not None:
                    self._world.violated(f"Law 11: the log of {slave.name} is not its master's, from {differs_at} on")

    def lacks_the_begin(self, broker_name: str, broker_id: int) -> bool:
        """Whether it is a slave whose log does not begin where its master's does."""
        if not broker_id:
            return False
        slave = self._cluster.slaves[broker_name][broker_id - 1]
        return _store_of(slave).min_physical_offset > _store_of(self._cluster.brokers[broker_name]).min_physical_offset

    def __str__(self) -> str:
        ends = {node.name: _store_of(node).end_offset for node in self._cluster.with_stores if node.serves}
        return f"logs end at {ends}"


def is_copied(master: Node, slave: Node) -> bool:
    """Whether a slave has all that its master has, at this moment: the log, and on its disk whose store that is and
    that there are the same topics. One that has only messages which wait for their time is nowhere else."""
    if not master.serves or not slave.serves or _store_of(master).end_offset != _store_of(slave).end_offset:
        return False
    if not _store_of(slave).end_offset:  # then there is nothing by which the two could know each other again
        return False
    if not _store_of(slave).lineage.is_known:
        return False
    known: list[BrokerTables] = [node.server._parts.tables for node in (master, slave)]
    masters, slaves = ({topic.topicName for topic in tables.topics} for tables in known)
    return masters <= slaves and all(file.is_saved for file in known[1]._files)


def _store_of(node: Node) -> MessageStore:
    store: MessageStore = node.server.store
    return store


def _first_difference(master: MessageStore, slave: MessageStore) -> int | None:
    """Roughly: the begin of the piece they differ in."""
    at, end = max(master.min_physical_offset, slave.min_physical_offset), min(master.end_offset, slave.end_offset)
    while at < end:
        size = min(_COMPARED_BYTES, end - at)
        ours, theirs = master.read_range(at, size), slave.read_range(at, size)
        same = min(len(ours), len(theirs))
        if not same or ours[:same] != theirs[:same]:
            return at
        at += same
    return None

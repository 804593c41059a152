"""What may go on in a run besides its sends and reads; each kind is told in a module of its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from rmqspark.client.received import received_all
from rmqspark.errors import OffsetNotFound
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import OffsetResponseHeader, QueryConsumerOffsetRequestHeader
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC
from rmqspark.testing.sim.group_offsets import FIRST_INCARNATION
from rmqspark.testing.sim.groups import GroupLaws, GroupPlan, Member
from rmqspark.testing.sim.places import Place
from rmqspark.testing.sim.readers import QueueReader
from rmqspark.testing.sim.transactions import GROUP, Database, TransactionPlan, TransactionSender

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rmqspark.message_queue import MessageQueue
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.node import Node
    from rmqspark.testing.sim.world import World

_TIMEOUT_MS = 5_000


class Plot(Protocol):
    """Begins with the faults, and goes on after the healing until it is settled."""

    topics: list[str]
    groups: list[str]
    """What it needs on all brokers."""

    @property
    def hosts(self) -> list[str]:
        """Where its clients are."""

    def begin(self) -> list[asyncio.Task[Any]]:
        """What must end by itself after `end`."""

    def healed(self) -> None:
        """Nothing goes wrong any more, and nobody has to make it."""

    def unsettled(self) -> str:
        """What is still to come, once nobody sends any more; empty where all is done."""

    def end(self) -> None:
        """It has been settled."""

    async def judge(self, operator: SimClient) -> None:
        """When it has ended, while servers still serve. Raises RmqError."""


class GroupPlot:
    """A group of push consumers reads the queues that producers send to."""

    def __init__(
        self, world: World, cluster: Cluster, plan: GroupPlan, queues: Sequence[MessageQueue], namesrvs: list[str]
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._plan = plan
        self._queues = queues
        self.topics: list[str] = []
        self.groups = [plan.name]
        self._laws = GroupLaws(world, cluster, plan, queues[0].topic)
        self.hosts = [f"127.0.7.{number + 1}" for number in range(plan.members)]
        self._members = [
            Place(world, f"{plan.name}-{number}", host, namesrvs, lambda process: Member(process, plan, self._laws))
            for number, host in enumerate(self.hosts)
        ]

    def begin(self) -> list[asyncio.Task[Any]]:
        return [self._world.spawn(member.run()) for member in self._members]

    def healed(self) -> None:
        for member in self._members:
            member.is_healed = True

    def unsettled(self) -> str:
        missing = {str(queue): at for queue in self._queues if (at := self._laws.missing(queue, self._end_of(queue)))}
        return f"group {self._plan.name} has not consumed {missing}" if missing else ""

    def _end_of(self, queue: MessageQueue) -> int:
        store = self._cluster.brokers[queue.broker_name].server.store
        end: int = store.read(queue.topic, queue.queue_id, 0, max_count=1, max_bytes=1).max_offset
        return end

    def end(self) -> None:
        for member in self._members:
            member.is_to_stop = True

    async def judge(self, operator: SimClient) -> None:
        for queue in filter(self._laws.is_whole, self._queues):
            header = QueryConsumerOffsetRequestHeader(
                self._plan.name, queue.topic, queue.queue_id, setZeroIfNotFound=False, bname=queue.broker_name
            )
            address = await operator.address_of(queue)
            answer = await operator.call(address, RequestCode.QUERY_CONSUMER_OFFSET, header, timeout_ms=_TIMEOUT_MS)
            try:
                committed = answer.raise_for_code().header(OffsetResponseHeader).offset
            except OffsetNotFound:
                committed = 0
            if committed != self._end_of(queue):
                self._world.violated(
                    f"Law 10: {self._plan.name} has left, committed {committed} of {queue}, which ends at {self._end_of(queue)}"
                )


class TransactionPlot:
    """Producers of transactions, and readers of what they send."""

    def __init__(
        self, world: World, cluster: Cluster, plan: TransactionPlan, queues: Sequence[MessageQueue], reader: SimClient
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._database = database = Database(world, plan)
        self.topics = [queues[0].topic]
        self.groups: list[str] = []
        self._readers = [QueueReader(reader, queue) for queue in queues]
        self.hosts = [f"127.0.6.{number + 1}" for number in range(plan.producers)]
        self._places = [
            Place(
                world,
                f"{GROUP}-{number}",
                host,
                reader.namesrvs,
                lambda process: TransactionSender(process, plan, database, queues[0].topic),
            )
            for number, host in enumerate(self.hosts)
        ]

    def begin(self) -> list[asyncio.Task[Any]]:
        reading = [reader.client.spawn(reader.follow()) for reader in self._readers]
        return [*reading, *(self._world.spawn(place.run()) for place in self._places)]

    def healed(self) -> None:
        for place in self._places:
            place.is_healed = True

    def unsettled(self) -> str:
        is_open = {name: len(node.server._parts.halves) for name, node in self._cluster.brokers.items()}
        return f"half messages are open: {is_open}" if any(is_open.values()) else ""

    def end(self) -> None:
        for one in (*self._places, *self._readers):
            one.is_to_stop = True

    async def judge(self, operator: SimClient) -> None:
        self._database.close()
        readable: Counter[str] = Counter()
        for reader in self._readers:
            last = QueueReader(operator, reader.queue)
            await last.scan()
            readable.update(last.names)
        set_aside = Counter(name for node in self._cluster.brokers.values() for name in _set_aside(node))
        whole = [name for name in self._cluster.brokers if self._world.incarnations[name] == FIRST_INCARNATION]
        for wrong in self._database.judge(readable, set_aside, whole, len(self._cluster.brokers)):
            self._world.violated(f"Law 8: {wrong}")


def _set_aside(node: Node) -> Iterator[str]:
    found = node.server.store.read(CHECK_MAX_TIME_TOPIC, 0, 0, max_count=10_000, max_bytes=1 << 30)
    for message in received_all(bytes(found.body), node.name) if found.count else []:
        yield message.keys[0]

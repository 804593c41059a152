"""Members of a shared group, run by run: what they ask brokers for, and what they make of the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.client.cluster.group_reading import leases_body, leases_of
from rmqspark.errors import LeaseLost, RmqError
from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import GroupLeasesRequestHeader
from rmqspark.rebalance.handover import NOT_COMMITTED, Held, Steps, standing, steps
from rmqspark.testing.sim.lease_laws import NEVER_COMMITTED, Heard

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Sequence
    from typing import Any

    from rmqspark.client.cluster.group_reading import Leases
    from rmqspark.message_queue import MessageQueue
    from rmqspark.rebalance.handover import Grant
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.leases import LeaseLaws, LeasePlan
    from rmqspark.testing.sim.readers import QueueReader

GROUP: Final = "shared-billing"
_CHANGES_ITS_MIND: Final = 0.3
_ONLY_RENEWS: Final = 0.3
_IS_FROZEN: Final = 0.5
_LONGEST_FROZEN_S: Final = 20.0


class QueryRun:
    """One run of a query, and what it holds. What it has read is what a reader of the simulation has."""

    def __init__(self, client: SimClient, plan: LeasePlan, readers: Sequence[QueueReader]) -> None:
        self.held: dict[MessageQueue, Held] = {}
        self.is_over = False
        """Whether a later one has taken over."""
        self.wanted: set[MessageQueue] = set()
        self._client = client
        self._plan = plan
        self._readers = {reader.queue: reader for reader in readers}
        self._brokers = sorted({queue.broker_name for queue in self._readers})
        self._runs: dict[str, int] = {}

    async def ask(self, cluster: Cluster, laws: LeaseLaws) -> bool:
        """Once round all brokers; whether all have answered."""
        return all([await self._ask(name, cluster, laws) for name in self._brokers])

    def change_its_mind(self) -> None:
        """Which queues are to be its own from now on."""
        random, queues = self._client.random, list(self._readers)
        if random.random() < _CHANGES_ITS_MIND:
            self.wanted = set(random.sample(queues, random.randint(0, len(queues))))

    async def _ask(self, broker_name: str, cluster: Cluster, laws: LeaseLaws) -> bool:
        try:
            await self._exchange(broker_name, cluster, laws)
        except LeaseLost:
            self.is_over = True
            return False
        except RmqError as error:
            self._client.world.trace.reached(f"lease {type(error).__name__}")
            return False
        return True

    async def _exchange(self, broker_name: str, cluster: Cluster, laws: LeaseLaws) -> None:
        client, node, asked = self._client, cluster.brokers[broker_name], self._steps(broker_name)
        run, loop = self._runs.get(broker_name), client.world.loop
        address = await client.address_of(next(queue for queue in self._readers if queue.broker_name == broker_name))
        life, sent_s = node.life, loop.time()
        if run is not None:
            laws.asking(asked, run)
        answer = await client.call(
            address,
            RequestCode.RMQ_GROUP_LEASES,
            GroupLeasesRequestHeader(GROUP, client.name, run),
            leases_body(broker_name, asked).encode(),
            timeout_ms=self._plan.timeout_ms,
        )
        told = GroupLeasesAnswerBody.decode(answer.raise_for_code().body)
        leases, heard = leases_of(told), Heard(client.name, sent_s, loop.time(), told.leaseMs / 1000)
        self._take_over(asked, leases)
        self._runs[broker_name] = told.run
        if run is None:
            laws.begun(broker_name, heard, told.run)
        laws.told(asked, leases.granted, heard, told.run)
        if cluster.brokers[broker_name] is not node:  # the answer is older than what has happened since
            laws.succeeded(broker_name)
        elif life is not node.life:
            laws.master_ended(broker_name)

    def _steps(self, broker_name: str) -> Steps:
        """A part of what is to be done: what is given up is out of its hands, whether or not that is answered."""
        random, held = self._client.random, {}
        for queue in [queue for queue in self.held if queue.broker_name == broker_name]:
            position = max(self.held[queue].position, self._readers[queue].position)
            renews = random.random() < _ONLY_RENEWS
            held[queue] = self.held[queue]._replace(position=NOT_COMMITTED if renews else position)
        asked = steps(held, {queue for queue in self.wanted if queue.broker_name == broker_name})
        for queue in asked.release:
            del self.held[queue]
        return asked

    def _take_over(self, asked: Steps, leases: Leases) -> None:
        trace, now = self._client.world.trace, standing(asked, leases.granted)
        for queue in now.lost:
            trace.reached("lease lost")
            self.held.pop(queue, None)
        for queue, grant in now.entering.items():
            trace.reached("queue leased")
            self.held[queue] = Held(grant.lease, max(place_of(grant), 0))
        for queue in asked.keep.keys() & now.kept.keys():
            if asked.keep[queue].position != NOT_COMMITTED:
                self.held[queue] = asked.keep[queue]


class LeasingMember:
    """A query of the group, one run after the other. A run that is followed by another while it is frozen wakes later:
    it asks on until it hears that it is over."""

    def __init__(
        self, client: SimClient, plan: LeasePlan, share: Collection[MessageQueue], readers: Sequence[QueueReader]
    ) -> None:
        """`share` is what it wants in the end."""
        self.is_to_stop = False
        self.has_its_share = False
        """Whether it had all of it, and nothing else, in its last round, and nothing goes wrong any more."""
        self.client = client
        self._plan = plan
        self._share = set(share)
        self._readers = readers
        self._run = QueryRun(client, plan, readers)
        self._frozen: list[asyncio.Task[Any]] = []

    async def run(self, cluster: Cluster, laws: LeaseLaws) -> None:
        """Until it is to stop."""
        while not self.is_to_stop:
            if self._run.is_over or (self._begins_anew() and not self._is_healed):
                self._begin_anew(cluster, laws)
            self._decide()
            was_asked = await self._run.ask(cluster, laws)
            self.has_its_share = was_asked and self._is_healed and self._run.held.keys() == self._share
            await self.client.pause(self._plan.longest_pause_s)
        for frozen in self._frozen:
            await frozen

    @property
    def _is_healed(self) -> bool:
        return self.client.world.is_healed

    def _begins_anew(self) -> bool:
        return self.client.random.random() < self._plan.begins_anew

    def _begin_anew(self, cluster: Cluster, laws: LeaseLaws) -> None:
        self.client.world.trace.reached("query began anew")
        if not self._run.is_over and self.client.random.random() < _IS_FROZEN:
            self._frozen.append(self.client.spawn(self._wake(self._run, cluster, laws)))
        self._run = QueryRun(self.client, self._plan, self._readers)

    async def _wake(self, run: QueryRun, cluster: Cluster, laws: LeaseLaws) -> None:
        await self.client.pause(_LONGEST_FROZEN_S)
        while not (run.is_over or self._is_healed):
            self.client.world.trace.reached("frozen query went on")
            run.change_its_mind()
            await run.ask(cluster, laws)
            await self.client.pause(self._plan.longest_pause_s)

    def _decide(self) -> None:
        if self._is_healed:
            self._run.wanted = self._share
        else:
            self._run.change_its_mind()


def place_of(grant: Grant) -> int:
    """Where the group is."""
    return NEVER_COMMITTED if grant.committed is None else grant.committed

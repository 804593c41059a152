"""Queries that share a group: members that lease its queues, commit under the leases, and hand queues over.

They ask what those of `groupMode=shared` ask between two micro-batches (`rebalance/handover.py`), and change their mind
about which queues are theirs all the time. One may begin anew, as another run of its query. Law 12 says what they hear.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.group_reading import leases_body, leases_of
from rmqspark.errors import LeaseLost, OffsetNotFound, RmqError
from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import (
    GroupLeasesRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
)
from rmqspark.rebalance.handover import NOT_COMMITTED, Held, Steps, standing, steps
from rmqspark.testing.sim.lease_laws import NEVER_COMMITTED, Heard, LeasedQueue, Term

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from rmqspark.client.group_reading import Leases
    from rmqspark.message_queue import MessageQueue
    from rmqspark.rebalance.handover import Grant
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.readers import QueueReader
    from rmqspark.testing.sim.world import World

GROUP: Final = "shared-billing"
_TIMEOUT_MS: Final = 5_000
_CHANGES_ITS_MIND: Final = 0.3
_ONLY_RENEWS: Final = 0.3


class LeasePlan(NamedTuple):
    """What members of a shared group do."""

    members: int
    lease_ms: int
    """How long a lease lasts, as brokers are told."""
    longest_pause_s: float
    timeout_ms: int
    begins_anew: float
    """How often one does, of its rounds."""


class LeaseLaws:
    """What brokers may tell the members of the group."""

    def __init__(self, world: World, cluster: Cluster, queues: Sequence[MessageQueue], *, is_durable: bool) -> None:
        self._world = world
        self._is_durable = is_durable
        self._queues = {queue: LeasedQueue() for queue in queues}
        self._given: dict[tuple[str, int], str] = {}
        for name in cluster.brokers:
            cluster.when_master_ends(name, partial(self.master_ended, name))
            cluster.when_succeeded(name, partial(self.succeeded, name))

    def asking(self, asked: Steps, run: int) -> None:
        for queue, held in asked.keep.items():
            if held.position != NOT_COMMITTED:
                self._queues[queue].committing(Term(held.lease, run), held.position)
        for queue, lease in asked.release.items():
            self._queues[queue].giving_up(Term(lease, run))

    def begun(self, broker_name: str, heard: Heard, run: int) -> None:
        """A broker has given a run its number."""
        self._give(broker_name, run, f"a run of {heard.member} from {heard.answered_s:.3f} s on")

    def told(self, asked: Steps, granted: Mapping[MessageQueue, Grant], heard: Heard, run: int) -> None:
        for queue, held in asked.keep.items():
            self._told_of_kept(queue, Term(held.lease, run), held.position, granted.get(queue), heard)
        for queue in asked.take:
            if queue in granted:
                lease = granted[queue].lease
                self._give(queue.broker_name, lease, f"a lease of {queue} for {heard.member}")
                told = _offset(granted[queue])
                wrong = self._queues[queue].granted(Term(lease, run), heard, told, self._excused(queue, told))
                self._violate(queue, wrong)

    def judge(self, queue: MessageQueue, committed: int) -> None:
        """Where the group is in the end."""
        may_be = self._queues[queue].values
        if committed not in {*may_be, *self._excused(queue, committed)}:
            self._violate(queue, [f"is at {committed} in the end, where {sorted(may_be)} may be committed"])

    def _told_of_kept(self, queue: MessageQueue, term: Term, position: int, grant: Grant | None, heard: Heard) -> None:
        law = self._queues[queue]
        if grant is None:
            self._violate(queue, law.refused(term, heard))
        else:
            law.kept(term, heard)
        if position == NOT_COMMITTED:
            return
        if grant is None:
            law.not_committed(term, position)
            return
        told = _offset(grant)
        self._violate(queue, law.committed(term, position, told, self._excused(queue, told)))

    def _excused(self, queue: MessageQueue, told: int) -> Collection[int]:
        """Where a broker sets a group that was further than its queue is, or not as far as what expired."""
        if not self._world.is_whole(queue.broker_name):
            return (told,)
        return self._world.expired.begins(queue)

    def _give(self, broker_name: str, number: int, to: str) -> None:
        before = self._given.setdefault((broker_name, number), to)
        if before != to:
            self._world.violated(f"Law 12: {broker_name} gave number {number} to {to}, and before to {before}")

    def _violate(self, queue: MessageQueue, wrong: Collection[str]) -> None:
        for each in wrong:
            self._world.violated(f"Law 12: {queue} {each}")

    def master_ended(self, broker_name: str) -> None:
        """What was told stays true, unless it could not be written."""
        if not self._is_durable:
            for law in self._of(broker_name):
                law.forgot()

    def succeeded(self, broker_name: str) -> None:
        """Another is the master."""
        for law in self._of(broker_name):
            law.succeeded()

    def _of(self, broker_name: str) -> list[LeasedQueue]:
        return [law for queue, law in self._queues.items() if queue.broker_name == broker_name]


class LeasingMember:
    """A query of the group; what it has read is what a reader of the run has."""

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
        self._readers = {reader.queue: reader for reader in readers}
        self._brokers = sorted({queue.broker_name for queue in self._readers})
        self._wanted: set[MessageQueue] = set()
        self._held: dict[MessageQueue, Held] = {}
        self._runs: dict[str, int] = {}

    async def run(self, cluster: Cluster, laws: LeaseLaws) -> None:
        """Until it is to stop."""
        random = self.client.random
        while not self.is_to_stop:
            if random.random() < self._plan.begins_anew and not self.client.world.is_healed:
                self.client.world.trace.reached("query began anew")
                self._held, self._runs = {}, {}
            self._decide()
            was_asked = [await self._ask(name, cluster, laws) for name in self._brokers]
            self.has_its_share = all(was_asked) and self.client.world.is_healed and self._held.keys() == self._share
            await self.client.pause(self._plan.longest_pause_s)

    def _decide(self) -> None:
        """What is to be its own from now on."""
        random, queues = self.client.random, list(self._readers)
        if self.client.world.is_healed:
            self._wanted = self._share
        elif random.random() < _CHANGES_ITS_MIND:
            self._wanted = set(random.sample(queues, random.randint(0, len(queues))))

    async def _ask(self, broker_name: str, cluster: Cluster, laws: LeaseLaws) -> bool:
        """Whether the broker answered."""
        try:
            await self._exchange(broker_name, cluster, laws)
        except LeaseLost:
            self._held = {queue: held for queue, held in self._held.items() if queue.broker_name != broker_name}
            self._runs.pop(broker_name, None)
        except RmqError as error:
            self.client.world.trace.reached(f"lease {type(error).__name__}")
            return False
        return True

    async def _exchange(self, broker_name: str, cluster: Cluster, laws: LeaseLaws) -> None:
        client, node, asked = self.client, cluster.brokers[broker_name], self._steps(broker_name)
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
        random, held = self.client.random, {}
        for queue in [queue for queue in self._held if queue.broker_name == broker_name]:
            position = max(self._held[queue].position, self._readers[queue].position)
            renews = random.random() < _ONLY_RENEWS
            held[queue] = self._held[queue]._replace(position=NOT_COMMITTED if renews else position)
        asked = steps(held, {queue for queue in self._wanted if queue.broker_name == broker_name})
        for queue in asked.release:
            del self._held[queue]
        return asked

    def _take_over(self, asked: Steps, leases: Leases) -> None:
        trace, now = self.client.world.trace, standing(asked, leases.granted)
        for queue in now.lost:
            trace.reached("lease lost")
            self._held.pop(queue, None)
        for queue, grant in now.entering.items():
            trace.reached("queue leased")
            self._held[queue] = Held(grant.lease, max(_offset(grant), 0))
        for queue in asked.keep.keys() & now.kept.keys():
            if asked.keep[queue].position != NOT_COMMITTED:
                self._held[queue] = asked.keep[queue]


class LeasePlot:
    """Members that share the queues which producers send to."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        plan: LeasePlan,
        readers: Sequence[QueueReader],
        clients: Sequence[SimClient],
        *,
        is_durable: bool,
    ) -> None:
        """`readers` are one for each queue. `is_durable`: whether brokers can have on disk what they say."""
        self.topics: list[str] = []
        self.groups = [GROUP]
        self.hosts: list[str] = []  # clients of the cast have theirs
        self._cluster = cluster
        self._queues = [reader.queue for reader in readers]
        self._laws = LeaseLaws(world, cluster, self._queues, is_durable=is_durable)
        self._members = [
            LeasingMember(client, plan, self._queues[number :: len(clients)], readers)
            for number, client in enumerate(clients)
        ]

    def begin(self) -> list[asyncio.Task[Any]]:
        return [member.client.spawn(member.run(self._cluster, self._laws)) for member in self._members]

    def healed(self) -> None:
        """Members see that themselves."""

    def unsettled(self) -> str:
        waiting = [member.client.name for member in self._members if not member.has_its_share]
        return f"members of {GROUP} do not come to their queues: {', '.join(waiting)}" if waiting else ""

    def end(self) -> None:
        for member in self._members:
            member.is_to_stop = True

    async def judge(self, operator: SimClient) -> None:
        for queue in self._queues:
            header = QueryConsumerOffsetRequestHeader(
                GROUP, queue.topic, queue.queue_id, setZeroIfNotFound=False, bname=queue.broker_name
            )
            address = await operator.address_of(queue)
            answer = await operator.call(address, RequestCode.QUERY_CONSUMER_OFFSET, header, timeout_ms=_TIMEOUT_MS)
            try:
                committed = answer.raise_for_code().header(OffsetResponseHeader).offset
            except OffsetNotFound:
                committed = NEVER_COMMITTED
            self._laws.judge(queue, committed)


def _offset(grant: Grant) -> int:
    return NEVER_COMMITTED if grant.committed is None else grant.committed

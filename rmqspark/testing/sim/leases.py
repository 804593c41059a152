"""Queries that share a group: members that lease its queues, commit under the leases, and hand queues over.

They ask what those of `groupMode=shared` ask between two micro-batches (`rebalance/handover.py`), and change their mind
about which queues are theirs all the time. One may begin anew, as another run of its query, and the one before wake
when it has. Law 12 says what they hear.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import OffsetNotFound
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import OffsetResponseHeader, QueryConsumerOffsetRequestHeader
from rmqspark.rebalance.handover import NOT_COMMITTED
from rmqspark.testing.sim.lease_laws import NEVER_COMMITTED, LeasedQueue, Term
from rmqspark.testing.sim.lease_members import GROUP, LeasingMember, place_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from rmqspark.message_queue import MessageQueue
    from rmqspark.rebalance.handover import Grant, Steps
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.lease_laws import Heard
    from rmqspark.testing.sim.readers import QueueReader
    from rmqspark.testing.sim.world import World

_TIMEOUT_MS: Final = 5_000


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
                told = place_of(granted[queue])
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
            self._violate(queue, law.kept(term, heard))
        if position == NOT_COMMITTED:
            return
        if grant is None:
            law.not_committed(term, position)
            return
        told = place_of(grant)
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

"""Brokers, members of a shared group and their sink, one step at a time: everything real but Spark and the wire.

Leases and offsets are the broker's own tables behind its own handler; members are `Progress` over `SharedGroup`.
Played are: a topic as a list of ends, Spark's offset and commit logs, and a sink that decides a batch in one step, as
the coordinator does: the leases it was read under must hold, and the group's offsets move with it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from rmqspark.broker.clients import ConsumerGroup
from rmqspark.broker.handlers.leases import LeaseHandlers
from rmqspark.broker.shared_groups.group_leases import GroupLeases
from rmqspark.broker.state.locks import QueueLocks
from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.cluster.group_reading import Member, lease
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import LeaseLost, RmqError, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.admin import ResetOffsetBody
from rmqspark.protocol.bodies.client import QueueLeaseTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.faults import to_response
from rmqspark.rebalance.handover import Steps
from rmqspark.remoting.response import Response
from rmqspark.source.groups.shared import SharedGroup
from rmqspark.source.groups.sharing import Sharing
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.options import RetryPolicy, SourceOptions, Subscription
from rmqspark.source.partitions import Holder
from rmqspark.source.planning.admission import Limits
from rmqspark.source.planning.planner import Snapshot, ranges
from rmqspark.source.planning.progress import Progress
from rmqspark.source.planning.rewinds import Rewinds
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.tasks.leases import make_sure
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.measuring import Extent

QUEUES = [MessageQueue("t", "broker-a", queue_id) for queue_id in range(4)]
OTHERS = [MessageQueue("t", "broker-b", queue_id) for queue_id in range(2)]  # of a second broker, where there is one
LEASE_MS = 60_000
QUIET = RetryPolicy(0, 0)


class LeaseFile:
    """The broker's file of leases: what a restart knows of them."""

    def __init__(self, locks: QueueLocks) -> None:
        self._locks = locks
        self._saved_revision = locks.revision
        self.text = locks.table().encode()

    @property
    def is_saved(self) -> bool:
        return self._locks.revision == self._saved_revision

    async def save(self) -> None:
        self.text, self._saved_revision = self._locks.table().encode(), self._locks.revision


class PlayedBroker:
    """One broker's leases and offsets, and the way to it; stands in for `BrokerClient`."""

    def __init__(self, name: str, queues: int, clock: ManualClock) -> None:
        self.name = name
        self.offsets = ConsumerOffsets()
        self.connected: list[str] = []
        self.in_sight = True
        self.lease_ms = LEASE_MS
        self.leases_queues = True
        self._queues, self._clock = queues, clock
        self._serve(QueueLocks(lease_ms=self.lease_ms))

    def _serve(self, locks: QueueLocks) -> None:
        self._locks, self._file = locks, LeaseFile(locks)
        tables = SimpleNamespace(
            topics={"t": SimpleNamespace(readQueueNums=self._queues)},
            groups=SimpleNamespace(find_or_create=lambda group, now_ms: None),
            offsets=self.offsets,  # they outlive this world's brokers
            locks=locks,
            lease_file=self._file,
            offset_file=SimpleNamespace(holds=lambda revision: True),
            save=self._file.save,
        )
        log = SimpleNamespace(commit=self._commit, is_safe=True, make_safe=self._nothing_to_do, unlogged_revision=0)
        parts: Any = (self.name, tables, log, self._clock)
        self._group = ConsumerGroup("g", "")
        self._handlers = LeaseHandlers(GroupLeases(*parts), self.lease_ms, self._meet, self._divided_by)

    def _commit(self, group: str, positions: Mapping[MessageQueue, int]) -> None:
        for queue, offset in positions.items():
            self.offsets.commit(group, queue.topic, queue.queue_id, offset)

    async def _meet(self, coordinator: str) -> None:
        raise AssertionError(f"{coordinator} decides nothing in this world")

    def _divided_by(self, group: str, client_id: str, strategy: str) -> list[str]:
        members: Any = {number: SimpleNamespace(client_id=each) for number, each in enumerate(self.connected)}
        self._group.members = members
        return self._group.divided_by(client_id, strategy)

    async def _nothing_to_do(self) -> None:
        """What is committed outlives this world's brokers."""

    def delete_group(self, group: str) -> None:
        """With its offsets, as `rmq group delete` does; its members stay connected."""
        self.offsets.forget_group(group)
        self._locks.forget_group(group)

    def replace(self) -> None:
        """It comes back with an empty disk."""
        self.offsets = ConsumerOffsets()
        self._serve(QueueLocks(lease_ms=self.lease_ms))

    def restart(self) -> None:
        """What was not on disk is forgotten."""
        locks = QueueLocks(lease_ms=self.lease_ms)
        locks.load(QueueLeaseTable.decode(self._file.text), self._clock.monotonic_ms())
        self._serve(locks)

    def capabilities(self) -> Capabilities:
        return Capabilities(groups=int(self.leases_queues))

    def submit(self, code: int, header: Any, body: bytes, *, timeout_ms: int) -> Future[Response]:
        if code == RequestCode.RMQ_GROUP_RESETS:
            return _answered(ResetOffsetBody().encode())
        request: Any = SimpleNamespace(header=header, body=body)
        try:
            reply = self._handlers.leases(request)
        except RmqError as error:
            return _answered(b"", *to_response(error))
        if isinstance(reply, Awaitable):
            reply = asyncio.run(_awaited(reply))
        return _answered(bytes(reply.body))


class World:
    """Brokers with one topic, and the way to them; stands in for `ClusterClient` and `ClusterView`."""

    ip = "10.0.0.1"

    def __init__(self, queues: Sequence[MessageQueue] = tuple(QUEUES)) -> None:
        self.clock = ManualClock()
        self.entropy = SystemEntropy(1)
        self.ends = dict.fromkeys(queues, 0)
        self.written: list[tuple[MessageQueue, int]] = []
        counts = Counter(queue.broker_name for queue in queues)
        self.brokers = {name: PlayedBroker(name, count, self.clock) for name, count in counts.items()}
        self.store = StoreIdentity("s", 1)
        self.left_out: frozenset[str] = frozenset()  # of those that are out of sight: they are registered, and silent
        self.asked_in_vain: set[str] = set()

    @property
    def offsets(self) -> ConsumerOffsets:
        """Of the first broker."""
        return self.brokers["broker-a"].offsets

    # --- as a client -------------------------------------------------------------------------------------------------

    def broker(self, name: str) -> PlayedBroker:
        """Raises Unreachable, as long as it is out of sight."""
        if not self.brokers[name].in_sight:
            self.asked_in_vain.add(name)
            raise Unreachable(f"No route to {name}.", address=name)
        return self.brokers[name]

    def hang_up(self, client_ids: Collection[str]) -> None:
        """The connections of these clients are gone, as the brokers see."""
        for broker in self.brokers.values():
            broker.connected = [each for each in broker.connected if each not in client_ids]

    # --- as a view ---------------------------------------------------------------------------------------------------

    def snapshot(
        self, *, fresh: bool = False, missing_topics_allowed: bool = False, outages_allowed: bool = False
    ) -> Snapshot:
        stores = {name: self.store for name, broker in self.brokers.items() if broker.in_sight}
        return Snapshot({queue: end for queue, end in self.ends.items() if queue.broker_name in stores}, stores)

    def begins(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        return dict.fromkeys(queues, 0)

    def measure(self, budgets: object) -> list[Extent]:
        raise AssertionError("No batch here is limited by bytes.")


async def _awaited(reply: Awaitable[Any]) -> Any:
    return await reply


def _answered(body: bytes, code: int = 0, remark: str | None = None) -> Future[Response]:
    answer: Future[Response] = Future()
    answer.set_result(Response(code, 1, remark, 479, {}, body))
    return answer


class Presence:
    """Stands in for `Membership`: no thread, so leases are renewed by requests alone."""

    def __init__(self, world: World, member: Member, tags: str | None, sql: str | None) -> None:
        self.member, self._world = member, world
        self.reached: set[str] = set()
        self.held: dict[MessageQueue, int] = {}
        self.lease_ms = 0

    def announce(self, queues: Iterable[MessageQueue]) -> None:
        names = {queue.broker_name for queue in queues}
        self.reached = {name for name in names if self._world.brokers[name].in_sight}
        self._world.asked_in_vain |= names - self.reached
        for broker in map(self._world.broker, self.reached):
            if self.member.client_id not in broker.connected:
                broker.connected.append(self.member.client_id)

    def others(self, brokers: Iterable[str]) -> list[str]:
        return list(self._world.broker(min(brokers)).connected)

    def hold(self, leases: Mapping[MessageQueue, int], lease_ms: int) -> None:
        self.held, self.lease_ms = dict(leases), lease_ms

    def leave(self, *, release: bool) -> None:
        self._world.hang_up({self.member.client_id})
        for name, broker in self._world.brokers.items() if release else ():
            held: Any = {queue: number for queue, number in self.held.items() if queue.broker_name == name}
            if held and broker.in_sight:
                with suppress(LeaseLost):
                    lease(cast("BrokerClient", broker), self.member, Steps({}, held, [])).result()


@dataclass(eq=False)
class Query:
    """One streaming query: its checkpoint, and the run of it that is alive."""

    world: World
    offset_log: list[dict[str, Any]] = field(default_factory=list)
    commit_log: int = 0  # batches that Spark has finished
    decided: int = 0  # batches that the sink has
    read: list[QueueRange] | None = None  # by the batch under way
    failed: bool = False
    sharing: Sharing = field(default_factory=lambda: Sharing(from_earliest=True))
    fails_on_data_loss: bool = True
    subscription: Subscription = field(default_factory=lambda: Subscription(("t",)))

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A new run from the checkpoint."""
        options = SourceOptions(
            self.subscription,
            group="g",
            retry=QUIET,
            sharing=self.sharing,
            fail_on_data_loss=self.fails_on_data_loss,
        )
        world: Any = self.world
        presence: Any = Presence
        assert options.sharing is not None
        self.group = SharedGroup(world, options, options.sharing, presence)
        rewinds = Rewinds(world, QUIET)
        self.progress = Progress(options, world, self.group, rewinds, clock=world.clock, entropy=world.entropy)
        self.read, self.failed = None, False

    @property
    def is_planned(self) -> bool:
        return len(self.offset_log) > self.commit_log

    def bounds(self) -> tuple[Offsets, Offsets]:
        """Start and end of the batch that is planned, or was last."""
        end = self.offset_log[-1]
        before = self.offset_log[-2] if len(self.offset_log) > 1 else self.progress.initial().to_json()
        return Offsets.from_json(before), Offsets.from_json(end)

    def plan(self, limit: int | None) -> None:
        start = self.offset_log[-1] if self.offset_log else self.progress.initial().to_json()
        end = self.progress.latest(Offsets.from_json(json.loads(json.dumps(start))), Limits(max_rows=limit)).to_json()
        if end != start:
            self.offset_log.append(end)

    def try_plan(self, limit: int | None) -> None:
        """A query that was frozen before it had asked all brokers is the later one to some, and takes them over."""
        try:
            self.plan(limit)
        except LeaseLost:
            self.failed = True

    def begin(self) -> None:
        """Plans the tasks, which read."""
        start, end = self.bounds()
        try:
            self.read = self.progress.hold(self.progress.readable(ranges(start, end), end), end)
        except LeaseLost:
            self.failed = True
        except Unreachable as error:
            if error.address not in {each.queue.broker_name for each in ranges(start, end)}:
                raise  # nothing is read there
            self.failed = True

    def decide(self) -> None:
        """The tasks have read, and make sure; the sink decides, once for each batch."""
        assert self.read is not None
        _, end = self.bounds()
        try:
            self.make_sure(end)
        except (LeaseLost, Unreachable):
            self.failed = True
            return
        if self.decided == len(self.offset_log):
            return  # ALREADY_COMMITTED
        self.decided = len(self.offset_log)
        for each in self.read:
            self.world.written += [(each.queue, offset) for offset in range(each.start, each.end)]
            offsets = self.world.brokers[each.queue.broker_name].offsets
            offsets.commit("g", each.queue.topic, each.queue.queue_id, each.end)

    def make_sure(self, end: Offsets) -> None:
        """One task for each broker."""
        world: Any = self.world
        for name in self.world.brokers:
            read = [each for each in self.read or () if each.queue.broker_name == name]
            if read:
                holder = Holder("g", end.member, self.progress.read_under, runs=self.progress.runs)
                make_sure(world, read, holder.of(read), QUIET)

    def finish(self) -> None:
        """Spark's commit log."""
        self.commit_log, self.read = len(self.offset_log), None

    def step(self, limit: int | None = None) -> None:
        """The next thing that happens."""
        if self.failed:
            self.crash()
        elif not self.is_planned:
            self.try_plan(limit)
        elif self.read is None:
            self.begin()
        elif self.decided < len(self.offset_log):
            self.decide()
        else:
            self.finish()

    def crash(self) -> None:
        """The driver is gone, and started again; its connection is gone with it."""
        self.disappear()
        self.start()

    def disappear(self) -> None:
        member = Offsets.from_json(self.offset_log[-1]).member if self.offset_log else ""
        presence: Any = self.group._membership
        self.world.hang_up({member, presence.member.client_id if presence else ""})

    def stop(self) -> None:
        """query.stop(): the source has its say."""
        self.progress.leave()

"""A broker's own tables, and the transactions that it coordinates."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from errno import ENOSPC
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.shared_groups.group_leases import GroupLeases
from rmqspark.broker.shared_groups.offset_log import OffsetLog
from rmqspark.broker.shared_groups.orphaned_leases import OrphanedLeases
from rmqspark.broker.transactions.coordinating import coordination
from rmqspark.errors import NotWritable, SlaveNotAvailable
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.client import LeasedQueue
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.bodies.txn import HeldAttempt, InputRange, TxnDecision
from rmqspark.protocol.headers.txn import TxnOutcome
from rmqspark.txn.ports import Remembered, VoteAnswer

from ..store.store_bench import SMALL, StoreBench
from .test_slave_role import given, tables_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.tables import BrokerTables
    from rmqspark.protocol.bodies.txn import OutputRange
    from rmqspark.txn.coordinator.coordination import Coordination
    from rmqspark.txn.coordinator.coordinator import Ruling
    from rmqspark.txn.ports import Complete, Vote

QUEUE = MessageQueue("orders", "broker-a", 0)


class OnDisk:
    """Has all of a store's log on the disk at once; on a slave, where one is waited for, unless that is away."""

    def __init__(self, bench: StoreBench) -> None:
        self._bench = bench
        self.away: SlaveNotAvailable | None = None
        self.then: Callable[[], None] = lambda: None  # once, after that

    async def flushed(self, end_offset: int) -> None:
        self._bench.store.flush()
        then, self.then = self.then, lambda: None
        then()
        if self.away is not None:
            raise self.away


class HoldsAll:
    """A participant that says yes to all."""

    def remembered(self, transactional_id: str) -> Remembered:
        return Remembered()

    async def vote(self, request: Vote) -> VoteAnswer:
        return VoteAnswer(yes=True)

    async def complete(self, request: Complete) -> list[OutputRange]:
        return []


def leases_of(bench: StoreBench, tables: BrokerTables, disk: OnDisk) -> GroupLeases:
    offset_log = OffsetLog(bench.store, tables.offsets, bench.clock, append=bench.store.append, flush_to=disk.flushed)
    offset_log.replay()
    return GroupLeases("broker-a", tables, offset_log, bench.clock)


def coordinating(bench: StoreBench, tables: BrokerTables, disk: OnDisk | None = None) -> Coordination:
    appender: Any = SimpleNamespace(append_together=partial(bench.store.append, together=True))
    nothing_held: Any = HoldsAll()
    safety: Any = disk or OnDisk(bench)
    leases = leases_of(bench, tables, safety)
    parts = tables, safety, appender, nothing_held, leases
    return coordination(given(BrokerConfig(), bench), bench.store, *parts)


def test_a_decision_that_names_no_offset_moves_no_group() -> None:
    """Whoever decides says how far was read, and may say anything."""
    bench = StoreBench()
    tables = tables_of(bench)
    leases = leases_of(bench, tables, OnDisk(bench))
    leases.follow("g", {QUEUE: -1})
    assert tables.offsets.committed("g", "orders", 0) is None
    leases.follow("g", {QUEUE: 0})
    assert tables.offsets.committed("g", "orders", 0) == 0


def test_how_far_a_shared_group_is_outlives_a_kill_that_takes_its_member_too() -> None:
    """The next member goes by it when the leases have run out. The decision is complete, so that a start does not move
    the group again."""
    bench = StoreBench(replace(SMALL, mapped_file_size_commit_log=1 << 16))
    bench.send("orders", 0, b"1", b"2", b"3")
    tables = tables_of(bench)
    tables.topics.put(TopicConfig(topicName="orders", readQueueNums=1, writeQueueNums=1, perm=6), 0)
    run = tables.locks.begin_run()
    lease = tables.locks.take("g", "m", [QUEUE], bench.clock.monotonic_ms(), run)[QUEUE]
    read = InputRange("g", *QUEUE, 0, 3, member="m", lease=lease, run="r", leaseRun=run)

    async def read_and_decide() -> None:
        await tables.save()
        coordinator = coordinating(bench, tables).coordinator
        epoch = (await coordinator.prepare("T", "r", 0, "q")).answer.epoch
        decided = await coordinator.decide("T", "r", epoch, 0, TxnDecision("q", checksum="0", inputs=[read]))
        assert decided.answer.outcome is TxnOutcome.COMMITTED

    asyncio.run(read_and_decide())
    bench.kill()
    tables = tables_of(bench)
    coordinating(bench, tables)
    assert tables.offsets.committed("g", "orders", 0) == 3


class Shared:
    """A member of a shared group has read three messages of a queue of this broker, and writes them with a batch."""

    def __init__(self) -> None:
        self.bench = StoreBench(replace(SMALL, mapped_file_size_commit_log=1 << 16))
        self.bench.send("orders", 0, b"1", b"2", b"3")
        self.tables = tables_of(self.bench)
        self.tables.topics.put(TopicConfig(topicName="orders", readQueueNums=1, writeQueueNums=1, perm=6), 0)
        self.disk = OnDisk(self.bench)
        self.coordination = coordinating(self.bench, self.tables, self.disk)
        self.coordinator = self.coordination.coordinator
        self.run = self.tables.locks.begin_run()
        self.lease = self.tables.locks.take("g", "m", [QUEUE], self.bench.clock.monotonic_ms(), self.run)[QUEUE]
        self.epoch = 0

    async def prepare(self) -> None:
        self.epoch = (await self.coordinator.prepare("T", "r", 0, "q")).answer.epoch

    async def decide(self, **says: Any) -> Ruling:
        read = InputRange("g", *QUEUE, 0, 3, member="m", lease=self.lease, run="r", leaseRun=self.run)
        held = {"broker-a": [HeldAttempt(0, "x0", 1, 3)]}
        decision = TxnDecision("q", held, rows=3, checksum="1", inputs=[read], **says)
        return await self.coordinator.decide("T", "r", self.epoch, 0, decision)

    async def decide_without_slave(self) -> None:
        """The decision stands, and its driver cannot be told: a slave may be made the master."""
        await self.prepare()
        self.disk.away = SlaveNotAvailable("no slave")
        with pytest.raises(SlaveNotAvailable):
            await self.decide()
        assert self.committed is None
        self.disk.away = None

    @property
    def committed(self) -> int | None:
        return self.tables.offsets.committed("g", "orders", 0)


def test_a_shared_group_goes_on_behind_a_batch_whose_driver_had_to_ask_twice() -> None:
    """The slave was away when it was decided. Who hears that a batch is decided may die: the next member of the group
    goes by where that is, and would write the batch once more."""
    shared = Shared()

    async def ask_twice() -> None:
        await shared.decide_without_slave()
        assert (await shared.decide()).answer.outcome is TxnOutcome.ALREADY_COMMITTED

    asyncio.run(ask_twice())
    assert shared.committed == 3


def test_a_shared_group_goes_on_behind_a_batch_whose_driver_does_not_ask_again() -> None:
    """It has died: the coordinator has the rows made readable by itself, and moves the group before it forgets what was
    read."""
    shared = Shared()

    async def complete() -> None:
        await shared.decide_without_slave()
        for _ in range(3):
            await shared.coordination.tick()
        assert not shared.coordination.ledger.require("T").pending

    asyncio.run(complete())
    assert shared.committed == 3


def test_how_far_a_shared_group_is_outlives_a_kill_where_the_log_takes_no_more() -> None:
    """The disk is full for messages. Nobody hears that the group has moved before the table is on disk: who coordinates
    has room, and forgets what was read once he has heard."""
    shared = Shared()
    leases = leases_of(shared.bench, shared.tables, shared.disk)

    async def move() -> None:
        await shared.tables.save()
        assert leases.is_safe
        shared.bench.disk.fail_next("pwrite", OSError(ENOSPC, "full"))
        assert leases.keep("g", "m", shared.run, [LeasedQueue(*QUEUE, shared.lease, 3)])
        assert not leases.is_safe
        shared.bench.disk.fail_next("rename", OSError(ENOSPC, "full"))
        with pytest.raises(NotWritable):
            await leases.make_safe()
        assert not leases.is_safe
        await leases.make_safe()
        assert leases.is_safe

    asyncio.run(move())
    shared.bench.kill()
    assert tables_of(shared.bench).offsets.committed("g", "orders", 0) == 3


def test_a_queue_of_its_own_is_nobodys_while_what_was_read_of_it_is_being_decided() -> None:
    """Its slave is away, the driver dead, and the lease has run out: the decision stands, and is not safe yet. The next
    member begins behind it."""
    shared = Shared()
    leases = leases_of(shared.bench, shared.tables, shared.disk)
    coordination, clock = shared.coordination, shared.bench.clock
    orphaned = OrphanedLeases(
        shared.bench.store,
        shared.tables,
        leases,
        coordination.peers,
        coordination.owners.seen,
        coordination.group_offsets,
        clock,
    )

    def taken_by_another() -> list[int]:
        return [held.offset for held in leases.take("g", "other", shared.run, [LeasedQueue(*QUEUE)])]

    async def wait() -> None:
        await shared.prepare()
        shared.disk.away = SlaveNotAvailable("no slave")
        with pytest.raises(SlaveNotAvailable):
            await shared.decide()
        clock.advance(ms=shared.tables.locks.lease_ms + 1)
        await shared.coordination.rounds.complete_pending()
        await orphaned.run_round()
        assert taken_by_another() == []
        shared.disk.away = None
        await shared.coordination.rounds.complete_pending()
        clock.advance(ms=shared.tables.locks.lease_ms + 1)
        await orphaned.run_round()
        assert taken_by_another() == [3]

    asyncio.run(wait())


def test_what_a_start_has_moved_is_as_safe_as_that_the_batch_is_complete() -> None:
    """Both are in the log: a power loss a moment later leaves no group before a batch that nobody knows any more."""
    shared = Shared()

    async def decide() -> None:
        await shared.tables.save()
        await shared.decide_without_slave()

    async def complete(again: Coordination) -> None:
        for _ in range(4):
            await again.tick()
        assert not again.ledger.require("T").pending
        shared.bench.store.flush()

    asyncio.run(decide())
    shared.bench.kill()
    asyncio.run(complete(coordinating(shared.bench, tables_of(shared.bench), shared.disk)))
    shared.bench.kill()
    tables = tables_of(shared.bench)
    coordinating(shared.bench, tables, shared.disk)
    assert tables.offsets.committed("g", "orders", 0) == 3


def test_nothing_is_forgotten_that_a_group_has_still_to_follow() -> None:
    """A request has the turn of the id when groups are moved, and fails before it does so itself; a confirmation then
    finds the turn free."""
    shared = Shared()

    async def confirm() -> None:
        await shared.decide_without_slave()
        txn = shared.coordination.ledger.require("T")
        await shared.coordination.rounds._confirm("broker-a", txn)
        assert txn.pending
        assert shared.committed is None
        for _ in range(3):
            await shared.coordination.tick()
        assert (txn.pending, shared.committed) == ([], 3)

    asyncio.run(confirm())


def test_a_coordinators_word_that_comes_late_takes_no_group_back() -> None:
    """It lay in a connection that was cut off, and its member has read on since. Should that die now, the next one
    would read a decided batch again. Nor is it taken for the word about the batch after that."""
    shared = Shared()
    leases = leases_of(shared.bench, shared.tables, shared.disk)
    leases.keep("g", "m", shared.run, [LeasedQueue(*QUEUE, shared.lease, 3)])
    leases.keep("g", "m", shared.run, [LeasedQueue(*QUEUE, shared.lease)], "broker-b")
    (late,) = leases.keep("g", "m", shared.run, [LeasedQueue(*QUEUE, shared.lease, 1)], "broker-b")
    assert (late.offset, shared.committed) == (3, 3)
    shared.bench.clock.advance(ms=shared.tables.locks.lease_ms + 1)
    assert leases.take("g", "other", shared.run, [LeasedQueue(*QUEUE)]) == []


def test_nobody_waits_for_a_word_that_will_not_come() -> None:
    """What foreachBatch writes moves no group, so whoever decided it has nothing to say: when its member has died, and
    the lease has run out, the next one has the queue at once, and begins where the group is."""
    shared = Shared()

    async def decide() -> None:
        await shared.prepare()
        assert (await shared.decide(ownVersion=True)).answer.outcome is TxnOutcome.COMMITTED

    asyncio.run(decide())
    shared.bench.clock.advance(ms=shared.tables.locks.lease_ms + 1)
    (held,) = leases_of(shared.bench, shared.tables, shared.disk).take("g", "other", shared.run, [LeasedQueue(*QUEUE)])
    assert held.offset == -1


def test_a_start_moves_no_group_behind_what_its_slave_does_not_have() -> None:
    """That may be made the master, and knows of no such decision: what was read would be left out. Nobody is given the
    queue meanwhile, for he would read it before the batch."""
    shared = Shared()

    async def decide() -> None:
        await shared.tables.save()
        await shared.decide_without_slave()

    asyncio.run(decide())
    shared.bench.kill()
    tables, disk = tables_of(shared.bench), OnDisk(shared.bench)
    disk.away = SlaveNotAvailable("no slave")
    again, leases = coordinating(shared.bench, tables, disk), leases_of(shared.bench, tables, disk)
    leases.moving = again.following.moving
    shared.bench.clock.advance(ms=tables.locks.lease_ms + 1)

    def places_of_next() -> list[int]:
        asyncio.run(again.tick())
        return [held.offset for held in leases.take("g", "other", 9, [LeasedQueue(*QUEUE)])]

    assert places_of_next() == []
    assert tables.offsets.committed("g", "orders", 0) is None
    disk.away = None
    assert places_of_next() == [3]


def test_a_decision_is_kept_while_no_disk_has_how_far_its_group_is() -> None:
    """The disk is full just then, for the log and for the table. Once there is room again, the batch is complete before
    the table is saved the next time: a kill between the two set the group back."""
    shared = Shared()

    def fill() -> None:
        for operation in ("pwrite", "rename"):
            shared.bench.disk.fail_next(operation, OSError(ENOSPC, "full"))

    async def decide() -> None:
        await shared.tables.save()
        await shared.prepare()
        shared.disk.then = fill
        assert (await shared.decide()).answer.outcome is TxnOutcome.COMMITTED
        for _ in range(4):
            await shared.coordination.tick()
        assert not shared.coordination.ledger.require("T").pending

    asyncio.run(decide())
    shared.bench.kill()
    assert tables_of(shared.bench).offsets.committed("g", "orders", 0) == 3


def test_of_a_deleted_topic_no_group_is_told_for_a_day() -> None:
    """Where it was to go on in it is nothing any more, and the decision is complete without that."""
    shared = Shared()
    read = InputRange("g", *QUEUE, 0, 3, member="m", lease=shared.lease, run="r", leaseRun=shared.run, topicDeleted=0)
    shared.coordination._offsets.want([read])
    shared.bench.store.deletions.delete(QUEUE.topic)
    shared.tables.topics.remove(QUEUE.topic, 0)
    asyncio.run(shared.coordination._move())
    assert len(shared.coordination._offsets) == 0

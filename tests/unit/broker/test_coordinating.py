"""A broker's own tables, and the transactions that it coordinates."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.coordinating import coordination
from rmqspark.broker.group_leases import GroupLeases
from rmqspark.broker.offset_log import OffsetLog
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.bodies.txn import InputRange, TxnDecision
from rmqspark.protocol.headers.txn import TxnOutcome

from ..store.store_bench import SMALL, StoreBench
from .test_slave_role import given, tables_of

if TYPE_CHECKING:
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.txn.coordinator.coordination import Coordination

QUEUE = MessageQueue("orders", "broker-a", 0)


class OnDisk:
    """Has all of a store's log on the disk at once."""

    def __init__(self, bench: StoreBench) -> None:
        self._bench = bench

    async def flushed(self, end_offset: int) -> None:
        self._bench.store.flush()


def coordinating(bench: StoreBench, tables: BrokerTables) -> Coordination:
    appender: Any = SimpleNamespace(append_together=partial(bench.store.append, together=True))
    nothing_held: Any = SimpleNamespace(newest_epoch=lambda _: 0)
    safety: Any = OnDisk(bench)
    offset_log = OffsetLog(bench.store, tables.offsets, bench.clock, append=bench.store.append, flush_to=safety.flushed)
    offset_log.replay()
    leases = GroupLeases("broker-a", tables, offset_log, bench.clock)
    return coordination(given(BrokerConfig(), bench), bench.store, tables, safety, appender, nothing_held, leases)


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

"""A wall clock that is set forward, back, or stands still: what is waited for takes as long as it should."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.broker.rounds import count
from rmqspark.clock import SteadyClock
from rmqspark.protocol.bodies.admin import ConsumeStats
from rmqspark.protocol.bodies.client import (
    ConsumerData,
    HeartbeatData,
    LockBatchBody,
    LockBatchResponseBody,
    Queue,
    SubscriptionData,
)
from rmqspark.protocol.bodies.route import KVTable
from rmqspark.protocol.bodies.txn import TxnStates
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import GetConsumeStatsRequestHeader
from rmqspark.protocol.headers.consume import ConsumerGroupRequestHeader, UpdateConsumerOffsetRequestHeader
from rmqspark.protocol.headers.txn import TxnListRequestHeader, TxnPrepareRequestHeader
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.integration, pytest.mark.faults]
_HOUR_MS = 3_600_000
_LOCK_MS, _PULL_MS, _CLIENT_MS, _BATCH_MS = 60_000, 100_000, 120_000, _HOUR_MS
jumps = pytest.mark.parametrize("jump_ms", [_HOUR_MS, 0, -_HOUR_MS], ids=["forward", "frozen", "back"])


class Waiting:
    """A broker with one of everything that is over after some time."""

    def __init__(self, bench: Any, client: Any) -> None:
        self._bench = bench
        self._client = client

    async def begin(self) -> None:
        client = self._client
        await client.create_topic("orders")
        await client.send("orders", b"kept")
        await client.heartbeat(
            HeartbeatData("c1", [], [ConsumerData("g", subscriptionDataSet=[SubscriptionData(topic="orders")])])
        )
        assert await self._lock("c1") == 1
        self._pull = asyncio.ensure_future(client.pull("orders", 1, wait_ms=_PULL_MS))
        prepare = TxnPrepareRequestHeader("spark-q", "run", 1, 0, "attempt", "q")
        (await client.ask(RequestCode.RMQ_TXN_PREPARE, prepare)).raise_for_code()

    async def rounds(self) -> None:
        """What the broker does by itself every few seconds."""
        broker = self._bench.broker
        broker._parts.heartbeats.expire()
        broker._parts.pulls.held.scan()
        await broker._parts.check_back.run_round()
        await broker._parts.resolver.check_back()
        await broker._parts.coordination.tick()
        await broker._parts.expiry.run()
        for _ in range(20):
            await self._client.settle()

    async def going_on(self) -> set[str]:
        """What is not over yet."""
        client = self._client
        members = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupRequestHeader("g"))
        batches = TxnStates.decode((await client.ask(RequestCode.RMQ_TXN_LIST, TxnListRequestHeader(10))).body)
        kept = await client.pull("orders")
        found = {
            "lock": await self._lock("c2") == 0,
            "pull": not self._pull.done(),
            "client": members.code == ResponseCode.SUCCESS,
            "batch": [txn.state for txn in batches.transactions] == ["version 1 is being written"],
            "message": [record.body for record in self._bench.records(kept)] == [b"kept"],
        }
        return {name for name, is_so in found.items() if is_so}

    async def _lock(self, client_id: str) -> int:
        body = LockBatchBody("g", client_id, [Queue("orders", "broker-a", 0)])
        answer = await self._client.ask(RequestCode.LOCK_BATCH_MQ, body=body.encode())
        return len(LockBatchResponseBody.decode(answer.body).lockOKMQSet)


@jumps
def test_nothing_is_over_early_or_late(on_broker: Callable[..., Any], jump_ms: int) -> None:
    """Locks, waiting pulls, clients and open batches last as long as was promised, whatever the wall clock says."""
    clock = ManualClock()
    wall_ms = clock.now_ms() + jump_ms

    async def talk(bench) -> None:
        waiting = Waiting(bench, await bench.connect())
        await waiting.begin()
        passed_ms, going_on = 0, {"lock", "pull", "client", "batch", "message"}
        ends = {_LOCK_MS: "lock", _PULL_MS: "pull", _CLIENT_MS: "client", _BATCH_MS: "batch"}
        for end_ms, name in ends.items():
            for moment_ms in (end_ms - 1000, end_ms + 1000):
                clock.advance(ms=moment_ms - passed_ms)
                clock.set_now_ms(wall_ms)  # and there it stays
                passed_ms = moment_ms
                if moment_ms > end_ms:
                    going_on.remove(name)
                await waiting.rounds()
                assert await waiting.going_on() == going_on, f"after {moment_ms} ms"

    on_broker(talk, files=MemoryFileSystem(clock=clock), clock=clock)


@jumps
def test_groups_consume_as_fast_as_they_do(on_broker: Callable[..., Any], jump_ms: int) -> None:
    """Of a group that has committed 60 messages within half a minute an operator is told that it is two a second."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.pull("orders")
        for offset in (40, 100):
            header = UpdateConsumerOffsetRequestHeader("g", "orders", 0, offset)
            (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).raise_for_code()
            clock.advance(seconds=30)
            clock.set_now_ms(clock.now_ms() + jump_ms)
            await count(bench.broker._given, bench.broker._parts, bench.broker._metrics)
        answer = await client.ask(RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequestHeader("g"))
        assert ConsumeStats.decode(answer.body).consumeTps == 2.0

    on_broker(talk, clock=clock)


@jumps
def test_a_broker_takes_as_much_as_it_does(on_broker: Callable[..., Any], jump_ms: int) -> None:
    """Of one message a second, for as long as it has been running."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        for _ in range(3):
            for number in range(10):
                await client.send("orders", b"%d" % number)
            clock.advance(seconds=10)
            clock.set_now_ms(clock.now_ms() + jump_ms)
            await count(bench.broker._given, bench.broker._parts, bench.broker._metrics)
        told = KVTable.decode((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert told["putTps"] == "1.0 1.0 1.0"
        assert told["runtime"] == "[ 0 days, 0 hours, 0 minutes, 30 seconds ]"

    on_broker(talk, files=MemoryFileSystem(clock=clock), clock=clock)


@jumps
def test_a_steady_clock_takes_no_notice(jump_ms: int) -> None:
    """It begins as the wall clock does, and goes on as time does."""
    clock = ManualClock()
    steady, begin_ms = SteadyClock(clock), clock.now_ms()
    assert steady.now_ms() == begin_ms
    clock.set_now_ms(begin_ms + jump_ms)
    assert steady.now_ms() == begin_ms
    clock.advance(ms=5)
    assert (steady.now_ms(), steady.monotonic_ms()) == (begin_ms + 5, 5)

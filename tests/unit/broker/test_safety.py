"""When a sender is told that its message is safe: by disk, by slaves, or by both."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from errno import EIO
from typing import TYPE_CHECKING

import pytest

from rmqspark.broker.replica.replica_waiters import ReplicaWaiters
from rmqspark.broker.safekeeping.flusher import Flusher
from rmqspark.broker.safekeeping.safety import Safety
from rmqspark.errors import FlushSlaveTimeout, FlushTimeout, NotWritable, SlaveNotAvailable
from rmqspark.replication.acks import SlaveProgress, Slaves

from ..store.store_bench import SMALL, StoreBench

if TYPE_CHECKING:
    from rmqspark.errors import RmqError

SYNC = replace(SMALL, flush_disk_type="SYNC_FLUSH")


class Bench:
    """A store with something in it, and a slave that has nothing yet."""

    def __init__(self, *, sync_flush: bool, timeout_s: float = 60, slaves: int = 1) -> None:
        self.bench = StoreBench(SYNC if sync_flush else SMALL)
        self.bench.send("t", 0, b"m")
        self.end = self.bench.store.end_offset
        self.flusher = Flusher(self.bench.store, self.bench.config)
        self.slaves = Slaves()
        self.slave = SlaveProgress("127.0.0.1:1", "127.0.0.1")
        self.slave.begin(0)
        self.slave.ack(0)
        self.slave.sent(self.end)
        if slaves:
            self.slaves.add(self.slave)
        self.waiters = ReplicaWaiters(self.slaves, wanted=1, timeout_s=timeout_s, most_behind_bytes=1 << 20)
        self.safety = Safety(self.flusher, sync_flush=sync_flush, replicas=self.waiters)
        self.told: list[RmqError | None] = []
        self.safety.when_safe(self.end, self.told.append)

    def confirm(self) -> None:
        self.slave.ack(self.end)
        self.waiters.slave_confirmed()

    async def flush(self) -> None:
        running = asyncio.create_task(self.flusher.run())
        try:
            await self.flusher.flushed(self.end)
        finally:
            self.flusher.close()
            await running


def test_a_slaves_word_is_waited_for() -> None:
    """Without SYNC_FLUSH it is all that is waited for."""

    async def scenario() -> None:
        bench = Bench(sync_flush=False)
        assert bench.told == []
        bench.confirm()
        assert bench.told == [None]
        bench.waiters.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("slave_first", [True, False])
def test_disk_and_slave_are_both_waited_for(slave_first: bool) -> None:
    """With SYNC_FLUSH the sender is told once, when both have it, whoever comes first."""

    async def scenario() -> None:
        bench = Bench(sync_flush=True)
        if slave_first:
            bench.confirm()
        else:
            await bench.flush()
        assert bench.told == []
        if slave_first:
            await bench.flush()
        else:
            bench.confirm()
        assert bench.told == [None]
        bench.waiters.close()

    asyncio.run(scenario())


def test_without_a_slave_the_sender_is_told_at_once() -> None:
    """Nobody waits for who is not there."""

    async def scenario() -> None:
        bench = Bench(sync_flush=False, slaves=0)
        assert [type(error) for error in bench.told] == [SlaveNotAvailable]
        with pytest.raises(SlaveNotAvailable):
            await bench.waiters.confirmed(bench.end)

    asyncio.run(scenario())


def test_a_slave_that_is_late_is_given_up() -> None:
    """After the time allowed the sender hears that no slave has it, and a transaction that waits hears it too."""

    async def scenario() -> None:
        bench = Bench(sync_flush=False, timeout_s=0.01)
        with pytest.raises(FlushSlaveTimeout) as late:
            await bench.waiters.confirmed(bench.end)
        assert isinstance(late.value, FlushTimeout)  # stored, in doubt: whoever knows that knows what to do
        assert [type(error) for error in bench.told] == [FlushSlaveTimeout]
        bench.waiters.close()

    asyncio.run(scenario())


def test_a_vote_is_on_disk_and_on_a_slave() -> None:
    """What a transaction waits for is both, whatever the flush mode."""

    async def scenario() -> None:
        bench = Bench(sync_flush=False)
        waiting = asyncio.ensure_future(bench.safety.flushed(bench.end))
        await bench.flush()
        await asyncio.sleep(0)
        assert not waiting.done()
        bench.confirm()
        await waiting
        await bench.safety.flushed(bench.end)
        bench.waiters.close()

    asyncio.run(scenario())


def test_what_slaves_have_already_is_not_waited_for() -> None:
    """They may have nothing more to say for seconds, as where a transaction is ended the same way once more."""

    async def scenario() -> None:
        bench = Bench(sync_flush=False)
        bench.confirm()
        bench.safety.when_safe(bench.end, bench.told.append)
        assert bench.told == [None, None]
        bench.waiters.close()

    asyncio.run(scenario())


def test_a_disk_that_has_failed_is_told_whatever_slaves_have_to_say() -> None:
    """ "No slave has it" says that it is stored here."""

    async def scenario() -> None:
        bench = Bench(sync_flush=True, slaves=0)
        bench.bench.disk.fail_next("fsync", OSError(EIO, "broken"))
        with pytest.raises(NotWritable):
            await bench.flush()
        assert [type(error) for error in bench.told] == [NotWritable]

    asyncio.run(scenario())

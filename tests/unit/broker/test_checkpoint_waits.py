"""Who waits for a checkpoint: answered when nothing undoes what was done any more, and in vain without a busy loop."""

from __future__ import annotations

import asyncio
import copy
from contextlib import asynccontextmanager
from errno import EIO, ENOSPC
from typing import TYPE_CHECKING

import pytest

from rmqspark.broker.flusher import Flusher
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import FlushTimeout, NotWritable
from rmqspark.protocol.properties import encode_properties
from rmqspark.protocol.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


NEVER_MS = 3_600_000  # a test that waited for it would fail by pytest's time limit
NOT_LONG_MS = 200
ROUNDS_AT_ONCE = 3
MODES = pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])

pytestmark = pytest.mark.faults


class Disk:
    """A disk with a store on it, opened with these settings."""

    def __init__(self, **settings: object) -> None:
        self.files = MemoryFileSystem(clock=ManualClock())
        self.config = StoreConfig(
            **{
                "mapped_file_size_commit_log": 1 << 20,
                "max_hash_slot_num": 50,
                "max_index_num": 200,
                "flush_interval_commit_log": NEVER_MS,
                "flush_interval_consume_queue": NEVER_MS,
                "sync_flush_timeout": NEVER_MS,
                **settings,
            }
        )
        self.store = self.open()

    def open(self) -> MessageStore:
        self.store = MessageStore.open(
            "store", self.config, files=self.files, clock=ManualClock(), entropy=SystemEntropy(1)
        )
        return self.store

    def send(self, *topics: str) -> None:
        for topic in topics:
            properties = encode_properties({"UNIQ_KEY": topic})
            record = encode_record(topic=topic, queue_id=0, body=b"hello", properties=properties)
            self.store.append([Draft(topic, 0, record, 0, (topic,))])

    def turn_plain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Thorough flushes are noted and come to plain ones, as on a disk that is full."""

        def refuse() -> None:
            self.thorough_tries += 1
            raise OSError(ENOSPC, "refused")

        self.thorough_tries = 0
        monkeypatch.setattr(self.store._queues, "write_out", refuse)

    @asynccontextmanager
    async def flushing(self) -> AsyncIterator[Flusher]:
        flusher = Flusher(self.store, self.config)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(flusher.run())
            yield flusher
            flusher.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - any condition at all, so nothing announces it
        await asyncio.sleep(0)


@MODES
@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "while a flush is under way"])
@pytest.mark.parametrize("seed", [None, *range(5)])
def test_what_was_waited_for_outlives_a_power_loss(mode: str, is_busy: bool, seed: int | None) -> None:
    """A topic deleted before is gone, though nothing but the wait has anything flushed."""
    disk = Disk(flush_disk_type=mode)

    async def live() -> MemoryFileSystem:
        disk.send("t", "u")
        async with disk.flushing() as flusher:
            if is_busy:
                flusher.hurry()
                await until(lambda: disk.store._flusher.is_busy)
            disk.send("t", "u")
            disk.store.delete_topic("t")
            await flusher.checkpointed(disk.store.end_offset)
            return copy.deepcopy(disk.files)

    disk.files = asyncio.run(live())
    disk.files.crash(None if seed is None else SystemEntropy(seed))
    disk.open()
    assert disk.store.topics() == ["u"]
    assert disk.store.max_offset("u", 0) == 2


def test_there_is_nothing_to_wait_for_where_the_checkpoint_is_on_disk() -> None:
    """Of an idle store a deletion is for good at once: no flush runs here, and the wait ends."""
    disk = Disk()
    disk.send("t", "u")
    for _ in range(2):
        disk.store.checkpoint()
    disk.store.delete_topic("t")
    asyncio.run(Flusher(disk.store, disk.config).checkpointed(disk.store.end_offset))
    disk.files.crash(None)
    assert disk.open().topics() == ["u"]


def test_a_wait_in_vain_is_no_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where thorough flushes come to nothing it ends with its time, and the disk is tried a few times at once, then at
    intervals: here at none."""
    disk = Disk(sync_flush_timeout=NOT_LONG_MS)
    disk.send("t")
    disk.turn_plain(monkeypatch)

    async def live() -> None:
        async with disk.flushing() as flusher:
            for round_ in (1, 2):
                with pytest.raises(FlushTimeout, match="a crash may undo it"):
                    await flusher.checkpointed(disk.store.end_offset)
                assert disk.thorough_tries <= round_ * ROUNDS_AT_ONCE
            monkeypatch.undo()

    asyncio.run(live())


@MODES
def test_a_disk_that_has_room_again_ends_the_wait(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried at every interval until then."""
    disk = Disk(flush_disk_type=mode, flush_interval_commit_log=1)
    disk.send("t", "u")
    disk.turn_plain(monkeypatch)

    async def live() -> None:
        async with disk.flushing() as flusher:
            disk.store.delete_topic("t")
            wait = asyncio.ensure_future(flusher.checkpointed(disk.store.end_offset))
            await until(lambda: disk.thorough_tries > 2 * ROUNDS_AT_ONCE)
            assert not wait.done()
            monkeypatch.undo()
            await wait

    asyncio.run(live())
    disk.files.crash(None)
    assert disk.open().topics() == ["u"]


def test_a_failed_fsync_refuses_who_waits() -> None:
    """And who comes later."""
    disk = Disk()
    disk.send("t")

    async def live() -> None:
        async with disk.flushing() as flusher:
            disk.files.fail_next("fsync", OSError(EIO, "refused"))
            for _ in range(2):
                with pytest.raises(NotWritable, match="refused"):
                    await flusher.checkpointed(disk.store.end_offset)

    asyncio.run(live())


def test_queues_are_brought_to_the_disk_until_a_recovery_would_begin_at_the_end() -> None:
    """Of a broker that falls idle, too, and without anybody who waits."""
    disk = Disk(flush_interval_commit_log=1, flush_interval_consume_queue=1)

    async def live() -> None:
        async with disk.flushing():
            disk.send("t")
            await until(lambda: disk.store.recovery_offset == disk.store.end_offset)

    asyncio.run(live())

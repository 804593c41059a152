"""Rounds of retention on a disk that takes its time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from rmqspark.broker.safekeeping.expiry_rounds import ExpiryRounds
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import DamagedFile, FlushTimeout
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

FILE_BYTES = 4096
NOTHING = 1 << 60  # is needed


class Bench:
    """A store of small files that expire at once, and a disk that is slow until it is told otherwise."""

    def __init__(
        self,
        budget_bytes: int | None = None,
        min_free_bytes: int = 1 << 20,
        delete_when: str = ";".join(map(str, range(24))),
    ) -> None:
        clock = ManualClock()
        config = StoreConfig(
            mapped_file_size_commit_log=FILE_BYTES,
            max_message_size=FILE_BYTES // 2,
            max_hash_slot_num=50,
            max_index_num=200,
            file_reserved_time=0,
            delete_when=delete_when,
            min_free_bytes=min_free_bytes,
        )
        self.files = MemoryFileSystem(clock=clock, budget_bytes=budget_bytes)
        self.store = MessageStore.open("store", config, files=self.files, clock=clock, entropy=SystemEntropy(1))
        self.needed: int | None = NOTHING
        self.spared: int | None = None
        self.is_slow = True
        self.rounds = ExpiryRounds(self.store, self, self.needed_offset, clock, lambda: self.spared)

    def needed_offset(self) -> int:
        if self.needed is None:
            raise DamagedFile("a queue")
        return self.needed

    async def flushed(self, end_offset: int) -> None:
        if not self.is_slow:
            self.store.checkpoint()
        elif self.store.flushed_offset < end_offset:
            raise FlushTimeout("late")

    def fill(self, files: int) -> None:
        for _ in range(3 * files):
            self.store.append([Draft("orders", 0, encode_record(topic="orders", body=bytes(FILE_BYTES // 4)))])

    def run(self) -> int:
        """One round; returns where the log begins after it."""
        return asyncio.run(self.rounds.run()).min_physical_offset


def test_messages_expire_although_no_flush_ends_in_time() -> None:
    """Others come during each flush, so the end of the log is never on disk; where it was a round ago, it is."""
    bench, begins = Bench(), []
    for _ in range(5):
        bench.fill(2)
        begins.append(bench.run())
        bench.store.checkpoint()
    assert begins[0] == 0
    assert begins[1] < begins[3]
    assert begins[1] > 0


def test_what_has_expired_goes_when_an_operator_wants_it() -> None:
    """Whatever the hour, for as many rounds as in RocketMQ; what is needed stays."""
    now = datetime.fromtimestamp(ManualClock().now_ms() / 1000, UTC).astimezone()
    bench = Bench(delete_when=str((now.hour + 12) % 24))
    bench.is_slow = False
    bench.fill(3)
    assert bench.run() == 0
    bench.rounds.ignore_the_hour()
    bench.needed = FILE_BYTES
    assert bench.run() == FILE_BYTES
    bench.needed = NOTHING
    ends = []
    for _ in range(20):
        bench.fill(1)
        ends.append(bench.run())
    assert ends[-1] == ends[-2] > ends[-3]


def test_a_full_disk_is_noticed_although_no_flush_ends_in_time() -> None:
    """No message is taken any more that would not fit."""
    bench = Bench(budget_bytes=1 << 20)
    bench.fill(2)
    assert bench.store.is_writable
    bench.run()
    assert not bench.store.is_writable


def test_a_full_disk_is_noticed_although_nobody_can_tell_what_is_needed() -> None:
    """A queue that is damaged where a half message waits, say. Nothing goes then, nor is more taken than fits."""
    bench = Bench()
    bench.is_slow, bench.needed = False, None
    bench.fill(2)
    for budget_bytes in (1 << 20, 1 << 30):
        bench.files.set_budget(budget_bytes)
        with pytest.raises(DamagedFile):
            bench.run()
        assert bench.store.is_writable == (budget_bytes == 1 << 30)
    assert bench.store.min_physical_offset == 0


def test_what_any_look_since_found_needed_is_kept() -> None:
    """What let it go later may not be on disk when what the first look saw is."""
    bench = Bench()
    bench.fill(5)
    for needed in (NOTHING, 2 * FILE_BYTES, NOTHING):
        bench.needed = needed
        assert bench.run() == 0
    bench.store.checkpoint()
    assert bench.run() == 2 * FILE_BYTES
    bench.is_slow = False
    assert bench.run() == 4 * FILE_BYTES


def test_a_slave_spares_what_its_master_has() -> None:
    """Its master may need it for messages that wait, and then this one does when it is made the master."""
    bench = Bench()
    bench.is_slow = False
    bench.fill(5)
    begins = []
    for bench.spared in (0, FILE_BYTES - 1, 2 * FILE_BYTES, None):
        begins.append(bench.run())
    assert begins == [0, 0, 2 * FILE_BYTES, 4 * FILE_BYTES]


@pytest.mark.parametrize(("min_free_bytes", "used"), [(0, 0.95), (1 << 20, 0.5)])
def test_a_slave_whose_disk_is_full_spares_nothing(min_free_bytes: int, used: float) -> None:
    """Else it would take nothing more of its master's."""
    bench = Bench(min_free_bytes=min_free_bytes)
    bench.is_slow, bench.spared = False, 0
    bench.fill(5)
    assert bench.run() == 0
    usage = bench.files.disk_usage()
    bench.files.set_budget(int((usage.total_bytes - usage.free_bytes) / used))
    assert bench.run() == 4 * FILE_BYTES

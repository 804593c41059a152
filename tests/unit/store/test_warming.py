"""Memory for what is written next is taken ahead, by a plan that any thread may carry out."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from rmqspark.protocol.records.record import encode_record
from rmqspark.store.appending.warming import (
    DEAR_NS_PER_MIB,
    LEAST_WRITTEN_BYTES,
    MOST_AHEAD_BYTES,
    RESERVED_AFTER_BYTES,
    WarmingPlan,
)
from rmqspark.store.config import StoreConfig
from rmqspark.store.posix_files import PosixFileSystem
from rmqspark.testing.manual_clock import ManualClock

from .store_bench import StoreBench

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqspark.store.appending.warming import Ahead, BeginAhead

MIB = 1 << 20
SEGMENT_BYTES = 40 * MIB
RECORD = bytes(encode_record(topic="t", body=b"x" * MIB))


@pytest.fixture
def bench() -> StoreBench:
    return StoreBench(StoreConfig(mapped_file_size_commit_log=SEGMENT_BYTES, message_index_enable=False))


def _memory(call: Callable[[WarmingPlan], object]) -> BeginAhead:
    """Is told of plans for memory alone."""

    def begin(ahead: Ahead) -> Callable[[], object]:
        if isinstance(ahead, WarmingPlan):
            call(ahead)
        return ahead.run

    return begin


def test_a_little_traffic_warms_nothing(bench: StoreBench) -> None:
    """A store that takes a few messages takes no memory ahead of them."""
    plans: list[WarmingPlan] = []
    bench.store.work_ahead(_memory(plans.append))
    for _ in range(3):
        bench.store.append_bulk("t", 0, bytearray(RECORD))
    assert bench.store.end_offset < LEAST_WRITTEN_BYTES
    assert plans == []


def test_much_traffic_is_always_ahead_of_itself(bench: StoreBench) -> None:
    """Plans follow each other without a gap to the end of each file, none further ahead than allowed."""
    plans: list[tuple[int, str, int, int]] = []

    def note(plan: WarmingPlan) -> None:
        plans.append((bench.store.end_offset, plan.file.path, plan.start, plan.end))

    bench.store.work_ahead(_memory(note))
    while bench.store.end_offset < SEGMENT_BYTES * 2 - 8 * MIB:
        bench.store.append_bulk("t", 0, bytearray(RECORD))
    assert {path for _, path, _, _ in plans} == {f"commitlog/{base:020d}" for base in (0, SEGMENT_BYTES)}
    for path in {path for _, path, _, _ in plans}:
        parts = [(start, end) for _, of, start, end in plans if of == path]
        assert all(one_end == next_start for (_, one_end), (next_start, _) in pairwise(parts))
        assert parts[-1][1] == SEGMENT_BYTES
    for log_end, path, start, end in plans:
        base = int(path.rpartition("/")[2])
        assert log_end <= base + start < base + end <= log_end + MOST_AHEAD_BYTES


@pytest.mark.parametrize(("ns_per_mib", "warms_all"), [(DEAR_NS_PER_MIB, True), (DEAR_NS_PER_MIB - 1, False)])
def test_only_dear_memory_is_taken_ahead(bench: StoreBench, ns_per_mib: int, *, warms_all: bool) -> None:
    """Once a plan has told that memory costs little, only a small piece is tried now and then."""
    plans: list[WarmingPlan] = []
    bench.store.work_ahead(_memory(plans.append))
    while bench.store.end_offset < SEGMENT_BYTES * 2 - 8 * MIB:
        bench.store.append_bulk("t", 0, bytearray(RECORD))
        if plans:
            plans[-1].tell_cost(ns_per_mib)
    warmed = sum(plan.end - plan.start for plan in plans)
    if warms_all:
        assert warmed > SEGMENT_BYTES
    else:
        assert warmed <= 4 * LEAST_WRITTEN_BYTES


def test_a_plan_tells_its_processor_time(bench: StoreBench) -> None:
    """Whoever runs a plan has its cost told, in nanoseconds a MiB."""
    costs: list[int] = []
    plans: list[WarmingPlan] = []
    bench.store.work_ahead(_memory(plans.append))
    while not plans:
        bench.store.append_bulk("t", 0, bytearray(RECORD))
    plans[0]._replace(clock=_Busy(), tell_cost=costs.append).run()
    assert costs == [3_000_000 * MIB // (plans[0].end - plans[0].start)]


class _Busy(ManualClock):
    """Every look at it finds 3 ms more of processor time."""

    spent_ns = 0

    def thread_cpu_ns(self) -> int:
        self.spent_ns += 3_000_000
        return self.spent_ns


def test_warming_changes_nothing(tmp_path: Path) -> None:
    """What is written stays, what is not reads as zeros; a file that is closed meanwhile is no error of the plan."""
    file = PosixFileSystem(tmp_path).open("f", create=True)
    file.truncate(MIB)
    file.pwrite(b"here", 100_000)
    file.warm(0, MIB)
    assert file.pread(MIB, 0) == b"here".rjust(100_004, b"\0").ljust(MIB, b"\0")
    assert file.next_data(200_000) == MIB
    file.close()


def test_the_first_file_gets_its_room_once_there_is_traffic(bench: StoreBench) -> None:
    """All that is left of it, by one plan; files that follow have theirs when they are made."""
    plans: list[WarmingPlan] = []
    bench.store.work_ahead(_memory(plans.append))
    while bench.store.end_offset < SEGMENT_BYTES * 2 - 8 * MIB:
        bench.store.append_bulk("t", 0, bytearray(RECORD))
        for plan in plans:
            assert not plan.reserve_end or bench.store.end_offset >= RESERVED_AFTER_BYTES
    (plan,) = (plan for plan in plans if plan.reserve_end)
    assert plan.file.path == f"commitlog/{0:020d}"
    assert plan.start < 32 * MIB
    assert plan.reserve_end == SEGMENT_BYTES


def test_forgetting_changes_nothing(tmp_path: Path) -> None:
    """What nobody will read again may leave the memory, and reads the same if somebody does; synced before, or not."""
    file = PosixFileSystem(tmp_path).open("f", create=True)
    content = bytes(range(256)) * (MIB // 256)
    file.pwrite(content, 0)
    file.fsync()
    file.pwrite(b"not synced", 4096)
    file.forget(0, MIB)
    assert file.pread(MIB, 0) == content[:4096] + b"not synced" + content[4106:]
    file.close()

"""Deleted topics stay deleted: what a crash may bring back, until when, and of which topic."""

from __future__ import annotations

from errno import EIO
from itertools import count
from typing import TYPE_CHECKING

import pytest

from rmqspark.store.config import StoreConfig
from rmqspark.testing.disk_faults import CHANGES, ProcessDied

from .store_bench import SMALL, StoreBench

if TYPE_CHECKING:
    from collections.abc import Callable

SYNC = StoreConfig(**{**SMALL.__dict__, "flush_disk_type": "SYNC_FLUSH"})
MODES = pytest.mark.parametrize("config", [SMALL, SYNC], ids=["async", "sync"])
CRASHES: list[Callable[[StoreBench], object]] = [
    StoreBench.kill,
    StoreBench.lose_power,
    *(lambda bench, seed=seed: bench.lose_power(seed) for seed in range(12)),
]
BODIES = [b"%d" % number for number in range(8)]  # more than a file of a queue has room for

pytestmark = pytest.mark.faults


def delete_during_a_flush(config: StoreConfig, *, thorough: bool, checkpoints: int) -> tuple[StoreBench, bool]:
    """Deletes "t" while a flush is under way; and whether that is for good after so many checkpoints."""
    bench = StoreBench(config)
    bench.send("t", 0, *BODIES)
    bench.send("u", 0, *BODIES)
    plan = bench.store.begin_flush(thorough=thorough)
    assert plan is not None
    bench.store.delete_topic("t")
    end_offset = bench.store.end_offset
    plan.run()
    bench.store.finish_flush(plan)
    for _ in range(checkpoints):
        bench.store.checkpoint()
    return bench, bench.store.recovery_offset >= end_offset


@MODES
@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("crash", CRASHES)
def test_a_deletion_is_for_good_when_a_recovery_would_begin_behind_it(
    config: StoreConfig, thorough: bool, crash: Callable[[StoreBench], object]
) -> None:
    """A checkpoint that began before the deletion is none of it; one that began after it is on disk with the next."""
    for checkpoints in count():
        bench, is_for_good = delete_during_a_flush(config, thorough=thorough, checkpoints=checkpoints)
        crash(bench)
        assert bench.store.topics() == ["u"] or not is_for_good
        assert bench.bodies("u", 0) == BODIES
        if is_for_good:
            break
    assert checkpoints == 2


@MODES
@pytest.mark.parametrize("thorough", [False, True])
def test_the_checkpoint_after_a_deletion_outlives_a_kill(config: StoreConfig, thorough: bool) -> None:
    """Without one, what was deleted while a flush was under way comes back."""
    found = []
    for checkpoints in range(2):
        bench, is_for_good = delete_during_a_flush(config, thorough=thorough, checkpoints=checkpoints)
        assert not is_for_good
        bench.kill()
        found.append(bench.store.topics())
    assert found == [["t", "u"], ["u"]]


def with_one_deleted(config: StoreConfig) -> StoreBench:
    """A store whose topic "t" is deleted for good, "v" about to be, and "u" there, with a little that no checkpoint
    covers."""
    bench = StoreBench(config)
    for topic in ("t", "u", "v"):
        bench.send(topic, 0, *BODIES)
        bench.send(topic, 3, *BODIES)
    bench.store.flush()
    bench.store.delete_topic("t")
    bench.store.checkpoint()
    bench.store.checkpoint()
    assert bench.store.recovery_offset == bench.store.end_offset
    for topic in ("u", "v"):
        bench.send(topic, 0, b"later")
    bench.store.flush()
    return bench


@MODES
@pytest.mark.parametrize("crash", CRASHES)
def test_a_deletion_that_a_crash_cuts_short_undoes_none_before_it(
    config: StoreConfig, crash: Callable[[StoreBench], object]
) -> None:
    """Whichever of its steps is the last: recovery does not go through the log that has the other topic still."""
    for steps in count(1):
        bench = with_one_deleted(config)
        bench.disk.stop_at(steps)
        try:
            bench.store.delete_topic("v")
        except ProcessDied:
            has_died = True
        else:
            has_died = False
            bench.disk.heal()
        crash(bench)
        assert [topic for topic in bench.store.topics() if topic != "v"] == ["u"]
        assert (bench.bodies("u", 0), bench.bodies("u", 3)) == ([*BODIES, b"later"], BODIES)
        if not has_died:
            break
    assert steps > 6


@pytest.mark.parametrize("under_way", [False, True])
@pytest.mark.parametrize("crash", CRASHES)
def test_a_deletion_during_a_flush_undoes_none_before_it(
    under_way: bool, crash: Callable[[StoreBench], object]
) -> None:
    """The checkpoint of that flush counts entries of both, and is not written as it was planned."""
    bench = with_one_deleted(SMALL)
    plan = bench.store.begin_flush(thorough=True)
    assert plan is not None
    plan.run()
    bench.store.delete_topic("v")
    if not under_way:
        bench.store.finish_flush(plan)
    crash(bench)
    assert "t" not in bench.store.topics()


@pytest.mark.parametrize("crash", CRASHES)
def test_a_deletion_that_failed_is_done_by_the_next(crash: Callable[[StoreBench], object]) -> None:
    """Whichever of its steps the disk refuses, nothing of the topic is left when it is deleted once more."""
    for steps in count(1):
        bench = with_one_deleted(SMALL)
        bench.disk.fail_at(steps, OSError(EIO, "refused"), counted=CHANGES - {"fsync"})
        try:
            bench.store.delete_topic("v")
        except OSError:
            bench.disk.heal()
        else:
            break
        bench.store.delete_topic("v")
        assert not bench.files.exists("consumequeue/v")
        for _ in range(2):
            bench.store.checkpoint()
        assert bench.store.recovery_offset == bench.store.end_offset
        crash(bench)
        assert bench.store.topics() == ["u"]
        assert bench.bodies("u", 0) == [*BODIES, b"later"]
    assert steps > 6


def test_a_deletion_whose_fsync_fails_removes_nothing_and_ends_writing() -> None:
    """As in a flush, nobody can say what is on disk: the next flush ends with the same error."""
    bench = with_one_deleted(SMALL)
    bench.disk.fail_next("fsync", OSError(EIO, "refused"))
    with pytest.raises(OSError, match="refused"):
        bench.store.delete_topic("v")
    assert bench.store.topics() == ["u", "v"]
    with pytest.raises(OSError, match="refused"):
        bench.store.checkpoint()
    assert not bench.store.is_writable
    bench.lose_power()
    assert bench.store.topics() == ["u", "v"]


def test_where_nothing_is_behind_the_checkpoint_a_deletion_is_for_good_at_once() -> None:
    """Of an idle store: what is on disk says already that the topic's entries do not count."""
    bench = with_one_deleted(SMALL)
    bench.store.checkpoint()
    bench.store.delete_topic("v")
    assert bench.store.recovery_offset == bench.store.end_offset
    bench.lose_power()
    assert bench.store.topics() == ["u"]

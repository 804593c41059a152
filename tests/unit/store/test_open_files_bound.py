"""A store that may have few files open, or cannot open one more."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from rmqspark.errors import NotWritable

from .store_bench import SMALL, StoreBench

TOO_MANY = OSError(errno.EMFILE, "Too many open files")
FEW = replace(SMALL, max_open_files=1, mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=100 * 20)


@pytest.mark.parametrize("entries", [1, 80])
def test_a_queue_that_cannot_be_opened_ends_nothing(entries: int) -> None:
    """Its messages are in the log and are readable once a file can be opened; flushes go on meanwhile."""
    bench = StoreBench(FEW)
    for topic in ("t", "u"):  # the file of the first is closed for that of the second
        bench.send(topic, 0, b"before")
        bench.store.checkpoint()
    for _ in range(20):
        bench.disk.fail_next("open", TOO_MANY)
    bench.send("t", 0, *[b"sent %d" % number for number in range(entries)])
    for thorough in (True, False):
        plan = bench.store.flusher.begin(thorough=thorough)
        if plan is not None:
            plan.run()
            bench.store.flusher.finish(plan)
    assert bench.store.is_writable
    bench.disk.heal()
    bench.send("t", 0, b"after")
    assert bench.bodies("t", 0) == [b"before", *[b"sent %d" % number for number in range(entries)], b"after"]


def open_files(bench: StoreBench) -> int:
    """How many queues have their file open."""
    return bench.store._storeys._queue_files.open_count


@pytest.mark.parametrize("under_way", [False, True])
def test_queues_that_wait_for_a_flush_are_synced_where_there_are_many(under_way: bool) -> None:
    """However many queues are written between two flushes, and during one, few are open; and all of it is on disk."""
    bench = StoreBench(replace(FEW, max_unsynced_files=3, mapped_file_size_commit_log=1 << 20))
    plan = None
    for number in range(60):
        bench.send(f"t{number}", 0, b"one", b"two")
        if under_way and number == 30:
            plan = bench.store.flusher.begin(thorough=True)
            assert plan is not None
        assert open_files(bench) <= 4
    if plan is not None:
        plan.run()
        bench.store.flusher.finish(plan)
    bench.store.checkpoint()
    last = {path: name for name, path in bench.disk.log if name in ("pwrite", "fsync") and "consumequeue" in path}
    assert len(last) == 60
    assert set(last.values()) == {"fsync"}
    bench.disk.crash(None)
    bench.open()
    assert not bench.store.damage
    assert {tuple(bench.bodies(f"t{number}", 0)) for number in range(60)} == {(b"one", b"two")}


def test_a_queue_that_cannot_be_synced_ends_writing() -> None:
    """As when a flush meets the error: nothing counts as flushed any more, reads go on, and a start makes it good."""
    bench = StoreBench(replace(FEW, max_unsynced_files=2))
    bench.send("t0", 0, b"flushed")
    bench.store.checkpoint()
    bench.disk.fail_next("fsync", OSError(errno.EIO, "refused"))
    for number in range(5):
        bench.send(f"t{number}", 1, b"sent")
    recovery_offset = bench.store._storeys.checkpoint_file.current.recovery_offset
    with pytest.raises(OSError, match="refused"):
        bench.store.checkpoint()
    assert bench.store._storeys.checkpoint_file.current.recovery_offset == recovery_offset
    with pytest.raises(NotWritable, match="fsync"):
        bench.send("t", 0, b"not taken")
    assert bench.bodies("t4", 1) == [b"sent"]
    bench.store.close()
    bench.open()
    assert [bench.bodies(f"t{number}", 1) for number in range(5)] == [[b"sent"]] * 5
    bench.disk.crash(None)
    bench.open()
    assert [bench.bodies(f"t{number}", 1) for number in range(5)] == [[b"sent"]] * 5


def test_a_log_that_cannot_be_continued_says_why() -> None:
    """Nothing is stored; the refusal names the limit of open files, not the disk."""
    bench = StoreBench()
    bench.disk.fail_next("create", TOO_MANY)
    with pytest.raises(NotWritable, match="Too many open files") as refused:
        bench.send("t", 0, b"refused")
    assert "ulimit -n" in refused.value.hint
    bench.send("t", 0, b"taken")
    assert bench.bodies("t", 0) == [b"taken"]

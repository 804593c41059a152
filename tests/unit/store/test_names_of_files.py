"""What a file holds outlives a loss of power, whichever life of the store made the file."""

from __future__ import annotations

from contextlib import suppress
from errno import EIO
from itertools import count

import pytest

from rmqspark.errors import NotWritable, StoreError
from rmqspark.store.files import read_whole, write_whole
from rmqspark.store.inspection.store import inspect_store
from rmqspark.testing.disk_faults import ProcessDied

from .store_bench import StoreBench


def expire_all(bench: StoreBench) -> None:
    """Has the log begin later, with what is there gone."""
    begun_at = bench.store.end_offset
    while bench.store.figures().min_physical_offset < begun_at:
        bench.send("t", 0, b"x" * 300, b"y" * 300)
        bench.store.checkpoint()
        bench.clock.advance(hours=80)
        bench.store.expire(bench.clock.now_ms())


def test_a_new_queue_has_its_name_before_a_checkpoint_counts_it() -> None:
    """Made after the names of all queues were synced for good: it remembers what it gave when its messages are gone."""
    bench = StoreBench()
    bench.send("t", 0, b"0")
    expire_all(bench)
    bench.send("u", 0, b"first of u")
    expire_all(bench)
    bench.lose_power()
    assert bench.store.queues.max_offset("u", 0) == 1


@pytest.mark.parametrize("directory", ["commitlog", "consumequeue/t/0", "index"])
def test_a_name_in_digits_of_another_script_is_nobodys(directory: str) -> None:
    """It is not taken for the file that it would be in ours, which has the messages."""
    bench = StoreBench()
    bodies = [b"%d" % number for number in range(20)]
    bench.send("t", 0, *bodies)
    bench.store.close()
    first = bench.files.listdir(directory)[0]
    theirs = f"{directory}/{first.translate({ord('0') + digit: chr(0x660 + digit) for digit in range(10)})}"
    write_whole(bench.files, theirs, bytes(1024))
    bench.open()
    assert bench.bodies("t", 0) == bodies
    assert len(bench.store.query("t", "7", 0, 1 << 60, 9)) == 1
    bench.store.close()
    assert not inspect_store(bench.files, "store", is_open=False, on_progress=lambda *_: None).is_broken
    assert read_whole(bench.files, theirs) == bytes(1024)


def test_a_queue_that_goes_before_its_name_is_synced() -> None:
    """Its topic is deleted while a flush is under way that was to make it durable."""
    bench = StoreBench()
    bench.send("u", 0, b"first of u")
    bench.send("t", 0, b"first of t")
    plan = bench.store.flusher.begin(thorough=True)
    assert plan is not None
    bench.store.deletions.delete("u")
    plan.run()
    bench.store.flusher.finish(plan)
    bench.lose_power()
    assert bench.bodies("t", 0) == [b"first of t"]
    assert bench.store.queues.topics() == ["t"]


def test_a_queue_made_by_a_process_that_was_killed() -> None:
    """Killed at any step of making a queue: the next life uses it, deletes its messages, loses power, and remembers."""
    for at in count(1):
        bench = StoreBench()
        bench.send("t", 0, b"0")
        bench.disk.stop_at(at)
        try:
            bench.send("u", 0, b"first of u")
            bench.store.checkpoint()
        except (ProcessDied, NotWritable):
            survived = False
        else:
            survived = True
        bench.disk.heal()
        bench.kill()
        given = bench.store.queues.max_offset("u", 0)
        while bench.store.figures().min_physical_offset == 0:
            bench.send("t", 0, b"x" * 300, b"y" * 300)
            bench.store.checkpoint()
            bench.clock.advance(hours=80)
            bench.store.expire(bench.clock.now_ms())
        bench.lose_power()
        assert bench.store.queues.max_offset("u", 0) >= given, f"killed at step {at}"
        if survived:
            assert given == 1
            return


@pytest.mark.parametrize("first_fault", range(1, 16))
def test_a_file_of_the_log_made_by_a_life_that_failed(first_fault: int) -> None:
    """The disk refuses any step of beginning a file, and any step of the next start: the life after that writes into
    what it finds, syncs, loses power, and has all that it had synced, with its keys."""
    for second_fault in count(1):
        bench = StoreBench()
        bench.disk.fail_at(first_fault, OSError(EIO, "refused"))
        with suppress(NotWritable):
            bench.send_bulk("t", 0, b"v" * 300, b"w" * 300, b"x" * 300)
        bench.disk.heal()
        bench.disk.fail_at(second_fault, OSError(EIO, "refused"))
        try:
            bench.reopen()
        except (StoreError, OSError):
            bench.disk.heal()
            bench.kill()
            was_refused = True
        else:
            was_refused = False
        bench.disk.heal()
        bench.send("t", 0, b"y" * 300, b"z" * 300)
        bench.store.flush()
        given = bench.bodies("t", 0)
        bench.lose_power()
        assert bench.bodies("t", 0) == given, f"refused at steps {first_fault} and {second_fault}"
        assert len(bench.store.query("t", "z" * 300, 0, 1 << 60, 8)) == 1, f"at {first_fault} and {second_fault}"
        if not was_refused:
            return

"""The highest offset that a queue ever gave outlives its messages, whenever the queue's files were made."""

from __future__ import annotations

from itertools import count

from rmqspark.errors import NotWritable
from rmqspark.testing.disk_faults import ProcessDied

from .store_bench import StoreBench


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
        given = bench.store.max_offset("u", 0)
        while bench.store.figures().min_physical_offset == 0:
            bench.send("t", 0, b"x" * 300, b"y" * 300)
            bench.store.checkpoint()
            bench.clock.advance(hours=80)
            bench.store.expire(bench.clock.now_ms())
        bench.lose_power()
        assert bench.store.max_offset("u", 0) >= given, f"killed at step {at}"
        if survived:
            assert given == 1
            return

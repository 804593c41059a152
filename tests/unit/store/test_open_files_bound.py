"""A store that may have few files open, or cannot open one more."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

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
        plan = bench.store.begin_flush(thorough=thorough)
        if plan is not None:
            plan.run()
            bench.store.finish_flush(plan)
    assert bench.store.is_writable
    bench.disk.heal()
    bench.send("t", 0, b"after")
    assert bench.bodies("t", 0) == [b"before", *[b"sent %d" % number for number in range(entries)], b"after"]

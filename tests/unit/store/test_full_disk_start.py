"""A disk with no room when a store is opened or closed: refused in words, and nothing is lost."""

from __future__ import annotations

import os
from errno import EACCES, EIO, ENOSPC, EROFS

import pytest

from rmqspark.errors import StoreError

from .store_bench import StoreBench

pytestmark = pytest.mark.faults


def fill(bench: StoreBench, free_pages: int) -> None:
    usage = bench.disk.disk_usage()
    bench.disk.set_budget(usage.total_bytes - usage.free_bytes + free_pages * 4096)


@pytest.mark.parametrize("free_pages", [0, 1])
def test_a_start_without_room_says_what_is_needed(free_pages: int) -> None:
    """The store is named, how much room there is, how much is needed and what to do; with room it starts, unharmed."""
    bench = StoreBench()
    bench.store.close()
    fill(bench, free_pages)
    bench._root = "new"
    with pytest.raises(StoreError) as refused:
        bench.open()
    assert "The store new cannot be opened" in refused.value.message
    assert "No space left on device" in refused.value.message
    assert " bytes are free." in refused.value.message
    assert refused.value.hint == "At least 1 MiB must be free on that disk: make room, or keep the store elsewhere."
    bench.disk.set_budget(None)
    bench.disk.kill()
    bench.open()
    bench.send("t", 0, b"first")
    assert bench.bodies("t", 0) == [b"first"]


@pytest.mark.parametrize("refusal", [EACCES, EROFS])
def test_a_start_that_may_not_write_says_where_to_look(refusal: int) -> None:
    """Of another user's files, and of a disk that is mounted read-only."""
    bench = StoreBench()
    bench.store.close()
    bench._root = "new"
    bench.disk.fail_next("create", OSError(refusal, os.strerror(refusal), "new/lock"))
    with pytest.raises(StoreError, match=f"The store new cannot be opened: .*{os.strerror(refusal)}") as refused:
        bench.open()
    assert refused.value.hint == "See whose files these are, and whether that disk is mounted read-only."


def test_a_start_that_cannot_read_a_file_says_what_helps() -> None:
    """A disk with a bad spot stays as it is, however often the broker is started."""
    bench = StoreBench()
    bench.store.close()
    bench.disk.fail_next("pread", OSError(EIO, "Input/output error at byte 0", "checkpoint"))
    with pytest.raises(StoreError, match="The store store cannot be opened: .*at byte 0: 'checkpoint'") as refused:
        bench.open()
    assert "ddrescue" in refused.value.hint


def test_a_stop_without_room_says_so_and_loses_nothing() -> None:
    """What could not be written at the end is named as a full disk, and recovered by the next start."""
    bench = StoreBench()
    bench.send("t", 0, *(b"%d" % number for number in range(7)))
    bench.store.checkpoint()
    bodies = [b"%d" % number for number in range(7)]
    for _ in range(5):
        bench.disk.fail_next("pwrite", OSError(ENOSPC, "No space left on device"))
    with pytest.raises(StoreError, match=r"The store store cannot be closed in order: .*No space left") as refused:
        bench.store.close()
    assert refused.value.hint.endswith("The next start recovers it.")
    bench.disk.heal()
    bench.open()
    assert bench.bodies("t", 0) == bodies

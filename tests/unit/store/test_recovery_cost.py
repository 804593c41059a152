"""What recovery reads: what lies behind the checkpoint, however much lies before it."""

from __future__ import annotations

import pytest

from rmqspark.store.config import StoreConfig

from .store_bench import SMALL, StoreBench

CONFIG = StoreConfig(
    **{
        **SMALL.__dict__,
        "mapped_file_size_commit_log": 4096,
        "mapped_file_size_consume_queue": 2000,
        "max_index_num": 100,
        "max_open_files": 100,
    }
)
QUEUES = 10
BODY = b"x" * 60


def store_with(before: int, behind: int) -> StoreBench:
    """Messages in several queues before the last checkpoint, and behind it."""
    bench = StoreBench(CONFIG)
    for number in range(before + behind):
        if number <= before and number % 100 == 0:
            bench.store.checkpoint()
        bench.send("t", number % QUEUES, b"%06d" % number + BODY)
    bench.store.flush()
    return bench


def bytes_read_by_recovery(bench: StoreBench) -> int:
    bench.disk.kill()
    start = bench.disk.bytes_read
    bench.open()
    assert bench.store.damage == ()
    return bench.disk.bytes_read - start


def test_what_recovery_reads_does_not_grow_with_the_store() -> None:
    """Ten times as many messages before the checkpoint cost a kill's recovery next to nothing."""
    small, large = (bytes_read_by_recovery(store_with(before, 50)) for before in (300, 3000))
    assert large < 1.2 * small


def test_what_recovery_reads_grows_with_what_lies_behind_the_checkpoint() -> None:
    """Each byte behind the checkpoint is read a few times at most."""
    few, many = (store_with(300, behind) for behind in (50, 1050))
    size_bytes = many.store.end_offset - few.store.end_offset
    more_bytes = bytes_read_by_recovery(many) - bytes_read_by_recovery(few)
    assert size_bytes < more_bytes < 4 * size_bytes


@pytest.mark.parametrize("before", [300, 3000])
def test_a_closed_store_is_opened_without_reading_it(before: int) -> None:
    """After an orderly end there is nothing to go through."""
    bench = store_with(before, 0)
    bench.store.close()
    start = bench.disk.bytes_read
    bench.open()
    assert bench.disk.bytes_read - start < 32 * 1024

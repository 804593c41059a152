"""Bulk reads that are told where records lie: the same bytes as those that are read, which are where that is better."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.bulk.topic_ranges import TopicRange, encode_found
from rmqspark.protocol.commands.file_region import in_memory
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft

from .store_bench import EVERYTHING, StoreBench

if TYPE_CHECKING:
    from rmqspark.store.reading.reader import BulkReadResult

FILE_BYTES = 256 << 10
LARGE_FILES = StoreConfig(mapped_file_size_commit_log=FILE_BYTES, message_index_enable=False)
KIB = 1 << 10


def filled(*runs: tuple[int, int, int]) -> StoreBench:
    """Runs of so many messages of so many bytes, each for a queue, one after the other."""
    bench, numbers = StoreBench(LARGE_FILES), iter(range(1 << 20))
    for queue_id, count, size in runs:
        bodies = [(b"%06d " % next(numbers)).ljust(size, b".") for _ in range(count)]
        records = [encode_record(topic="t", queue_id=queue_id, body=body) for body in bodies]
        bench.store.append([Draft("t", queue_id, record) for record in records])
    return bench


def read(bench: StoreBench, *, unchecked: bool, start: int = 0, max_bytes: int = EVERYTHING) -> BulkReadResult:
    return bench.store.read_bulk("t", 0, start, EVERYTHING, max_count=1 << 20, max_bytes=max_bytes, unchecked=unchecked)


def bytes_of(found: BulkReadResult) -> bytes:
    return b"".join(bytes(region.read()) for region in found.regions) or bytes(found.body)


def test_neighbours_are_one_region() -> None:
    """A run of messages is told by one place, and nothing of it is read but its ends."""
    bench = filled((0, 100, KIB))
    before = bench.disk.bytes_read
    found = read(bench, unchecked=True)
    (region,) = found.regions
    assert len(region) == int(found.sizes.sum()) == 100 * int(found.sizes[0])
    assert bench.disk.bytes_read - before < 100 * 20 + 1_000  # its queue entries, and two heads
    assert not found.body
    assert bytes_of(found) == bytes(read(bench, unchecked=False).body)


def test_a_region_that_was_sent_in_part() -> None:
    """What is left of it is what comes behind."""
    (region,) = read(filled((0, 100, KIB)), unchecked=True).regions
    whole = bytes(region.read())
    assert bytes(region.after(70_000).read()) == whole[70_000:]
    assert len(region.after(70_000)) == len(whole) - 70_000


def test_runs_of_others_lie_between() -> None:
    """Each run is a region of its own, in the order of the queue."""
    bench = filled((0, 75, KIB), (1, 75, KIB), (0, 75, KIB), (0, 7, KIB))
    found = read(bench, unchecked=True)
    assert len(found.regions) == 2
    assert bytes_of(found) == bytes(read(bench, unchecked=False).body)


def test_a_run_over_the_end_of_a_file() -> None:
    """A region is a part of one file."""
    bench = filled((0, 500, KIB))
    found = read(bench, unchecked=True)
    assert len(found.regions) == 1 + bench.store.end_offset // FILE_BYTES
    assert bytes_of(found) == bytes(read(bench, unchecked=False).body)


@pytest.mark.parametrize(
    "runs", [[(0, 20, KIB)], [(0, 1, 63 * KIB)], [(queue_id, 1, KIB) for queue_id in (0, 1) * 100]]
)
def test_what_had_better_be_copied(runs: list[tuple[int, int, int]]) -> None:
    """Little, and what lies here and there."""
    found = read(filled(*runs), unchecked=True)
    assert not found.regions
    assert found.body


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(1, 90), st.sampled_from([10, KIB, 9 * KIB])), min_size=1, max_size=8
    ),
    st.integers(0, 100),
    st.sampled_from([1, 90 * KIB, 300 * KIB, EVERYTHING]),
)
def test_either_way_it_is_the_same(runs: list[tuple[int, int, int]], start: int, max_bytes: int) -> None:
    """Whatever lies where, from wherever on and up to whatever limit."""
    bench = filled(*runs)
    told, copied = (read(bench, unchecked=unchecked, start=start, max_bytes=max_bytes) for unchecked in (True, False))
    assert told.sizes.tolist() == copied.sizes.tolist()
    assert (told.next_offset, told.min_offset, told.max_offset) == (
        copied.next_offset,
        copied.min_offset,
        copied.max_offset,
    )
    assert bytes_of(told) == bytes(copied.body)


def test_a_file_that_could_not_be_read() -> None:
    """Its records are told by no places any more: whoever asks for them again is to hear what is wrong with it."""
    bench = filled((0, 100, KIB))
    (region,) = read(bench, unchecked=True).regions
    bench.disk.fail_next("pread")
    with pytest.raises(OSError, match="planned by the test"):
        region.read()
    assert not read(bench, unchecked=True).regions
    assert bytes_of(read(bench, unchecked=True)) == bytes(read(bench, unchecked=False).body)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 90), st.sampled_from([10, KIB, 9 * KIB])), min_size=1, max_size=8
    ),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 200)), min_size=1, max_size=4),
    st.sampled_from([1, 90 * KIB, 300 * KIB, EVERYTHING]),
)
def test_ranges_of_many_queues_are_the_same_either_way(
    runs: list[tuple[int, int, int]], asked: list[tuple[int, int, int]], max_bytes: int
) -> None:
    """Read together, too."""
    bench = filled(*runs)
    ranges = [TopicRange("t", queue_id, start, start + length) for queue_id, start, length in asked]
    told, copied = (
        bench.store.read_ranges(ranges, max_count=1 << 20, max_bytes=max_bytes, unchecked=unchecked)
        for unchecked in (True, False)
    )
    assert b"".join(bytes(part) for part in in_memory(encode_found(told))) == b"".join(map(bytes, encode_found(copied)))


def test_ranges_of_many_queues_are_regions() -> None:
    """Where each queue's messages lie together."""
    bench = filled((0, 90, KIB), (1, 90, KIB), (0, 40, KIB))
    found = bench.store.read_ranges(
        [TopicRange("t", 1, 0, 90), TopicRange("t", 0, 10, 80)], max_count=999, max_bytes=EVERYTHING, unchecked=True
    )
    assert [len(region) for region in found.regions] == [int(found.sizes[:90].sum()), int(found.sizes[90:].sum())]
    assert not found.records


@pytest.mark.parametrize("damaged", [0, 99])
@pytest.mark.parametrize("field_at", [0, 28])
def test_ends_that_are_not_what_entries_say(damaged: int, field_at: int) -> None:
    """A run whose first or last record has another size or place is looked at whole, and that record left out."""
    bench = filled((0, 100, KIB))
    sizes = read(bench, unchecked=False).sizes.tolist()
    bench.write_file(f"commitlog/{0:020d}", b"\x7f", [0, *accumulate(sizes)][damaged] + field_at)
    found = read(bench, unchecked=True)
    assert not found.regions
    assert (len(found.sizes), found.next_offset) == (99, 100)
    assert bytes_of(found) == bytes(read(bench, unchecked=False).body)

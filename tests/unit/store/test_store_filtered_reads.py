"""Reading queues by what is in the messages: what is found, how far one read goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.records.record import decode_record, encode_record
from rmqspark.protocol.sql.filter import SqlFilter
from rmqspark.store.config import StoreConfig
from rmqspark.store.reading.reader import ReadStatus

from .store_bench import EVERYTHING, QUEUE_FILE_ENTRIES, StoreBench

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.records.record_batch import RecordBatch

COUNT = 24


@pytest.fixture(scope="module")
def bench() -> StoreBench:
    """Messages of several sizes in queue 0, among those of queue 1."""
    bench = StoreBench()
    for number in range(COUNT):
        bench.send("t", 0, b"m%02d" % number + b"x" * (number % 7 * 30))
        bench.send("t", 1, b"other%d" % number)
    return bench


class Only:
    """Wants the messages with these numbers, and says that it costs so much."""

    def __init__(self, numbers: set[int], cost: int = 1) -> None:
        self._bodies = {b"m%02d" % number for number in numbers}
        self.cost = cost
        self.asked: list[int] = []

    def matching(self, records: RecordBatch) -> NDArray[np.bool_]:
        self.asked.append(len(records))
        starts = records.bodies.starts.tolist()
        return np.array([records.buffer[start : start + 3].tobytes() in self._bodies for start in starts], np.bool_)


def numbers_in(body: bytes | memoryview, count: int) -> list[int]:
    numbers, at = [], 0
    for _ in range(count):
        record = decode_record(bytes(body), at)
        numbers.append(int(record.body[1:3]))
        at += record.size
    assert at == len(body)
    return numbers


@pytest.mark.property
@given(st.sets(st.integers(0, COUNT - 1)), st.integers(1, 12), st.integers(1, 3000), st.sampled_from([1, 1 << 14]))
def test_reading_on_with_a_filter_brings_each_match_once(
    bench: StoreBench, wanted: set[int], max_count: int, max_bytes: int, cost: int
) -> None:
    """Whatever the limits and the filter's cost, by pulls and in bulk: every match, in order, within the limits."""
    limits = {"max_count": max_count, "max_bytes": max_bytes, "record_filter": Only(wanted, cost)}
    offset, seen = 0, []
    while offset < COUNT:
        result = bench.store.read("t", 0, offset, **limits)
        found = numbers_in(result.body, result.count)
        assert result.status is (ReadStatus.FOUND if found else ReadStatus.NO_MATCHED_MESSAGE)
        assert len(found) <= max_count
        assert len(found) <= 1 or len(result.body) <= max_bytes
        assert result.next_offset > offset
        seen, offset = seen + found, result.next_offset
    assert seen == sorted(wanted)
    offset, seen = 3, []
    while offset < COUNT - 3:
        in_bulk = bench.store.read_bulk("t", 0, offset, COUNT - 3, **limits)
        seen += numbers_in(in_bulk.body, len(in_bulk.sizes))
        assert offset < in_bulk.next_offset <= COUNT - 3
        offset = in_bulk.next_offset
    assert seen == sorted(wanted & set(range(3, COUNT - 3)))


def test_a_read_stops_where_it_has_enough(bench: StoreBench) -> None:
    """Where all messages match, no more are looked at than the answer holds."""
    wanted = Only(set(range(COUNT)))
    assert bench.store.read("t", 0, 0, max_count=3, max_bytes=EVERYTHING, record_filter=wanted).next_offset == 3
    assert wanted.asked == [3]


def test_a_read_ends_with_what_does_not_fit(bench: StoreBench) -> None:
    """A match that there is no room for is left for the next read, and is not looked at again and again."""
    wanted = Only({0, 6})
    size = len(bench.store.read("t", 0, 0, max_count=1, max_bytes=EVERYTHING).body)
    found = bench.store.read("t", 0, 0, max_count=32, max_bytes=size + 1, record_filter=wanted)
    assert (numbers_in(found.body, found.count), found.next_offset) == ([0], 5)
    following = bench.store.read("t", 0, 5, max_count=32, max_bytes=1, record_filter=wanted)
    assert (numbers_in(following.body, following.count), following.next_offset) == ([6], 10)
    in_bulk = bench.store.read_bulk("t", 0, 0, COUNT, max_count=32, max_bytes=size + 1, record_filter=wanted)
    assert (len(in_bulk.sizes), in_bulk.next_offset) == (1, 6)
    assert wanted.asked == [5, 5, COUNT]


def test_a_dear_filter_looks_at_less(bench: StoreBench) -> None:
    """What a filter costs and what its messages weigh bound how far one read goes; it goes one message at least."""
    reads = {
        cost: bench.store.read_bulk(
            "t", 0, 0, COUNT, max_count=EVERYTHING, max_bytes=EVERYTHING, record_filter=Only(set(), cost)
        ).next_offset
        for cost in (1, (1 << 17) // 9, 1 << 40)
    }
    assert reads == {1: COUNT, (1 << 17) // 9: 9, 1 << 40: 1}


def test_a_read_ends_with_the_bytes_it_may_look_at() -> None:
    """Large messages that do not match are passed over a few at a time."""
    bench = StoreBench(StoreConfig())
    large = encode_record(topic="t", queue_id=0, body=b"m00" + bytes(2_000_000), properties=b"")
    for _ in range(6):
        bench.store.append_bulk("t", 0, bytearray(large), np.array([len(large)], np.int32))
    first = bench.store.read("t", 0, 0, max_count=32, max_bytes=EVERYTHING, record_filter=Only(set()))
    assert (first.status, first.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 5)
    last = bench.store.read("t", 0, 5, max_count=32, max_bytes=EVERYTHING, record_filter=Only(set()))
    assert last.next_offset == 6


def test_places_without_a_message(bench: StoreBench) -> None:
    """At the end, beyond it and before the start a filter changes nothing; a gone file of the queue is stepped over."""
    wanted = Only(set())
    for offset, status in ((COUNT, ReadStatus.OFFSET_OVERFLOW_ONE), (COUNT + 1, ReadStatus.OFFSET_OVERFLOW_BADLY)):
        result = bench.store.read("t", 0, offset, max_count=9, max_bytes=EVERYTHING, record_filter=wanted)
        assert result.status is status
    lossy = StoreBench()
    for number in range(2 * QUEUE_FILE_ENTRIES):
        lossy.send("t", 0, b"m%02d" % number)
    lossy.store.checkpoint()
    lossy.flip_bit("consumequeue/t/0/00000000000000000000", 20 + 7)
    everything = Only(set(range(COUNT)))
    found = lossy.store.read("t", 0, 0, max_count=9, max_bytes=EVERYTHING, record_filter=everything)
    assert numbers_in(found.body, found.count) == [0, 2, 3, 4]
    assert found.next_offset == QUEUE_FILE_ENTRIES


def test_expressions_over_properties(bench: StoreBench) -> None:
    """SQL92 over what the messages carry."""
    wanted = SqlFilter.parse("UNIQ_KEY IN ('m00', 'm07') OR UNIQ_KEY STARTSWITH 'm2'")
    found = bench.store.read_bulk("t", 0, 0, COUNT, max_count=99, max_bytes=EVERYTHING, record_filter=wanted)
    assert numbers_in(found.body, len(found.sizes)) == [0, 7, *range(20, 24)]

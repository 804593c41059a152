"""Ranges of many queues read at once: what each holds is what reading it alone brings, to the byte."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import DamagedFile, OffsetMoved
from rmqspark.protocol.bulk.topic_ranges import TopicRange
from rmqspark.protocol.java_hash import tags_code
from rmqspark.store.config import StoreConfig

from .store_bench import EVERYTHING, QUEUE_FILE_ENTRIES, SMALL, StoreBench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.bulk.topic_ranges import FoundRanges
    from rmqspark.store.message_store import MessageStore

TAGS = ["a", "b", None]
Codes = frozenset[int] | None


@pytest.fixture
def bench() -> StoreBench:
    """Thirty messages in each of two topics, taking turns; tags a, b, none in turn."""
    bench = StoreBench()
    for number in range(30):
        for topic in ("t", "u"):
            bench.send(topic, 0, b"%s%02d" % (topic.encode(), number), tags=TAGS[number % 3])
    return bench


def alone(store: MessageStore, wanted: TopicRange, codes: Codes) -> bytes:
    """The records of a range, the slow way."""
    topic, queue_id, at, end, _ = wanted
    records = b""
    while at < end:
        try:
            read = store.read_bulk(topic, queue_id, at, end, max_count=7, max_bytes=EVERYTHING, tag_codes=codes)
        except OffsetMoved as moved:
            at = moved.next_offset
            continue
        if read.next_offset <= at:
            break
        at, records = read.next_offset, records + bytes(read.body)
    return records


def pieces(found: FoundRanges) -> list[bytes]:
    """The records of each range of an answer."""
    ends = np.cumsum(found.sizes, dtype=np.int64)
    edges = np.concatenate((np.zeros(1, np.int64), ends))[np.cumsum([0, *found.counts])]
    return [bytes(found.records[first:end]) for first, end in pairwise(edges)]


def together(
    store: MessageStore, ranges: Sequence[TopicRange], codes: Codes, max_count: int, max_bytes: int
) -> list[bytes]:
    """The records of each range, asked for until there are no more, as a client does."""
    left, read = dict(enumerate(ranges)), [b""] * len(ranges)
    while left:
        asked = [*left.items()]
        limits = {"max_count": max_count, "max_bytes": max_bytes, "tag_codes": codes}
        found = store.read_ranges([wanted for _, wanted in asked], **limits)
        assert 1 <= len(found.counts) <= len(asked)
        assert len(found.sizes) <= max_count
        assert len(found.sizes) <= 1 or len(found.records) <= max_bytes
        answers = zip(asked, pieces(found), found.next_offsets.tolist(), strict=False)
        for (number, wanted), records, next_offset in answers:
            read[number] += records
            left[number] = wanted._replace(start=next_offset)
            if next_offset <= wanted.start or next_offset >= wanted.end:
                del left[number]
    return read


sends = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2_000), st.sampled_from(TAGS)), max_size=60)
ranges = st.lists(
    st.builds(TopicRange, st.sampled_from(["t", "none"]), st.integers(0, 4), st.integers(0, 12), st.integers(0, 20)),
    min_size=1,
    max_size=8,
)


@given(sends, ranges, st.sampled_from(["", "a", "ab", None]), st.integers(1, 50), st.integers(1, 9_000))
def test_every_range_is_as_if_read_alone(
    sent: list[tuple[int, int, str | None]], wanted: list[TopicRange], tags: str | None, max_count: int, max_bytes: int
) -> None:
    """However queues took turns, whatever the sizes, tags and limits, and whether the queues are there at all."""
    codes = None if tags is None else frozenset(tags_code(tag) for tag in tags)
    config = StoreConfig(**{**SMALL.__dict__, "mapped_file_size_commit_log": 20_000, "message_index_enable": False})
    bench = StoreBench(config)
    for number, (queue_id, length, tag) in enumerate(sent):
        bench.send("t", queue_id, (b"%d" % number).ljust(length, b"."), tags=tag)
    assert together(bench.store, wanted, codes, max_count, max_bytes) == [
        alone(bench.store, each, codes) for each in wanted
    ]


@pytest.mark.parametrize(
    ("max_count", "max_bytes", "counts", "next_offsets"),
    [
        (99, 10**6, [5, 0, 4, 3], [7, 9, 4, 33]),
        (7, 10**6, [5, 0, 2], [7, 9, 2]),
        (5, 10**6, [5], [7]),
        (3, 10**6, [3], [5]),
        (99, 1, [1], [3]),
    ],
)
def test_an_answer_is_about_the_first_ranges(
    bench: StoreBench, max_count: int, max_bytes: int, counts: list[int], next_offsets: list[int]
) -> None:
    """As many as the limits let through; the last of them may go on, the others are at their end."""
    wanted = [TopicRange("t", 0, 2, 7), TopicRange("t", 0, 9, 9), TopicRange("u", 0, 0, 4), TopicRange("u", 0, 27, 33)]
    found = bench.store.read_ranges(wanted, max_count=max_count, max_bytes=max_bytes)
    next_offsets = [min(each, 30) for each in next_offsets]
    assert (found.counts.tolist(), found.next_offsets.tolist()) == (counts, next_offsets)


def test_a_range_that_has_expired(bench: StoreBench) -> None:
    """It brings nothing and says where its queue begins now; its neighbours are read as ever."""
    bench.expire(hours=80)
    low = bench.store.queues.min_offset("t", 0)
    assert 0 < low < 30
    wanted = [TopicRange("t", 0, 0, 30), TopicRange("u", 0, 28, 30), TopicRange("t", 0, low - 1, 30)]
    found = bench.store.read_ranges(wanted, max_count=99, max_bytes=EVERYTHING)
    assert found.counts.tolist() == [0, 2, 0]
    assert found.next_offsets.tolist() == [low, 30, low]
    assert found.min_offsets.tolist()[0] == low
    assert pieces(found)[1] == alone(bench.store, wanted[1], None)


@pytest.mark.parametrize("at", [0, 3, 7, 8, 10, 11])
def test_a_damaged_entry_brings_nothing(at: int) -> None:
    """An entry that leads somewhere else is stepped over in its range alone, and shows as one record too few."""
    bench = StoreBench()
    for body in (b"one", b"two", b"three"):
        bench.send("t", 0, body)
        bench.send("u", 0, body)
    bench.store.checkpoint()
    bench.flip_bit("consumequeue/t/0/00000000000000000000", 20 + at)
    wanted = [TopicRange("u", 0, 0, 3), TopicRange("t", 0, 0, 3), TopicRange("u", 0, 1, 3)]
    found = bench.store.read_ranges(wanted, max_count=99, max_bytes=EVERYTHING)
    assert found.counts.tolist() == [3, 2, 2]
    assert found.next_offsets.tolist() == [3, 3, 3]
    assert pieces(found) == [alone(bench.store, each, None) for each in wanted]


def test_a_queue_that_lost_a_file_fails_alone(bench: StoreBench) -> None:
    """The ranges before it are answered; asked for first, it is the error that it is by itself."""
    queue = bench.store._storeys.queues.get("t", 0)
    assert queue is not None
    del queue.segments._segments[2 * QUEUE_FILE_ENTRIES * 20]
    whole, broken = TopicRange("u", 0, 0, 3), TopicRange("t", 0, 9, 12)
    found = bench.store.read_ranges([whole, broken, whole], max_count=99, max_bytes=EVERYTHING)
    assert pieces(found) == [alone(bench.store, whole, None)]
    for read in (
        lambda: alone(bench.store, broken, None),
        lambda: bench.store.read_ranges([broken, whole], max_count=99, max_bytes=EVERYTHING),
    ):
        with pytest.raises(DamagedFile):
            read()

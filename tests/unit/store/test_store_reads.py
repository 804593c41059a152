"""Reading queues: what is found, what is not, and where to read on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import MessageNotFound, OffsetMoved
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.record import decode_record, encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.queues.consume_queue import ENTRY_BYTES
from rmqspark.store.reading.reader import ReadStatus

from .store_bench import EVERYTHING, SMALL, StoreBench

TAGS = ["a", "b", None]


@pytest.fixture(scope="module")
def bench() -> StoreBench:
    """Thirty messages in queue 0, tags a, b, none in turn, among those of queue 1."""
    bench = StoreBench()
    for number in range(30):
        bench.send("t", 0, b"m%02d" % number, tags=TAGS[number % 3])
        bench.send("t", 1, b"other%d" % number)
    return bench


def found(body: bytes | memoryview, count: int) -> list[bytes]:
    bodies, at = [], 0
    for _ in range(count):
        record = decode_record(bytes(body), at)
        bodies.append(record.body)
        at += record.size
    assert at == len(body)
    return bodies


@pytest.mark.parametrize(
    ("topic", "queue_id", "offset", "status", "next_offset"),
    [
        ("t", 0, 0, ReadStatus.FOUND, 10),
        ("t", 0, 25, ReadStatus.FOUND, 30),
        ("t", 0, 30, ReadStatus.OFFSET_OVERFLOW_ONE, 30),
        ("t", 0, 31, ReadStatus.OFFSET_OVERFLOW_BADLY, 30),
        ("t", 0, -1, ReadStatus.OFFSET_TOO_SMALL, 0),
        ("t", 7, 0, ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0),
        ("nowhere", 0, 5, ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0),
    ],
)
def test_status(
    bench: StoreBench, topic: str, queue_id: int, offset: int, status: ReadStatus, next_offset: int
) -> None:
    """Every place a reader can ask for gets RocketMQ's status and the offset to go on with."""
    result = bench.store.read(topic, queue_id, offset, max_count=10, max_bytes=EVERYTHING)
    assert (result.status, result.next_offset) == (status, next_offset)


@pytest.mark.parametrize(("max_count", "max_bytes", "count"), [(1, 10**6, 1), (32, 1, 1), (32, 300, 2), (5, 10**6, 5)])
def test_limits(bench: StoreBench, max_count: int, max_bytes: int, count: int) -> None:
    """A read stops at the count or the bytes asked for, but always brings one message."""
    result = bench.store.read("t", 0, 3, max_count=max_count, max_bytes=max_bytes)
    assert found(result.body, result.count) == [b"m%02d" % number for number in range(3, 3 + count)]
    assert result.next_offset == 3 + count
    in_bulk = bench.store.read_bulk("t", 0, 3, 30, max_count=max_count, max_bytes=max_bytes)
    assert (len(in_bulk.sizes), bytes(in_bulk.body)) == (count, bytes(result.body))


@pytest.mark.parametrize("tags", ["", "a", "b", "c", "ab", "cdefghij", "bcdefghijkl", "cdefghijklm"])
def test_tags(bench: StoreBench, tags: str) -> None:
    """Tags are told apart by their hash; what does not match is passed over."""
    codes = frozenset(tags_code(tag) for tag in tags)
    expected = [b"m%02d" % number for number in range(30) if TAGS[number % 3] is not None and TAGS[number % 3] in tags]
    result = bench.store.read("t", 0, 0, max_count=100, max_bytes=EVERYTHING, tag_codes=codes)
    assert found(result.body, result.count) == expected
    assert result.next_offset == 30
    assert result.status is (ReadStatus.FOUND if expected else ReadStatus.NO_MATCHED_MESSAGE)
    in_bulk = bench.store.read_bulk("t", 0, 0, 30, max_count=100, max_bytes=EVERYTHING, tag_codes=codes)
    assert found(in_bulk.body, len(in_bulk.sizes)) == expected


@pytest.mark.parametrize("max_count", [1, 100])
def test_messages_whose_tags_are_in_rocketmqs_extension_are_handed_out(max_count: int) -> None:
    """With enableConsumeQueueExt entries say where tags codes are, in files that are not read. Whoever asked for tags
    looks at the message's own; passed over, it would be lost to him."""
    bench = StoreBench()
    bench.send("t", 0, b"m0", b"m1", b"m2", b"m3", tags="a")
    bench.store.close()
    file = bench.files.open("consumequeue/t/0/00000000000000000000")
    for row in (1, 3):
        file.pwrite((-(1 << 63) + 46 * row).to_bytes(8, "big", signed=True), row * ENTRY_BYTES + 12)
    file.close()
    bench.open()
    for tag, expected in (("b", [b"m1", b"m3"]), ("a", [b"m0", b"m1", b"m2", b"m3"])):
        codes = frozenset([tags_code(tag)])
        offset, seen = 0, []
        while offset < 4:
            result = bench.store.read("t", 0, offset, max_count=max_count, max_bytes=EVERYTHING, tag_codes=codes)
            seen += found(result.body, result.count)
            offset = result.next_offset
        in_bulk = bench.store.read_bulk("t", 0, 0, 4, max_count=100, max_bytes=EVERYTHING, tag_codes=codes)
        assert seen == found(in_bulk.body, len(in_bulk.sizes)) == expected


def test_reading_on_with_tags_misses_nothing(bench: StoreBench) -> None:
    """Whatever the limits, reading on from the offset returned brings every matching message once."""
    codes = frozenset([tags_code("b")])
    offset, seen = 0, []
    while offset < 30:
        result = bench.store.read_bulk("t", 0, offset, 30, max_count=2, max_bytes=EVERYTHING, tag_codes=codes)
        seen += found(result.body, len(result.sizes))
        assert result.next_offset > offset
        offset = result.next_offset
    assert seen == [b"m%02d" % number for number in range(1, 30, 3)]


@pytest.mark.parametrize("tags", ["a", "b", "c", "ab", None])
def test_one_by_one(bench: StoreBench, tags: str | None) -> None:
    """Messages fetched one at a time are those fetched together, whatever the tags."""
    codes = None if tags is None else frozenset(tags_code(tag) for tag in tags)
    together = bench.store.read("t", 0, 0, max_count=100, max_bytes=EVERYTHING, tag_codes=codes)
    offset, records = 0, b""
    while offset < 30:
        result = bench.store.read("t", 0, offset, max_count=1, max_bytes=EVERYTHING, tag_codes=codes)
        assert result.next_offset > offset
        offset, records = result.next_offset, records + bytes(result.body)
    assert records == bytes(together.body)


@pytest.mark.parametrize("at", [0, 3, 7, 8, 10, 11])
def test_a_damaged_entry_hands_out_nothing(at: int) -> None:
    """A newest queue entry that leads somewhere else, or promises another size, brings no bytes to a reader."""
    bench = StoreBench()
    bench.send("t", 0, b"one")
    bench.send("t", 0, b"two")
    bench.store.checkpoint()
    bench.flip_bit("consumequeue/t/0/00000000000000000000", 20 + at)
    result = bench.store.read("t", 0, 1, max_count=32, max_bytes=EVERYTHING)
    assert (result.count, bytes(result.body)) == (0, b"")


@pytest.mark.parametrize(
    ("start", "end", "fits", "entries", "count", "is_next_known"),
    [
        (0, 30, 30, 99, 30, False),
        (0, 30, 7, 99, 7, True),
        (5, 9, 30, 99, 4, False),
        (28, 99, 30, 99, 2, False),
        (0, 30, 0, 99, 0, True),
        (0, 30, 30, 4, 4, False),
        (40, 50, 30, 99, 0, False),
        (7, 3, 30, 99, 0, False),
    ],
)
def test_a_budget_of_bytes_reaches_so_far(
    bench: StoreBench, start: int, end: int, fits: int, entries: int, count: int, is_next_known: bool
) -> None:
    """Sizes come from the queue's entries: exactly as many messages as fit, within the range and the bounds."""
    sizes = bench.store.read_bulk("t", 0, 0, 30, max_count=30, max_bytes=EVERYTHING).sizes.tolist()
    budget = sum(sizes[start : start + fits])
    extent = bench.store.queues.measure("t", 0, start, end, max_bytes=budget, max_entries=entries)
    assert extent.next_offset == start + count
    assert extent.size_bytes == sum(sizes[start : start + count])
    assert extent.next_bytes == (sizes[start + count] if is_next_known else 0)
    if count:
        less = bench.store.queues.measure("t", 0, start, end, max_bytes=extent.size_bytes - 1, max_entries=entries)
        assert less.next_offset == start + count - 1


def test_a_queue_that_does_not_exist_has_no_bytes(bench: StoreBench) -> None:
    """It is measured like one that is empty."""
    assert bench.store.queues.measure("nowhere", 3, 5, 9, max_bytes=1, max_entries=9) == (5, 0, 0)


def test_bulk_read_keeps_to_its_range(bench: StoreBench) -> None:
    """A bulk read brings [start, end), nothing at or behind the end, and says where the queue ends."""
    result = bench.store.read_bulk("t", 0, 4, 9, max_count=EVERYTHING, max_bytes=EVERYTHING)
    assert found(result.body, len(result.sizes)) == [b"m%02d" % number for number in range(4, 9)]
    assert (result.next_offset, result.min_offset, result.max_offset) == (9, 0, 30)
    assert result.sizes.dtype == np.int32
    for start, end in ((9, 9), (30, 40), (50, 60)):
        empty = bench.store.read_bulk("t", 0, start, end, max_count=9, max_bytes=EVERYTHING)
        assert (len(empty.sizes), empty.next_offset) == (0, start)


def test_read_at(bench: StoreBench) -> None:
    """A message is found by its place in the log; where none begins, that is an error."""
    assert decode_record(bench.store.records.at(0)).body == b"m00"
    for nowhere in (1, 500, 1020, -1, bench.store.end_offset, 1 << 60):
        with pytest.raises(MessageNotFound):
            bench.store.records.at(nowhere)


def test_what_says_that_it_is_longer_than_messages_are_is_not_read() -> None:
    """Nobody has a broker read all that came behind what he sent."""
    bench = StoreBench(replace(SMALL, mapped_file_size_commit_log=32 << 20))
    for _ in range(5):
        bench.store.append([Draft("t", 0, encode_record(topic="t", body=b"x" * (4 << 20)), 0, ())])
    inside = bench.store.records.at(0).index(b"x")
    for size, is_possible in ((16 << 20, True), ((16 << 20) + 1, False)):
        head = bytearray(encode_record(topic="t", body=b"", physical_offset=inside))
        head[:4] = size.to_bytes(4, "big")
        bench.files.open("commitlog/" + "0" * 20).pwrite(head, inside)
        if is_possible:
            assert len(bench.store.records.at(inside)) == size
        else:
            with pytest.raises(MessageNotFound):
                bench.store.records.at(inside)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3000)), min_size=1, max_size=60), st.integers(1, 9000))
def test_interleaved_queues(sends: list[tuple[int, int]], max_bytes: int) -> None:
    """However queues take turns and whatever the sizes, each is read in its order and whole."""
    config = StoreConfig(**{**SMALL.__dict__, "mapped_file_size_commit_log": 20_000, "message_index_enable": False})
    bench = StoreBench(config)
    sent: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for number, (queue_id, length) in enumerate(sends):
        body = b"%d" % number
        body = body.ljust(length, b".")
        bench.send("t", queue_id, body)
        sent[queue_id].append(body)
    for queue_id, bodies in sent.items():
        offset, seen = 0, []
        while offset < len(bodies):
            result = bench.store.read_bulk("t", queue_id, offset, EVERYTHING, max_count=50, max_bytes=max_bytes)
            seen += found(result.body, len(result.sizes))
            offset = result.next_offset
        assert seen == bodies


@pytest.mark.parametrize("lengths", [[900] * 1500, [4000, *[1] * 1500], [*[1] * 700, 9000, *[300] * 300]])
def test_a_large_answer_looks_at_the_entries_of_what_it_brings(lengths: list[int]) -> None:
    """Not at those of all messages that would fit if they were small; and whatever the sizes, none is missed."""
    bench = StoreBench(StoreConfig(message_index_enable=False, mapped_file_size_commit_log=4 << 20))
    bodies = [b"%d" % number for number in range(len(lengths))]
    bodies = [body.ljust(length, b".") for body, length in zip(bodies, lengths, strict=True)]
    bench.send_bulk("t", 0, *bodies)
    bench.store.checkpoint()
    offset, seen, size, before = 0, list[bytes](), 0, bench.disk.bytes_read
    while offset < len(bodies):
        result = bench.store.read_bulk("t", 0, offset, EVERYTHING, max_count=EVERYTHING, max_bytes=100_000)
        seen += found(result.body, len(result.sizes))
        offset, size = result.next_offset, size + len(result.body)
    assert seen == bodies
    assert bench.disk.bytes_read - before <= size + 3 * ENTRY_BYTES * len(bodies)


def test_below_the_first_message() -> None:
    """Reading what has expired says where the queue begins now."""
    bench = StoreBench()
    for number in range(30):
        bench.send("t", 0, b"m%02d" % number)
    bench.expire(hours=80)
    first = bench.store.queues.min_offset("t", 0)
    assert 0 < first < 30
    with pytest.raises(OffsetMoved) as caught:
        bench.store.read_bulk("t", 0, 0, 30, max_count=9, max_bytes=EVERYTHING)
    assert caught.value.next_offset == first
    result = bench.store.read("t", 0, 0, max_count=9, max_bytes=EVERYTHING)
    assert (result.status, result.next_offset) == (ReadStatus.OFFSET_TOO_SMALL, first)
    assert bench.bodies("t", 0) == [b"m%02d" % number for number in range(first, 30)]
    assert not bench.store.queues.is_recent("t", 0)


def test_a_group_starts_at_zero_while_the_first_message_is_recent() -> None:
    """Offset 0 counts as recent while it is there, and only in a queue that has messages."""
    bench = StoreBench()
    assert not bench.store.queues.is_recent("t", 0)
    bench.send("t", 0, b"m")
    assert bench.store.queues.is_recent("t", 0)


def test_readers_are_told_what_has_come() -> None:
    """Whoever waits hears topic, queue, the new end and the hashes of the tags, once it can be read."""
    bench = StoreBench()
    heard: list[tuple[str, int, int, list[int]]] = []
    bench.store.on_readable = lambda readable: heard.extend(
        (topic, queue_id, end, list(codes)) for topic, queue_id, end, codes in readable
    )
    bench.send("t", 1, b"x", b"y", tags="a")
    bench.send_bulk("t", 1, b"z")
    assert heard == [("t", 1, 2, [97, 97]), ("t", 1, 3, [0])]


def test_a_reader_goes_on_at_the_end_of_a_queue_whose_newest_file_is_cut_off() -> None:
    """Not at the beginning of a file that is not there yet: that would be ahead of the queue."""
    bench = StoreBench()
    for number in range(3):
        bench.send("t", 0, b"m%d" % number)
    bench.store.checkpoint()
    bench.files.open("consumequeue/t/0/" + "0" * 20).truncate(ENTRY_BYTES)
    result = bench.store.read("t", 0, 1, max_count=9, max_bytes=EVERYTHING)
    assert (result.status, result.next_offset) == (ReadStatus.OFFSET_FOUND_NULL, 3)


@pytest.mark.parametrize("offset", [5, 7, 9])
def test_a_reader_goes_on_behind_a_file_of_a_queue_that_is_gone(offset: int) -> None:
    """Where the next one begins, wherever in it the reader is."""
    bench = StoreBench()
    for number in range(12):
        bench.send("t", 0, b"m%d" % number)
    bench.store.checkpoint()
    bench.files.open("consumequeue/t/0/" + f"{5 * ENTRY_BYTES:020d}").truncate(0)
    result = bench.store.read("t", 0, offset, max_count=9, max_bytes=EVERYTHING)
    assert (result.status, result.next_offset) == (ReadStatus.OFFSET_FOUND_NULL, 10)

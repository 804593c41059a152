"""Messages of a queue that do not lie side by side, read together: the right ones, and what is done about damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.store.reading import reader
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.queue_reader import records_at

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 60
CONFIG = StoreConfig(mapped_file_size_commit_log=4096, max_hash_slot_num=50, max_index_num=200)
LOG = "store/commitlog/00000000000000000000"


@pytest.fixture(scope="module")
def files() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture(scope="module")
def store(files: MemoryFileSystem) -> Iterator[MessageStore]:
    """One with messages in `timer`, numbered and of many lengths, and others in between."""
    opened = MessageStore.open("store", CONFIG, files=files, clock=ManualClock(), entropy=SystemEntropy())
    for number in range(COUNT):
        for topic, body in (("timer", b"%d" % number + b"x" * number), ("others", b"o" * (number % 5 * 100 + 1))):
            opened.append([Draft(topic, 0, encode_record(topic=topic, body=body), 0, ())])
    yield opened
    opened.close()


def numbers(store: MessageStore, offsets: list[int]) -> list[int]:
    found, _ = records_at(store, "timer", offsets, 1 << 20)
    assert [record.queue_offset for record in found] == [int(record.body.rstrip(b"x")) for record in found]
    return [record.queue_offset for record in found]


@given(st.sets(st.integers(0, COUNT - 1), min_size=1).map(sorted))
def test_any_messages_are_read_together(store: MessageStore, offsets: list[int]) -> None:
    """In their order, whatever lies between them, in one file of the log or several."""
    assert store.read_at_offsets("timer", 0, offsets) is not None
    assert numbers(store, offsets) == offsets


@pytest.mark.parametrize("offsets", [[COUNT], [0, COUNT], [COUNT - 1, COUNT + 5]])
def test_what_is_not_there_is_left_out(store: MessageStore, offsets: list[int]) -> None:
    assert store.read_at_offsets("timer", 0, offsets) is None
    assert numbers(store, offsets) == [offset for offset in offsets if offset < COUNT]
    assert records_at(store, "nowhere", offsets, 1 << 20) == ([], len(offsets))


@given(st.sets(st.integers(0, COUNT + 3), min_size=1).map(sorted), st.integers(0, 3_000))
def test_no_more_is_read_than_is_wanted(store: MessageStore, offsets: list[int], max_bytes: int) -> None:
    """But one message at least. What is left is read the next time, and nothing twice."""
    read = []
    while offsets:
        found, count = records_at(store, "timer", offsets, max_bytes)
        assert count > 0
        assert len(found) <= 1 or sum(record.size for record in found) <= max_bytes
        read += [record.queue_offset for record in found]
        assert [offset for offset in offsets[:count] if offset < COUNT] == [record.queue_offset for record in found]
        offsets = offsets[count:]
    assert read == sorted(set(read))


def test_what_lies_far_apart_is_read_all_the_same(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is too large to be read together."""
    monkeypatch.setattr(reader, "_CLOSE_ENTRIES", 10)
    assert store.read_at_offsets("timer", 0, [0, 59]) is not None
    assert numbers(store, [0, 59]) == [0, 59]
    monkeypatch.setattr(reader, "_MOST_BYTES_TOGETHER", 100)
    assert store.read_at_offsets("timer", 0, [0, 59]) is None
    assert numbers(store, [0, 59]) == [0, 59]


@pytest.mark.parametrize("at", [0, 20, 88], ids=["size", "queue offset", "body"])
def test_of_damaged_messages_the_others_are_read(
    at: int, store: MessageStore, files: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    """Be it known by its place in the log, by its place in the queue, or by its checksum."""
    place = store.queues.locate("timer", 0, 1)
    assert place is not None
    log = files.open(LOG)
    was = log.pread(1, place[0] + at)
    log.pwrite(b"\x77", place[0] + at)
    try:
        assert numbers(store, [0, 1, 3]) == [0, 3]
    finally:
        log.pwrite(was, place[0] + at)
        log.close()
    assert numbers(store, [0, 1, 3]) == [0, 1, 3]

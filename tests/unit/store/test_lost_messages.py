"""Entries of lost messages say that these have 2 GiB. In a long log so much may lie behind them."""

from __future__ import annotations

import pytest

from rmqspark.protocol.records.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.log.commit_log import CommitLog
from rmqspark.store.log.segment import SegmentFiles
from rmqspark.store.queues.consume_queue import ENTRY, NO_MESSAGE_SIZE
from rmqspark.store.queues.consume_queues import ConsumeQueues
from rmqspark.store.reading.collect import Collector
from rmqspark.store.reading.readable_queues import ReadableQueues
from rmqspark.store.reading.reader import Reader, ReadStatus
from rmqspark.store.reading.time_search import TimeSearch
from rmqspark.testing.memory_files import MemoryFileSystem

from .store_bench import StoreBench

LOST = 0
FOUND_AT = 3 << 30


class Bench:
    """A queue whose first message is lost, and whose second one lies three GiB behind it."""

    def __init__(self) -> None:
        files = MemoryFileSystem()
        segment_files = SegmentFiles(files, 3)
        self.log = CommitLog(files, segment_files, "commitlog", 1 << 32)
        self.record = encode_record(
            topic="t", queue_id=0, body=b"m", queue_offset=1, physical_offset=FOUND_AT, store_timestamp_ms=5
        )
        self.log.segments.write(self.record, FOUND_AT)
        self.log.end_offset = FOUND_AT + len(self.record)
        queues = ConsumeQueues(files, segment_files, 100, ())
        queues.get_or_make("t", 0).put(
            0, ENTRY.pack(LOST, NO_MESSAGE_SIZE, 0) + ENTRY.pack(FOUND_AT, len(self.record), 0)
        )
        self.queues = ReadableQueues(queues, self.log, TimeSearch(self.log), 0)
        self.reader = Reader(self.log, queues, Collector(self.log.segments))


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("max_count", [1, 32])
def test_a_pull_steps_over_it(bench: Bench, max_count: int) -> None:
    """What is read is a message's, not the two GiB that lie where it is said to."""
    result = bench.reader.read("t", 0, 0, max_count=max_count, max_bytes=1 << 20)
    assert (result.status, result.next_offset, bytes(result.body)) == (ReadStatus.FOUND, 2, bytes(bench.record))


def test_a_bulk_read_steps_over_it(bench: Bench) -> None:
    """The first message that is there is the first of the answer."""
    found = bench.reader.read_bulk("t", 0, 0, 2, max_count=10, max_bytes=1 << 20)
    assert (found.next_offset, found.sizes.tolist(), bytes(found.body)) == (2, [len(bench.record)], bytes(bench.record))


def test_it_takes_nothing_of_a_budget(bench: Bench) -> None:
    """A batch of at most so many bytes is not held up for ever by what nobody can be given."""
    extent = bench.queues.measure("t", 0, 0, 2, max_bytes=1000, max_entries=10)
    assert (extent.next_offset, extent.size_bytes) == (2, len(bench.record))


def test_it_lies_nowhere(bench: Bench) -> None:
    """Who asks for its place or its time is told that there is none."""
    assert bench.queues.locate("t", 0, 0) is None
    assert bench.queues.locate("t", 0, 1) == (FOUND_AT, len(bench.record))
    assert [bench.queues.store_time_at("t", 0, offset) for offset in (0, 1)] == [-1, 5]


def test_a_time_is_found_behind_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the log may have had millions; looked at one by one they kept a broker from all else for minutes."""
    store = StoreBench(StoreConfig(message_index_enable=False))
    store.send("t", 0, b"before")
    store.store.flush()
    size = store.store.end_offset
    lost, queue = 20_000, store.store._storeys.queues.get_or_make("t", 0)
    store.send("u", 0, b"between")
    queue.put(1, ENTRY.pack(size, NO_MESSAGE_SIZE, 0) * lost)
    store.clock.advance(ms=10)
    store.send("t", 0, b"behind")
    behind_ms, looks = store.clock.now_ms(), []
    store_time = TimeSearch.store_time
    monkeypatch.setattr(TimeSearch, "store_time", lambda self, *at: looks.append(at) or store_time(self, *at))
    at = store.store.queues.offset_by_time("t", 0, behind_ms)
    assert [record.body for record in store.records("t", 0, at)] == [b"behind"]
    assert store.store.queues.offset_by_time("t", 0, behind_ms, "UPPER") == lost + 1
    assert store.store.queues.offset_by_time("t", 0, behind_ms - 1, "LOWER") > 0
    assert len(looks) < 500

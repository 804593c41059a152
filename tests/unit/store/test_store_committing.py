"""What transactions ask of the store: messages in parts, half batches made messages, appends published together."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from rmqspark.errors import InvalidMessage, NotWritable
from rmqspark.protocol.records.record import HEAD_BYTES, SysFlag, decode_record, encode_record
from rmqspark.protocol.records.record_batch import RecordBatch

from .store_bench import SMALL, StoreBench, bulk

BODIES = {"equal": [b"a%d" % n for n in range(7)], "of several lengths": [b"b" * n for n in range(1, 8)]}


@pytest.fixture
def bench() -> StoreBench:
    return StoreBench()


@pytest.mark.parametrize("size", [1, 300, 900])
def test_message_in_parts(bench: StoreBench, size: int) -> None:
    """A message stored in parts is the message that it would have been in one, wherever a file ends."""
    for number in range(4):
        record = encode_record(topic="half", body=b"x" * size, properties=b"A\x01b\x02")
        rest = [memoryview(record)[HEAD_BYTES : HEAD_BYTES + size], bytes(record[HEAD_BYTES + size :])]
        place = bench.store.writer.append_parts("half", 0, bytearray(record[:HEAD_BYTES]), rest)
        assert place.queue_offset == number
        found = decode_record(bench.store.records.at(place.physical_offset))
        assert (found.body, found.property_map(), found.queue_offset) == (b"x" * size, {"A": "b"}, number)
        assert bench.store.queues.locate("half", 0, number) == (place.physical_offset, place.size)
    bench.kill()
    assert bench.store.queues.max_offset("half", 0) == 4


def test_message_in_parts_too_large(bench: StoreBench) -> None:
    """One that no file can take is refused, and nothing has moved."""
    with pytest.raises(InvalidMessage, match="cannot take"):
        bench.store.writer.append_parts("half", 0, bytearray(HEAD_BYTES), [bytes(2000)])
    assert (bench.store.end_offset, bench.store.queues.max_offset("half", 0)) == (0, 0)


@pytest.mark.parametrize("shape", BODIES)
def test_messages_of_a_half_batch(bench: StoreBench, shape: str) -> None:
    """Messages of a committed half batch are readable, say so, and name the place of their half; also after a kill."""
    bodies = BODIES[shape]
    bench.send("t", 0, b"before")
    appended = bench.commit("t", 0, RecordBatch.from_sizes(*bulk("t", 0, bodies)), 4711)
    assert (appended.queue_offset, appended.count) == (1, 7)
    for _ in range(2):
        records = bench.records("t", 0)[1:]
        assert [record.body for record in records] == bodies
        assert {(record.sys_flag, record.prepared_transaction_offset) for record in records} == {
            (SysFlag.COMMITTED, 4711)
        }
        assert bench.store.query("t", bodies[0].decode(), 0, 1 << 60, 8)
        bench.kill()


def test_published_together(bench: StoreBench) -> None:
    """What is appended together is readable together; those who append meanwhile wait, and keep their order."""
    told: list[tuple[str, int]] = []
    bench.store.on_readable = lambda readable: told.extend(
        (topic, bench.store.queues.max_offset("u", 0)) for topic, *_ in readable
    )
    with bench.store.publishing_together():
        bench.commit("t", 0, RecordBatch.from_sizes(*bulk("t", 0, [b"1", b"2"])), 1)
        bench.send("t", 0, b"3")
        bench.commit("u", 0, RecordBatch.from_sizes(*bulk("u", 0, [b"4"])), 2)
        assert (bench.bodies("t", 0), bench.bodies("u", 0), told) == ([], [], [])
    assert (bench.bodies("t", 0), bench.bodies("u", 0)) == ([b"1", b"2", b"3"], [b"4"])
    assert told == [("t", 1), ("t", 1), ("u", 1)]  # when the first is told, all of it is there


def test_a_flush_amid_what_is_published_together() -> None:
    """With SYNC_FLUSH: what came before is readable when it is flushed, the rest when all of it is. Slaves are sent
    each part as soon as it is."""
    bench = StoreBench(replace(SMALL, flush_disk_type="SYNC_FLUSH"))
    safe_at: list[int] = []
    bench.store.on_safe = lambda: safe_at.append(bench.store.safe_offset)
    bench.send("t", 0, b"before")
    first_flush, ends = bench.store.flusher.begin(), [bench.store.end_offset]
    assert first_flush is not None
    with bench.store.publishing_together():
        bench.send("t", 0, b"1")
        ends.append(bench.store.end_offset)
        first_flush.run()
        bench.store.flusher.finish(first_flush)
        assert bench.bodies("t", 0) == [b"before"]
        second_flush = bench.store.flusher.begin()
        assert second_flush is not None
        bench.send("t", 0, b"2")
    bench.send("t", 0, b"after")
    second_flush.run()
    bench.store.flusher.finish(second_flush)
    assert bench.bodies("t", 0) == [b"before"]
    bench.store.flush()
    assert bench.bodies("t", 0) == [b"before", b"1", b"2", b"after"]
    assert safe_at == [*ends, bench.store.end_offset]


def test_a_disk_that_takes_a_part_at_a_time_is_no_failing_one() -> None:
    """What is published together waits for the last of its flushes, and they go on."""
    bench = StoreBench(replace(SMALL, flush_disk_type="SYNC_FLUSH"))
    with bench.store.publishing_together():
        bench.send("t", 0, b"1")
        flush = bench.store.flusher.begin()
        bench.send("t", 0, b"2")
    for number in range(4):
        bench.send("u", 0, b"%d" % number)
        assert flush is not None
        bench.clock.advance(seconds=4)
        bench.send("u", 0, b"and meanwhile")
        flush.run()
        bench.store.flusher.finish(flush)
        flush = bench.store.flusher.begin()
    assert bench.bodies("t", 0) == [b"1", b"2"]


def test_killed_while_publishing(bench: StoreBench) -> None:
    """A process that dies before it has published leaves whole messages to the next one."""
    with bench.store.publishing_together():
        bench.commit("t", 0, RecordBatch.from_sizes(*bulk("t", 0, [b"1", b"2"])), 1)
        bench.disk.kill()
    bench.open()
    assert bench.bodies("t", 0) == [b"1", b"2"]


def test_refused_half_batch_leaves_nothing(bench: StoreBench) -> None:
    """A disk that fills up in the middle of a half batch leaves none of it, and takes it when there is room."""
    records = [b"x" * 60] * 30  # several files
    for count in range(1, 5):
        bench.disk.fail_at(count, OSError(errno.ENOSPC, "full"), after_bytes=100, counted=("pwrite",))
        with pytest.raises(NotWritable):
            bench.commit("t", 0, RecordBatch.from_sizes(*bulk("t", 0, records)), 1)
        assert bench.bodies("t", 0) == []
        bench.disk.heal()
    bench.commit("t", 0, RecordBatch.from_sizes(*bulk("t", 0, records)), 1)
    assert bench.bodies("t", 0) == records


def test_scan_of_the_log(bench: StoreBench) -> None:
    """All records of the log are found from any of them on, over the ends of files."""
    for number in range(20):
        bench.send("t", number % 2, b"%02d" % number * (1 + number % 5 * 20))
    start, _ = bench.store.queues.locate("t", 1, 3) or pytest.fail("it is there")
    found = [
        (int(place), int(queue_id))
        for batch in bench.store.records.since(start)
        for place, queue_id in zip(batch.physical_offsets, batch.queue_ids, strict=True)
    ]
    assert [queue_id for _, queue_id in found] == [number % 2 for number in range(7, 20)]
    assert found[0] == (start, 1)


def test_expiry_keeps_what_it_is_told_to(bench: StoreBench) -> None:
    """Files that hold what is still needed outlast their time; when it is no longer needed they go."""
    for number in range(40):
        bench.send("t", 0, b"%02d" % number * 20)
    kept, _ = bench.store.queues.locate("t", 0, 20) or pytest.fail("it is there")
    bench.store.checkpoint()
    bench.clock.advance(hours=SMALL.file_reserved_time + 1)
    for _ in range(5):
        bench.store.expire(bench.clock.now_ms(), keep_from=kept)
    assert kept - SMALL.mapped_file_size_commit_log < bench.store.figures().min_physical_offset <= kept
    assert bench.store.queues.locate("t", 0, 20)
    for _ in range(5):
        bench.store.expire(bench.clock.now_ms())
    assert bench.store.figures().min_physical_offset > kept
    assert bench.store.queues.locate("t", 0, 20) is None


def test_expiry_keeps_what_is_not_on_disk(bench: StoreBench) -> None:
    """What a start after a crash believes of it may rest on what stands before it."""
    for number in range(40):
        bench.send("t", 0, b"%02d" % number * 20)
    bench.clock.advance(hours=SMALL.file_reserved_time + 1)
    assert bench.store.expire(bench.clock.now_ms()).deleted == ()
    bench.store.checkpoint()
    assert bench.store.expire(bench.clock.now_ms()).deleted

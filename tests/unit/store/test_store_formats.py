"""The store's files, byte for byte as RocketMQ has them (spec: storage)."""

from __future__ import annotations

import pytest

from rmqspark.protocol.records.record import blank_record, decode_record
from rmqspark.store.checkpoint import CHECKPOINT_BYTES, Checkpoint
from rmqspark.store.config import StoreConfig, parse_delay_levels
from rmqspark.store.queues.consume_queue import ENTRY, NO_MESSAGE_SIZE

from .store_bench import HOST, SMALL, StoreBench, draft


@pytest.mark.golden
def test_blank_record() -> None:
    """A file with 100 bytes left is closed as RocketMQ closes it (TV-4)."""
    assert blank_record(100).hex() == "00000064cbd43194"


@pytest.mark.golden
@pytest.mark.parametrize(
    ("physical_offset", "size", "tags_code", "entry"),
    [
        (0x1234, 0xBD, 2598919, "0000000000001234000000bd000000000027a807"),
        (0, NO_MESSAGE_SIZE, 0, "00000000000000007fffffff0000000000000000"),
        (0, 1, -(2**31), "000000000000000000000001ffffffff80000000"),
    ],
)
def test_consume_queue_entry(physical_offset: int, size: int, tags_code: int, entry: str) -> None:
    """Entries read and write as RocketMQ's, hashes below zero sign-extended (TV-5)."""
    assert ENTRY.pack(physical_offset, size, tags_code).hex() == entry
    assert ENTRY.unpack(bytes.fromhex(entry)) == (physical_offset, size, tags_code)


@pytest.mark.golden
def test_checkpoint() -> None:
    """The part of the checkpoint that RocketMQ reads is RocketMQ's (TV-7)."""
    now_ms = 1_700_000_000_005
    data = Checkpoint(now_ms, now_ms, now_ms).encode()
    assert data[:40].hex() == "0000018bcfe56805" * 3 + "0000000000000000" * 2
    assert len(StoreBench().read_file("checkpoint")) == CHECKPOINT_BYTES


def test_checkpoint_comes_back() -> None:
    """What a checkpoint says is what it is read as."""
    checkpoint = Checkpoint(1, 2, 3, watermark=90, recovery_offset=80, entries_total=7, index_offset=60, is_sealed=True)
    assert Checkpoint.decode(checkpoint.encode()) == checkpoint


@pytest.mark.parametrize("at", [0, 16, 24, 39, 40, 63, 64, 75, 95, 99])
def test_checkpoint_that_somebody_else_wrote(at: int) -> None:
    """After any change by another hand the watermark is not believed; the store times are RocketMQ's to keep."""
    data = bytearray(Checkpoint(1, 2, 3, watermark=90, recovery_offset=80, is_sealed=True).encode())
    data[at] ^= 0x40
    found = Checkpoint.decode(bytes(data))
    assert (found.is_sealed, found.watermark, found.recovery_offset) == (False, 0, 0)
    assert Checkpoint.decode(bytes(data[:20])) == Checkpoint()


def test_messages_lie_in_log_and_queue_as_rocketmq_puts_them() -> None:
    """Records carry their places, store time and host; queue entries lead to them with the hash of their tags."""
    bench = StoreBench()
    bench.send("TopicTest", 1, b"hello", tags="TagA")
    record = decode_record(bench.content("commitlog")["commitlog/00000000000000000000"])
    assert (record.queue_id, record.queue_offset, record.physical_offset) == (1, 0, 0)
    assert (record.store_timestamp_ms, record.store_host) == (bench.clock.now_ms(), HOST)
    queue_file = bench.content("consumequeue")["consumequeue/TopicTest/1/00000000000000000000"]
    assert queue_file == ENTRY.pack(0, record.size, 2598919).ljust(100, b"\0")
    bench.store.checkpoint()
    assert bench.files.listdir("") == [
        "abort", "checkpoint", "commitlog", "consumequeue", "index", "lock", "rmqspark.json",
    ]  # fmt: skip
    assert bench.read_file("lock") == b"lock"


@pytest.mark.parametrize("in_bulk", [False, True], ids=["single", "bulk"])
def test_a_file_is_closed_when_the_next_record_does_not_fit(in_bulk: bool) -> None:
    """A record that would leave fewer than eight bytes goes to the next file; what is left becomes a blank record."""
    bench = StoreBench()
    bodies = [b"a" * 250, b"b" * 20, b"c" * 20, b"d" * 300, b"e" * 20]
    sizes = [len(draft("t", 0, body).record) for body in bodies]
    if in_bulk:
        bench.send_bulk("t", 0, *bodies)
    else:
        bench.send("t", 0, *bodies)
    log = bench.content("commitlog")
    position, expected = 0, []
    for size in sizes:
        remaining = 1024 - position % 1024
        if size + 8 > remaining:
            file = log[f"commitlog/{position // 1024 * 1024:020d}"]
            assert file[position % 1024 :] == blank_record(remaining).ljust(remaining, b"\0")
            position += remaining
        expected.append(position)
        position += size
    offsets = [int.from_bytes(bench.store.records.at(at)[28:36], "big") for at in expected]
    assert offsets == expected
    assert bench.store.end_offset == position
    assert bench.bodies("t", 0) == bodies


@pytest.mark.parametrize("spare", [7, 8, 9])
def test_exactly_eight_bytes_are_left(spare: int) -> None:
    """A record fits if eight bytes are left behind it, and not if it is seven."""
    body = b"x" * 200
    size = len(draft("t", 0, body).record)
    bench = StoreBench(StoreConfig(**{**SMALL.__dict__, "mapped_file_size_commit_log": size + spare}))
    if spare < 8:
        with pytest.raises(ValueError, match="cannot take these messages"):
            bench.send("t", 0, body)
    else:
        bench.send("t", 0, body)
        assert bench.bodies("t", 0) == [body]


def test_delayed_messages_carry_their_deliver_time() -> None:
    """A queue entry of the delay topic has the time of delivery where others have the hash of the tags."""
    bench = StoreBench()
    bench.send("SCHEDULE_TOPIC_XXXX", 2, b"later")
    stored_ms = bench.clock.now_ms()
    queue_file = bench.content("consumequeue")["consumequeue/SCHEDULE_TOPIC_XXXX/2/00000000000000000000"]
    assert ENTRY.unpack_from(queue_file)[2] == stored_ms + 10_000
    assert parse_delay_levels("1s 2m 3h 4d") == (1_000, 120_000, 10_800_000, 345_600_000)


@pytest.mark.parametrize(("sys_flag", "has_entry"), [(0, True), (4, False), (8, True), (12, False)])
def test_half_messages_of_old_producers_get_no_queue_entry(sys_flag: int, has_entry: bool) -> None:
    """Prepared and rolled back records are stored, with queue offset 0, and stay unseen."""
    bench = StoreBench()
    bench.send("t", 0, b"first")
    (where,) = bench.store.append([draft("t", 0, b"half", sys_flag=sys_flag)])
    assert where.queue_offset == (1 if has_entry else 0)
    assert bench.store.queues.max_offset("t", 0) == (2 if has_entry else 1)
    bench.kill()
    assert bench.store.queues.max_offset("t", 0) == (2 if has_entry else 1)

"""Blocks of the log that were on disk and are not what they were: zeroed, exchanged, or somebody else's bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.records.message_id import pack_host
from rmqspark.protocol.records.record import decode_record, encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft

from .store_bench import EVERYTHING, SMALL, StoreBench

pytestmark = [pytest.mark.property, pytest.mark.faults]
CONFIG = StoreConfig(**{**SMALL.__dict__, "message_index_enable": False})
BODIES = [b"m%03d" % number for number in range(40)]  # over five files
RECORD_BYTES = 110
QUEUE_OFFSET_AT, BODY_SIZE_AT, BODY_AT = 20, 84, 88
FILE_BYTES = CONFIG.mapped_file_size_commit_log

# Blocks as disks have them, each larger than a record: what is lost of a record is never a field of its header alone.
# Some of these (the queue offset, the times) no checksum of RocketMQ's covers.
places = st.integers(0, 5 * FILE_BYTES // 128).map(lambda block: 128 * block)
lengths = st.sampled_from([128, 256, 512, FILE_BYTES])
zeroed = st.tuples(st.just("zeroed"), places, places, lengths)
exchanged = st.tuples(st.just("exchanged"), places, places, lengths)
copied = st.tuples(st.just("copied"), places, places, lengths)


def rotten(log: bytes, kind: str, one: int, other: int, length: int) -> bytes:
    """The log with such damage."""
    rotten, ends = bytearray(log), len(log)
    length = min(length, ends - min(one, ends), ends - min(other, ends))
    first, second = log[one : one + length], log[other : other + length]
    rotten[one : one + length] = bytes(length) if kind == "zeroed" else second
    if kind == "exchanged" and abs(one - other) >= length:
        rotten[other : other + length] = first
    return bytes(rotten)


@given(damage=st.lists(zeroed | exchanged | copied, min_size=1, max_size=3))
def test_rotten_blocks_cost_the_messages_in_them(damage: list[tuple[str, int, int, int]]) -> None:
    """What a recovery goes through and finds damaged below the watermark is never cut: what is whole is served, in its
    place, what is not never is; new messages go on behind, and readers are told where numbers come again."""
    bench = StoreBench(CONFIG)
    begins = []
    for body in BODIES:
        bench.send("t", 0, body)
        begins.append(bench.store.end_offset - RECORD_BYTES)  # a blank record may lie before it
    bench.store.flush()
    bench.disk.kill()
    files = bench.content("commitlog")
    log = b"".join(files[path] for path in sorted(files))
    now = log
    for each in damage:
        now = rotten(now, *each)
    for number, path in enumerate(sorted(files)):
        bench.write_file(path, now[number * FILE_BYTES : (number + 1) * FILE_BYTES])
    whole = [n for n, at in enumerate(begins) if now[at : at + RECORD_BYTES] == log[at : at + RECORD_BYTES]]
    incarnation = bench.store.incarnation
    bench.open()
    for _ in range(2):
        served = bodies_by_offset(bench)
        assert served.keys() >= set(whole)
        assert all(body == BODIES[number] for number, body in served.items())
        bench.reopen()
    assert len(served) == len(BODIES) or bench.store.incarnation > incarnation
    bench.send("t", 0, b"next")
    bench.kill()
    assert bodies_by_offset(bench) == {**served, max(served, default=-1) + 1: b"next"}


def bodies_by_offset(bench: StoreBench) -> dict[int, bytes]:
    """What readers are given. RocketMQ's checksum is of the body alone, so properties may be anything."""
    found: dict[int, bytes] = {}
    at = bench.store.queues.min_offset("t", 0)
    while at < bench.store.queues.max_offset("t", 0):
        result = bench.store.read("t", 0, at, max_count=1, max_bytes=EVERYTHING)
        if result.count:
            record = bytes(result.body)
            size = int.from_bytes(record[BODY_SIZE_AT:BODY_AT], "big")
            found[int.from_bytes(record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8], "big")] = record[
                BODY_AT : BODY_AT + size
            ]
        assert result.next_offset > at
        at = result.next_offset
    return found


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_bit_of_a_size_costs_no_memory(is_flushed: bool) -> None:
    """A record says that it has half of its file: nobody reads as much, to find that it has not."""
    bench = StoreBench(StoreConfig(**{**CONFIG.__dict__, "mapped_file_size_commit_log": 64 << 20}))
    for body in BODIES[:3]:
        bench.send("t", 0, body)
    if is_flushed:
        bench.store.flush()
    bench.disk.kill()
    bench.flip_bit("commitlog/00000000000000000000", RECORD_BYTES, 1)
    before = bench.disk.bytes_read
    bench.open()
    assert bench.disk.bytes_read - before < 16 << 20
    assert bodies_by_offset(bench) == ({0: BODIES[0], 2: BODIES[2]} if is_flushed else {0: BODIES[0]})


def test_a_long_message_of_an_ipv6_host_is_found_behind_damage() -> None:
    """Where the length of its body stands follows from its hosts."""
    bench = StoreBench(StoreConfig(**{**CONFIG.__dict__, "mapped_file_size_commit_log": 1 << 20}))
    bench.send("t", 0, BODIES[0])
    record = encode_record(topic="t", body=b"v6" * 50_000, born_host=pack_host("::1", 10911))
    bench.store.append([Draft("t", 0, record)])
    bench.store.flush()
    bench.disk.kill()
    bench.flip_bit("commitlog/00000000000000000000", 0)
    bench.open()
    read = bench.store.read("t", 0, 1, max_count=1, max_bytes=EVERYTHING)
    assert decode_record(bytes(read.body)).body == b"v6" * 50_000

"""Checksums that were false when they came: who sent them trusts nobody's disk, and nobody else has to pay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rmqspark.protocol.records.record import decode_record
from rmqspark.store.config import StoreConfig

from .store_bench import EVERYTHING, SMALL, StoreBench

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.faults

LOG = "commitlog/00000000000000000000"
ROOMY = StoreConfig(**{**SMALL.__dict__, "mapped_file_size_commit_log": 1 << 16})
LIKE_TORN = b"k\x01" + bytes(1100) + b"v\x00"  # a voucher has their checksum


def bodies(bench: StoreBench, topic: str, queue_id: int) -> list[bytes]:
    first, end = bench.store.queues.bounds(topic, queue_id)
    found = bench.store.read_bulk(topic, queue_id, first, end, max_count=EVERYTHING, max_bytes=EVERYTHING)
    records, ends = bytes(found.body), np.cumsum(found.sizes)
    return [decode_record(records, int(at)).body for at in ends - found.sizes]


@pytest.mark.parametrize("end", [StoreBench.kill, StoreBench.lose_power], ids=["kill", "power"])
@pytest.mark.parametrize("false", [(0,), (2,), (0, 1, 2, 3), (0, 2)], ids=str)
@pytest.mark.parametrize("properties", [b"", b"k\x01v\x02", LIKE_TORN])
@pytest.mark.parametrize("body", [b"m", bytes(300), b"long" * 600], ids=len)
def test_a_false_checksum_costs_the_message_that_has_it(
    body: bytes, properties: bytes, false: tuple[int, ...], end: Callable[[StoreBench], object]
) -> None:
    """Not what others have sent behind it: whoever sent it, it is no torn tail."""
    bench = StoreBench(ROOMY)
    bench.send("t", 0, b"first")
    bench.send_falsely("t", 0, [body + b"%d" % row for row in range(4)], false, properties)
    bench.send("t", 0, b"last.")
    bench.send("u", 0, b"other")
    if end is StoreBench.lose_power:
        bench.store.flush()
    bench.send("u", 0, b"again")
    end(bench)
    kept = [body + b"%d" % row for row in range(4) if row not in false]
    assert bodies(bench, "t", 0) == [b"first", *kept, b"last."]
    assert bodies(bench, "u", 0) == [b"other", b"again"][: 1 + (end is StoreBench.kill)]
    assert bench.store.queues.max_offset("t", 0) == 6
    assert bench.store.damage
    bench.store.checkpoint()
    bench.kill()
    assert bodies(bench, "t", 0) == [b"first", *kept, b"last."]


@pytest.mark.parametrize("false", [(2,), (0, 1, 2)], ids=str)
def test_a_false_checksum_at_the_very_end_is_a_torn_tail(false: tuple[int, ...]) -> None:
    """Nobody else loses anything by it, and who goes on with the queue gets its place."""
    bench = StoreBench(ROOMY)
    bench.send_falsely("t", 0, [b"m%d" % row for row in range(3)], false)
    bench.kill()
    kept = [b"m%d" % row for row in range(3) if row not in false]
    assert (bodies(bench, "t", 0), bench.store.damage) == (kept, ())
    bench.send("t", 0, b"next")
    bench.kill()
    assert bodies(bench, "t", 0) == [*kept, b"next"]
    assert bench.store.queues.max_offset("t", 0) == len(kept) + 1


@pytest.mark.parametrize("length", [5, 300, 3000])
@pytest.mark.parametrize("properties", [b"", b"k\x01v\x02"])
def test_a_false_checksum_of_what_is_torn_ends_the_log(properties: bytes, length: int) -> None:
    """However little a kill left unwritten of it, or a power loss took, nothing is said to be damaged."""
    bench = StoreBench(ROOMY)
    bench.send("t", 0, b"kept.")
    bench.store.flush()
    begin = bench.store.end_offset
    bench.send_falsely("t", 0, [b"x" * length], [0], properties)
    whole = bench.content("commitlog")[LOG][begin : bench.store.end_offset]
    cut = [whole[:left].ljust(len(whole), b"\x00") for left in range(len(whole.rstrip(b"\x00")))]
    edges = range(-begin % 512, len(whole) - 512, 512)
    holed = [whole[:edge] + bytes(512) + whole[edge + 512 :] for edge in edges]
    for torn in [*cut[:: 1 + len(cut) // 300], cut[-1], *holed]:
        bench.write_file(LOG, torn, begin)
        bench.disk.crash(None)
        bench.open()
        assert (bodies(bench, "t", 0), bench.store.damage) == ([b"kept."], ())
        assert bench.store.end_offset == begin

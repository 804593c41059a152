"""From a time to an offset, as spec: storage, section 3 has it."""

from __future__ import annotations

import pytest

from .store_bench import StoreBench

START = 1_700_000_000_000
TIMES = [10, 10, 10, 20, 40, 40, 50]  # after START; the first three and the two at 40 are equal


@pytest.fixture(scope="module")
def bench() -> StoreBench:
    bench = StoreBench()
    for number, ms in enumerate(TIMES):
        bench.clock.set_now_ms(START + ms)
        bench.send("t", 0, b"m%d" % number)
    return bench


@pytest.mark.parametrize(
    ("ms", "lower", "upper"),
    [
        (0, 0, 0),  # before the first: both the first
        (10, 0, 2),  # equal times: the first and the last of them
        (11, 3, 2),  # inside a gap: the one after and the one before
        (20, 3, 3),
        (30, 4, 3),
        (40, 4, 5),
        (45, 6, 5),
        (50, 6, 6),
        (51, 7, 6),  # after the last: one past the end, and the last
    ],
)
def test_offset_by_time(bench: StoreBench, ms: int, lower: int, upper: int) -> None:
    """LOWER is the first message not before the time, UPPER the last not after it."""
    assert bench.store.queues.offset_by_time("t", 0, START + ms, "LOWER") == lower
    assert bench.store.queues.offset_by_time("t", 0, START + ms, "UPPER") == upper


def test_store_times(bench: StoreBench) -> None:
    """Each message tells when it was stored; -1 where there is none, offset 0 for a queue that is not there."""
    assert [bench.store.queues.store_time_at("t", 0, n) - START for n in range(7)] == TIMES
    assert bench.store.queues.store_time_at("t", 0, 7) == -1
    assert bench.store.queues.earliest_store_time("t", 0) == START + 10
    assert bench.store.queues.earliest_store_time("t", 1) == -1
    assert bench.store.queues.offset_by_time("t", 1, START, "UPPER") == 0


@pytest.mark.parametrize("bodies", [(b"alike", b"every"), (b"short", b"and longer")])
def test_keys_of_bulks_are_found_in_their_time(bodies: tuple[bytes, ...]) -> None:
    """The index knows when the messages of a bulk were stored, whether or not they are equally long."""
    bench = StoreBench()
    bench.clock.set_now_ms(START)
    bench.send("t", 0, b"before")
    bench.clock.advance(ms=5_000)
    bench.send_bulk("t", 0, *bodies)
    for body in bodies:
        assert len(bench.store.query("t", body.decode(), START + 4_000, START + 6_000, 64)) == 1
        assert bench.store.query("t", body.decode(), START, START + 3_000, 64) == []


def test_expired_messages_are_too_early_for_any_time(bench: StoreBench) -> None:
    """A search never leads to a message that is gone: it is kept between the queue's ends."""
    old = StoreBench()
    for number in range(30):
        old.clock.advance(ms=1)
        old.send("t", 0, b"m%02d" % number)
    began_ms = old.clock.now_ms() - 29
    old.store.checkpoint()
    old.clock.advance(hours=80)
    while old.store.expire(old.clock.now_ms()).deleted:
        pass
    first = old.store.queues.min_offset("t", 0)
    assert first > 0
    for boundary in ("LOWER", "UPPER"):
        assert old.store.queues.offset_by_time("t", 0, began_ms, boundary) == first
    assert old.store.queues.earliest_store_time("t", 0) == began_ms + first


def test_the_log_tells_when_its_oldest_message_was_stored() -> None:
    """-1 while there is none; what has expired is not counted."""
    bench = StoreBench()
    assert bench.store.figures().earliest_timestamp_ms == -1
    first_ms = bench.clock.now_ms()
    bench.send("t", 0, b"x" * 300)
    bench.clock.advance(hours=1)
    bench.send("t", 0, b"y" * 300)
    assert bench.store.figures().earliest_timestamp_ms == first_ms
    bench.store.checkpoint()
    bench.clock.advance(hours=73)
    assert bench.store.expire(bench.clock.now_ms()).deleted
    assert bench.store.figures().earliest_timestamp_ms == first_ms + 3_600_000

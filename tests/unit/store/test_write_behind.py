"""A log that writes a little later than it is told is, to its readers, one that writes at once."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.store.log.segment import SegmentFiles
from rmqspark.store.queues.write_behind import LONG_BYTES, MOST_WAITING_BYTES, WaitingBytes, WriteBehindLog
from rmqspark.testing.memory_files import MemoryFileSystem

SEGMENT_BYTES = 2 * MOST_WAITING_BYTES
NO_SPACE = OSError(errno.ENOSPC, "refused")


class Bench:
    """Logs on a memory disk that share one account of what waits."""

    def __init__(self, limit_bytes: int = 1 << 20) -> None:
        self.disk = MemoryFileSystem()
        self.files = self.disk.within("store")
        self.files.make_root()
        self.segment_files = SegmentFiles(self.files, 8)
        self.waiting = WaitingBytes(limit_bytes)

    def log(self, name: str = "log") -> WriteBehindLog:
        return WriteBehindLog(self.files, self.segment_files, name, SEGMENT_BYTES, self.waiting)

    def writes(self) -> int:
        return sum(operation.name == "pwrite" for operation in self.disk.log)


def on_disk(log: WriteBehindLog) -> bytes:
    """The files, one after another, as another process sees them."""
    return b"".join(segment.read(0, segment.length) for segment in log)


appends = st.tuples(st.just("append"), st.integers(1, LONG_BYTES + 200))
overwrites = st.tuples(st.just("overwrite"), st.integers(0, 1 << 16))
others = st.tuples(st.sampled_from(["write_out", "cut", "refuse"]), st.integers(0, 1 << 16))


@given(st.lists(appends | appends | overwrites | others, max_size=30), st.sampled_from([100, 1 << 20]))
def test_readers_see_what_was_written(steps: list[tuple[str, int]], limit_bytes: int) -> None:
    """Whatever is appended, overwritten, cut or refused: any range reads as if each write had gone to the disk."""
    bench = Bench(limit_bytes)
    log, content = bench.log(), bytearray()
    for number, (step, value) in enumerate(steps):
        byte, place = bytes([number % 255 + 1]), value % (len(content) + 1)
        if step == "append":
            log.write(byte * value, len(content))
            content += byte * value
        elif step == "overwrite":
            size = min(40, len(content) - place)
            log.write(byte * size, place)
            content[place : place + size] = byte * size
        elif step == "cut":
            log.cut(place)
            del content[place:]
        elif step == "refuse":
            bench.disk.fail_next("pwrite", NO_SPACE)
            with pytest.raises(OSError, match="refused"):
                log.write(byte * (LONG_BYTES + 1), len(content))
        else:
            log.write_out()
            assert on_disk(log)[: len(content)] == content
        assert log.read(0, len(content)) == content
        assert log.read(place, len(content) - place) == content[place:]
    bench.waiting.write_out()
    assert on_disk(log).ljust(len(content), b"\0")[: len(content)] == content


def test_short_appends_cost_one_write_together() -> None:
    """What begins a file goes to the disk at once, the appends behind it when there are enough of them, when the next
    file begins, or when something long comes."""
    bench = Bench()
    log = bench.log()
    for number in range(257):
        log.write(b"%20d" % number, number * 20)
    assert bench.writes() == 1
    log.write(b"%20d" % 257, 257 * 20)
    assert bench.writes() == 2
    for number in range(258, 512):
        log.write(b"%20d" % number, number * 20)
    assert bench.writes() == 2
    log.write(b"%20d" % 512, SEGMENT_BYTES)
    assert bench.writes() == 4
    log.write(b"%20d" % 513, SEGMENT_BYTES + 20)
    log.write(b"c" * (LONG_BYTES + 1), SEGMENT_BYTES + 40)
    assert bench.writes() == 5
    whole = b"".join(b"%20d" % number for number in range(514)) + b"c" * (LONG_BYTES + 1)
    assert on_disk(log)[: len(whole)] == whole


def test_many_logs_together_are_bounded() -> None:
    """However many queues there are, what waits in memory has one limit for all of them."""
    bench = Bench(limit_bytes=100)
    logs = [bench.log(f"log{number}") for number in range(6)]
    for log in logs:
        log.write(b"a" * 20, 0)
    for log in logs[:5]:
        log.write(b"b" * 20, 20)
    assert not any(on_disk(log)[20:].strip(b"\0") for log in logs)
    logs[5].write(b"b" * 20, 20)
    assert on_disk(logs[5])[20:40] == b"b" * 20
    logs[0].write(b"c" * 20, 40)
    assert on_disk(logs[0])[20:60] == b"b" * 20 + b"c" * 20
    logs[5].write(b"c" * 20, 40)
    assert [on_disk(log)[20:].strip(b"\0") for log in logs[1:]] == [b""] * 4 + [b"b" * 20]


def test_what_the_disk_refuses_waits_on() -> None:
    """Nothing that was taken is lost to a full disk, and nothing that was refused is kept."""
    bench = Bench()
    log = bench.log()
    log.write(b"a" * 20, 0)
    log.write(b"b" * 20, 20)
    for _ in range(2):
        bench.disk.fail_next("pwrite", NO_SPACE)
        with pytest.raises(OSError, match="refused"):
            log.write(b"c" * (LONG_BYTES + 1), 40)
    bench.disk.fail_next("pwrite", NO_SPACE)
    with pytest.raises(OSError, match="refused"):
        bench.waiting.write_out()
    assert log.read(0, 60) == b"a" * 20 + b"b" * 20 + bytes(20)
    log.write(b"d" * 20, 40)
    bench.waiting.write_out()
    assert on_disk(log)[:60] == b"a" * 20 + b"b" * 20 + b"d" * 20


def test_what_waits_goes_with_its_file() -> None:
    """A deleted topic leaves nothing behind that would be written later."""
    bench = Bench()
    log = bench.log()
    log.write(b"a" * 20, 0)
    log.write(b"b" * 20, 20)
    log.clear()
    bench.waiting.write_out()
    assert not list(log)
    log.write(b"c" * 20, 0)
    assert log.read(0, 40) == b"c" * 20 + bytes(20)


def test_room_is_made_for_many_at_once() -> None:
    """Those who add to what waits of many logs count it beforehand: if it is too much, all of them are written out."""
    bench = Bench(limit_bytes=100)
    logs = [bench.log(f"log{number}") for number in range(2)]
    for log in logs:
        log.write(b"a" * 20, 0)
        log.write(b"b" * 20, 20)
    bench.waiting.make_room(60)
    assert bench.writes() == 2
    bench.waiting.make_room(1)
    assert [on_disk(log)[20:40] for log in logs] == [b"b" * 20] * 2
    bench.waiting.make_room(99)
    logs[0].write(b"c" * 20, 40)
    assert on_disk(logs[0])[40:60] == b"c" * 20


def test_room_that_the_disk_refuses_is_not_counted() -> None:
    """While the disk is full nothing more is let in, however often it is tried."""
    bench = Bench(limit_bytes=40)
    log = bench.log()
    log.write(b"a" * 20, 0)
    log.write(b"b" * 20, 20)
    for _ in range(3):
        bench.disk.fail_next("pwrite", NO_SPACE)
        with pytest.raises(OSError, match="refused"):
            bench.waiting.make_room(40)
    bench.waiting.make_room(40)
    assert on_disk(log)[20:40] == b"b" * 20

"""A slave's tail is compared with its master's log before anything is appended to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.replication.joining import (
    MOST_COMPARED_BYTES,
    LogsDiverged,
    TailComparison,
    TailDiffers,
    Window,
    place_to_cut,
)

RECORD_BYTES = 10
LONG_BYTES = RECORD_BYTES * MOST_COMPARED_BYTES


def begin_of(at: int) -> int:
    return at // RECORD_BYTES * RECORD_BYTES


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.property
@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60), st.integers(1, 20), st.data())
def test_a_difference_is_found_where_it_is(
    common: bytes, mine: bytes, theirs: bytes, piece_bytes: int, data: st.DataObject
) -> None:
    """However the bytes come, what is appended goes behind a log that is the master's, or nothing is appended."""
    slave, master = common + mine, common + theirs
    start = data.draw(st.integers(0, min(len(slave), len(master))))

    def read(at: int, size: int) -> bytes:
        assert size > 0, "behind the end there is nothing to compare"
        return slave[at : at + size]

    comparison = TailComparison(start, len(slave), read)
    behind, difference = compare(comparison, pieces(master[start:], piece_bytes))
    if difference is None:
        assert slave[start:] + behind == master[start:]
        assert comparison.is_over
    else:
        at = difference.at
        assert not behind
        assert slave[start:at] == master[start:at]
        assert slave[at : at + 1] != master[at : at + 1]
        assert difference.compared_from == start
        assert ("ends at" in str(difference)) is (at == len(master))


def compare(comparison: TailComparison, pieces: list[bytes]) -> tuple[bytes, TailDiffers | None]:
    behind = b""
    try:
        for piece in pieces:
            comparison.heartbeat()  # once says nothing
            behind += comparison.take(piece)
        comparison.heartbeat()
        comparison.heartbeat()
    except TailDiffers as difference:
        return behind, difference
    return behind, None


def test_what_has_expired_on_the_master_proves_nothing() -> None:
    """What comes first is compared with what lies in its place, and nothing before that counts as compared."""
    comparison = TailComparison(20, 100, lambda at, size: b"a" * size)
    comparison.begin_later(99)
    assert comparison.position == 99
    with pytest.raises(TailDiffers) as caught:
        comparison.take(b"b")
    assert (caught.value.at, caught.value.compared_from) == (99, 99)


@pytest.mark.parametrize("begin", [100, 101])
def test_a_log_that_begins_where_the_slaves_ends_is_not_gone_on_with(begin: int) -> None:
    """Not one byte of the two is the same."""
    comparison = TailComparison(20, 100, lambda at, size: b"a" * size)
    with pytest.raises(LogsDiverged, match=f"begins at {begin}, this slave's ends at 100"):
        comparison.begin_later(begin)


@pytest.mark.parametrize(
    ("log_start", "log_end", "starts"),
    [
        (0, 10_000_000, [9_934_464, 9_475_712, 5_805_696, 1]),  # 0 says that there is nothing
        (7_000_000, 10_000_000, [9_934_464, 9_475_712, 7_000_000]),
        (4096, 8192, [4096]),
        (0, 100, [1]),
        (0, 1 << 40, [(1 << 40) - (1 << size) for size in (16, 19, 22, 25, 26)]),  # 64 MiB at most
    ],
)
def test_windows_grow_until_all_is_compared(log_start: int, log_end: int, starts: list[int]) -> None:
    """A slave compares little at first, and all it may before it gives up; nothing twice for nothing."""
    window = Window()
    for start in starts[:-1]:
        assert window.start(log_start, log_end) == start
        assert window.widen(log_start, log_end)
    assert window.start(log_start, log_end) == starts[-1]
    assert not window.widen(log_start, log_end)
    window.reset()
    assert window.start(log_start, log_end) == starts[0]


@pytest.mark.parametrize("end", [0, 4096])
def test_where_there_is_nothing_the_slave_begins_with_what_comes(end: int) -> None:
    """0, which has the master choose, or where the last of what has expired ended."""
    assert Window().start(end, end) == end


@pytest.mark.parametrize(
    ("differs_at", "compared_from", "log_end", "place"),
    [
        (57, 20, 100, 50),  # within a record: with that record
        (60, 20, 100, 60),
        (60, 55, 100, 60),  # right behind a record
        (57, 57, 100, None),  # nothing was the same
        (57, 50, 100, None),  # nothing but the begin of a record, as many have it
        (57, 53, 100, None),  # not even one whole record was
        (57, 20, 50 + MOST_COMPARED_BYTES, 50),
        (57, 20, 51 + MOST_COMPARED_BYTES, None),  # too much would go
        (LONG_BYTES + 7, LONG_BYTES - 20, LONG_BYTES + 100, LONG_BYTES),
    ],
)
def test_a_tail_is_cut_where_that_is_safe(differs_at: int, compared_from: int, log_end: int, place: int | None) -> None:
    """A tail goes at the begin of a record, behind what is proven to be the master's, and not too much of it."""
    assert place_to_cut(differs_at, compared_from, log_end, begin_of) == place

"""A slave's tail is compared with its master's log before anything is appended to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.replication.joining import (
    FIRST_WINDOW_BYTES,
    MOST_COMPARED_BYTES,
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
    comparison = TailComparison(start, len(slave), lambda at, size: slave[at : at + size])
    behind, difference = compare(comparison, pieces(master[start:], piece_bytes))
    if difference is None:
        assert slave[start:] + behind == master[start:]
        assert comparison.is_over
    else:
        at = difference.at
        assert not behind
        assert slave[start:at] == master[start:at]
        assert slave[at : at + 1] != master[at : at + 1]


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


def test_windows_grow_until_all_is_compared() -> None:
    """A slave compares little at first, and all it may before it gives up; it never reports 0 for what is there."""
    window, end = Window(), 10_000_000
    starts = [window.start(0, end)]
    while window.widen(0, end):
        starts.append(window.start(0, end))
    assert starts[0] == end - FIRST_WINDOW_BYTES
    assert starts == sorted(starts, reverse=True)
    assert starts[-1] == 1
    window.reset()
    assert window.start(0, end) == starts[0]
    assert window.start(end - 5, end) == end - 5
    assert Window().start(0, 0) == 0
    assert Window().start(4096, 4096) == 4096


def test_no_more_is_compared_than_is_bounded() -> None:
    """A log of any length is compared within bounds."""
    window, end = Window(), 1 << 40
    while window.widen(0, end):
        pass
    assert end - window.start(0, end) == MOST_COMPARED_BYTES


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

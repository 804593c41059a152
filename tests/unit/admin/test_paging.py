"""Pages: nothing twice, nothing left out, whatever comes and goes meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.admin.paging import make_cursor, paged, read_cursor
from rmqspark.admin.values import time_of
from rmqspark.errors import InvalidArgument

NAMES = st.sets(st.text(st.sampled_from("ab%é"), min_size=1, max_size=3))


@given(names=NAMES, come=NAMES, go=NAMES, limit=st.integers(1, 5))
def test_what_stays_is_seen_once(names: set[str], come: set[str], go: set[str], limit: int) -> None:
    there, seen, cursor = set(names), [], None
    while True:
        page = paged(there, list, limit, cursor)
        assert len(page.items) <= limit
        seen += page.items
        cursor = page.next
        if cursor is None:
            break
        there = (there | come) - go
    assert len(seen) == len(set(seen))
    assert names - go <= set(seen)
    assert seen == sorted(seen)


@given(place=st.one_of(st.text(), st.integers(), st.dictionaries(st.text(), st.lists(st.integers()))))
def test_a_cursor_says_what_it_was_made_of(place: object) -> None:
    assert read_cursor(make_cursor(place), type(place)) == place


@pytest.mark.parametrize("cursor", ["", "x", "%%%", "e30", "é", "bnVsbA", "WzFd", "A" * 50])
def test_anything_else_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidArgument, match="no cursor"):
        read_cursor(cursor, str)


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000"),
        (-1, "-1"),
        (1 << 63, "9223372036854775808"),
    ],
)
def test_times_are_rfc_3339_as_far_as_calendars_go(timestamp_ms: int, text: str) -> None:
    assert time_of(timestamp_ms) == text

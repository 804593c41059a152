"""Which query is meant, and whether it lives."""

from __future__ import annotations

import pytest

from rmqspark.client.spark.queries import PAST_MS, SILENT_MS, SeenQuery, by_state, check_named, only_living, together
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.queries import KnownQuery, QueryReport


def seen(query_id: str, state: str | None, silent_ms: int = 0) -> SeenQuery:
    """As a broker told of it; without a state no listener has."""
    report = None if state is None else QueryReport(query_id, name="billing", state=state)
    return SeenQuery(KnownQuery(query_id, report), silent_ms)


@pytest.mark.parametrize(
    ("said", "silent_ms", "state"),
    [
        ("running", SILENT_MS, "running"),
        ("running", SILENT_MS + 1, "silent"),
        ("stopped", SILENT_MS + 1, "stopped"),
        ("failed", 0, "failed"),
        (None, 0, "unknown"),
    ],
)
def test_a_query_runs_only_while_it_says_so(said: str | None, silent_ms: int, state: str) -> None:
    """A driver that was killed said running last; minutes later that is not to be believed."""
    assert seen("a", said, silent_ms).state == state


@pytest.mark.parametrize("gone", [("running", SILENT_MS + 1), ("stopped", 0), ("failed", 0), (None, SILENT_MS + 1)])
def test_of_one_name_the_query_that_lives_is_meant(gone: tuple[str | None, int]) -> None:
    """Started again with a new checkpoint a query has a new id; what was before it does not make its name unclear."""
    before, now = seen("before", *gone), seen("now", "running")
    assert only_living([before, now]) == [now]
    assert only_living([before]) == [before]
    other = seen("other", None)
    assert only_living([now, before, other]) == [now, other]


def test_queries_are_listed_as_they_concern_an_operator() -> None:
    """What runs stands first, what has stopped last; of each the one that was heard of last."""
    old, late = seen("old", None, 9_000), seen("late", None, 10)
    gone, ended, broken = seen("gone", "running", SILENT_MS + 1), seen("ended", "stopped"), seen("broken", "failed")
    runs = seen("runs", "running", 5_000)
    assert by_state([ended, old, late, broken, gone, runs]) == [runs, gone, late, old, broken, ended]


@pytest.mark.parametrize(("state", "is_past"), [(None, True), ("stopped", True), ("running", False), ("failed", False)])
def test_a_query_that_ended_long_ago_is_past(state: str | None, is_past: bool) -> None:
    """Without a listener nobody says that it has ended; one that failed, or whose driver is gone, is still news."""
    assert seen("a", state, PAST_MS + 1).is_past == is_past
    assert not seen("a", state, PAST_MS).is_past


def test_the_newest_report_counts_whatever_brokers_clocks_say() -> None:
    """One told ten seconds ago that the query has stopped; before that another, whose clock is ten minutes ahead, heard
    that it runs."""
    stopped = KnownQuery("a", QueryReport("a", state="stopped", reportedAt=1_000_000), heardAt=900_000)
    running = KnownQuery("a", QueryReport("a", state="running", reportedAt=1_550_000), heardAt=1_550_000)
    now, ahead = SeenQuery.by(stopped, 1_010_000), SeenQuery.by(running, 1_610_000)
    for told in (together(now, ahead), together(ahead, now)):
        assert (told.state, told.silent_ms) == ("stopped", 10_000)


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_no_query_s(name: str) -> None:
    """A query without a name would answer to it, and be rewound by a script whose variable is not set."""
    with pytest.raises(InvalidArgument, match="name is empty"):
        check_named(name)

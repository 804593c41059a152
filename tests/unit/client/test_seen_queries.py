"""Which query is meant, and whether it lives."""

from __future__ import annotations

import pytest

from rmqspark.client.queries import SILENT_MS, SeenQuery, check_named, only_living
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies_queries import KnownQuery, QueryReport


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


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_no_query_s(name: str) -> None:
    """A query without a name would answer to it, and be rewound by a script whose variable is not set."""
    with pytest.raises(InvalidArgument, match="name is empty"):
        check_named(name)

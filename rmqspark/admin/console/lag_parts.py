"""How far behind somebody is, shown the same wherever it is: of a group, of a query, of a queue. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from rmqspark.admin.console import words
from rmqspark.admin.console.charts import line_chart
from rmqspark.admin.console.nodes import Child, Node, h
from rmqspark.admin.console.parts import section
from rmqspark.admin.console.tables import Column
from rmqspark.admin.console.watch import MOST_GROUPS
from rmqspark.protocol.names import is_system_group

if TYPE_CHECKING:
    from rmqspark.admin.console.visits import Visit


_TITLE: Final = "Lag over time"


class Reader(Protocol):
    """Whoever reads; None is unknown."""

    @property
    def lag(self) -> int | None: ...
    @property
    def seconds_behind(self) -> int | None: ...
    @property
    def caught_up_in_seconds(self) -> int | None: ...


def lag_columns() -> list[Column[Any]]:
    """Of rows with `lag` and `seconds_behind`."""
    return [
        Column("Lag", lambda each: words.number(each.lag), lambda each: each.lag, "lag", is_number=True),
        Column(
            "Behind",
            lambda each: words.seconds(each.seconds_behind),
            lambda each: each.seconds_behind,
            "behind",
            is_number=True,
        ),
    ]


def caught_up_column() -> Column[Any]:
    """Of rows that are Readers."""
    return Column(
        "Caught up",
        lambda each: words.caught_up(each.caught_up_in_seconds, each.lag),
        lambda each: each.caught_up_in_seconds,
        "caught",
        is_number=True,
    )


def lag_figures(reader: Reader) -> list[tuple[str, str, Child]]:
    return [
        ("Lag", words.number(reader.lag), "messages"),
        ("Behind", words.seconds(reader.seconds_behind), "of the oldest that waits"),
        ("Caught up", words.caught_up(reader.caught_up_in_seconds, reader.lag), "at the pace of now"),
    ]


def group_lag_over_time(visit: Visit, group: str) -> Node:
    """What is not measured is said to be so: a chart of it would never come."""
    known = visit.watch.groups or []
    is_left_out = len(known) == MOST_GROUPS and all(each.group != group for each in known)
    if is_left_out or is_system_group(group):
        story = f"It is kept of the first {MOST_GROUPS} groups by name, and of none of RocketMQ's own: not of this one."
        return section(_TITLE, h("p", story, class_="note"))
    return _lag_over_time(visit, f"group {group}")


def query_lag_over_time(visit: Visit, query_id: str) -> Node:
    return _lag_over_time(visit, f"query {query_id}")


def _lag_over_time(visit: Visit, whose: str) -> Node:
    """`whose` is what its history is kept under (`watch.py`)."""
    series = visit.watch.histories.of(whose)
    chart = line_chart("Lag", "messages", series, visit.zone, lambda lag: words.number(round(lag)))
    return section(_TITLE, chart)

"""Spark queries as they are shown, wherever they are. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.nodes import Node
from rmqspark.admin.console.parts import state
from rmqspark.admin.console.tables import Column
from rmqspark.admin.schemas.queries import QuerySummary

if TYPE_CHECKING:
    from rmqspark.admin.console.visits import Visit

_MOODS: Final = {"running": "good", "failed": "bad", "silent": "warning"}


def query_state(word: str) -> Node:
    return state(word, _MOODS.get(word, "plain"))


def query_columns(visit: Visit) -> list[Column[QuerySummary]]:
    return [
        Column(
            "Query",
            lambda each: visit.link(each.name or each.query_id, path("spark", each.query_id)),
            lambda each: each.name or each.query_id,
            "query",
        ),
        Column("State", lambda each: query_state(each.state), lambda each: each.state, "state"),
        Column("Lag", lambda each: words.number(each.lag), lambda each: each.lag, "lag", is_number=True),
        Column(
            "Behind",
            lambda each: words.seconds(each.seconds_behind),
            lambda each: each.seconds_behind,
            "behind",
            is_number=True,
        ),
        Column("Caught up", lambda each: words.caught_up(each.caught_up_in_seconds, each.lag), is_number=True),
        Column("Batch", lambda each: words.number(each.batch_id), is_number=True),
        Column(
            "Batch time",
            lambda each: words.milliseconds(each.batch_ms),
            lambda each: each.batch_ms,
            "time",
            is_number=True,
        ),
        Column("Rows", lambda each: words.number(each.input_rows), is_number=True),
        Column("Heard of", lambda each: f"{words.seconds(each.heard_seconds_ago)} ago"),
        Column("Groups", lambda each: ", ".join(each.groups) or "none"),
    ]

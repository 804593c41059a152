"""Spark queries as they are shown, wherever they are. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.lag_parts import caught_up_column, lag_columns
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
        *lag_columns(),
        caught_up_column(),
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

"""Groups in tables: the same columns wherever they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.lag_parts import caught_up_column, lag_columns
from rmqspark.admin.console.tables import Column
from rmqspark.admin.schemas.groups import GroupSummary

if TYPE_CHECKING:
    from rmqspark.admin.console.visits import Visit


def group_columns(visit: Visit) -> list[Column[GroupSummary]]:
    return [
        Column("Group", lambda each: visit.link(each.group, path("groups", each.group))),
        *lag_columns(),
        Column("Out/s", lambda each: words.rate(each.consumed_per_second), is_number=True),
        caught_up_column(),
        Column("Members", lambda each: words.number(each.members), is_number=True),
        Column("Topics", lambda each: ", ".join(each.topics)),
    ]

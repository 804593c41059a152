"""Groups in tables: the same columns wherever they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.tables import Column
from rmqspark.admin.schemas.groups import GroupSummary

if TYPE_CHECKING:
    from rmqspark.admin.console.visits import Visit


def group_columns(visit: Visit) -> list[Column[GroupSummary]]:
    return [
        Column("Group", lambda each: visit.link(each.group, path("groups", each.group))),
        Column("Lag", lambda each: words.number(each.lag), is_number=True),
        Column("Behind", lambda each: words.seconds(each.seconds_behind), is_number=True),
        Column("Out/s", lambda each: words.rate(each.consumed_per_second), is_number=True),
        Column("Caught up", lambda each: words.caught_up(each.caught_up_in_seconds, each.lag), is_number=True),
        Column("Members", lambda each: words.number(each.members), is_number=True),
        Column("Topics", lambda each: ", ".join(each.topics)),
    ]

"""/audit: what was changed through REST and console, by whom, and how it ended."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from rmqspark.admin.console.nodes import Node
from rmqspark.admin.console.parts import empty, group, state
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, pager, table
from rmqspark.admin.paging import USUAL, Page
from rmqspark.admin.reads.actions import actions
from rmqspark.admin.schemas.actions import ActionView

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit

_MOODS: Final = {"done": "good", "failed": "bad", "begun": "warning"}


async def build(frame: Frame) -> None:
    visit = frame.visit
    file = visit.desk.config.action_log or "rmq-admin-actions.jsonl"
    frame.head(frame.code_button(lambda: Snippets(f"tail -f {shlex.quote(file)}", visit.where.rest("audit"))))
    await frame.live(
        lambda: actions(visit.desk.log, USUAL, visit.given.get("cursor")),
        lambda page: show(visit, page),
        needs_brokers=False,
    )


def show(visit: Visit, page: Page[ActionView]) -> Node:
    if not page.items:
        return empty("What is changed here or through REST is listed, with who did it. Nothing was changed yet.")
    columns: list[Column[ActionView]] = [
        Column("Number", lambda each: str(each.number)),
        Column("When", lambda each: visit.time(each.at)),
        Column("Who", lambda each: each.who),
        Column("What", lambda each: each.action),
        Column("Of", lambda each: each.subject),
        Column("How", lambda each: each.detail or "as it is"),
        Column("Outcome", lambda each: state(each.outcome, _MOODS[each.outcome])),
        Column("Effect", lambda each: each.effect or "none told"),
    ]
    return group(table(visit, "Changes", columns, page.items, lambda each: str(each.number)), pager(visit, page.next))

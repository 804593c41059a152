"""What was changed, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.paging import Page, make_cursor, read_cursor
from rmqspark.admin.schemas.actions import ActionView

if TYPE_CHECKING:
    from rmqspark.admin.action_log import ActionLog


def actions(log: ActionLog, limit: int, cursor: str | None) -> Page[ActionView]:
    """The newest first."""
    before = read_cursor(cursor, int) if cursor else None
    found = log.newest(limit + 1, before)
    shown = [ActionView.of(action) for action in found[:limit]]
    return Page(items=shown, next=make_cursor(shown[-1].number) if len(found) > limit else None)

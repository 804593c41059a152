"""/audit: what was changed through REST and console, by whom."""

from __future__ import annotations

from fastapi import APIRouter

from rmqspark.admin.paging import USUAL, Cursor, Limit, Page, make_cursor, read_cursor
from rmqspark.admin.routes.given import TheDesk
from rmqspark.admin.schemas.actions import ActionView

router = APIRouter(prefix="/audit", tags=["audit"])


@router.get("")
def get_actions(desk: TheDesk, limit: Limit = USUAL, cursor: Cursor = None) -> Page[ActionView]:
    """The newest first."""
    before = read_cursor(cursor, int) if cursor else None
    found = desk.log.newest(limit + 1, before)
    shown = [ActionView.of(action) for action in found[:limit]]
    return Page(items=shown, next=make_cursor(shown[-1].number) if len(found) > limit else None)

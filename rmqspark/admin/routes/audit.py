"""/audit: what was changed through REST and console, by whom."""

from __future__ import annotations

from fastapi import APIRouter

from rmqspark.admin.paging import USUAL, Cursor, Limit, Page
from rmqspark.admin.reads.actions import actions
from rmqspark.admin.routes.given import TheDesk
from rmqspark.admin.schemas.actions import ActionView

router = APIRouter(prefix="/audit", tags=["audit"])


@router.get("")
def get_actions(desk: TheDesk, limit: Limit = USUAL, cursor: Cursor = None) -> Page[ActionView]:
    """The newest first."""
    return actions(desk.log, limit, cursor)

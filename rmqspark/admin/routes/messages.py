"""/messages: by id, or by key."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rmqspark.admin.paging import USUAL, Cursor, Limit, Page
from rmqspark.admin.reads import messages as look
from rmqspark.admin.routes.given import TheDesk
from rmqspark.admin.schemas.journeys import JourneyView
from rmqspark.admin.schemas.messages import MessageView

router = APIRouter(prefix="/messages", tags=["messages"])


@router.get("")
def find(
    desk: TheDesk,
    topic: str,
    key: str,
    from_: Annotated[str | None, Query(alias="from", description="A time (UTC), milliseconds, or -10m.")] = None,
    to: Annotated[str | None, Query(description="Stored before then.")] = None,
    limit: Limit = USUAL,
    cursor: Cursor = None,
) -> Page[MessageView]:
    """Messages by one of their keys: the newest, oldest first; each next page has those before them."""
    return look.with_key(desk.cluster, topic, key, from_, to, limit, cursor)


@router.get("/{msg_id}")
def get(desk: TheDesk, msg_id: str, topic: str | None = None) -> MessageView:
    """A message by either of its ids; without `topic` a sender's id is looked for in all of them."""
    return look.message(desk.cluster, msg_id, topic)


@router.get("/{msg_id}/journey")
def journey(desk: TheDesk, msg_id: str, topic: str | None = None) -> JourneyView:
    """Where a message came from, who has read it, and what came of it; what cannot be known says why."""
    return look.journey(desk.cluster, msg_id, topic)

"""/groups and what is under it."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.status import HTTP_204_NO_CONTENT

from rmqspark.admin.paging import USUAL, Cursor, Limit, PartialPage, listed, partial
from rmqspark.admin.reads import groups as look
from rmqspark.admin.routes.given import TheDesk, Who
from rmqspark.admin.schemas.groups import (
    GroupQueueView,
    GroupSummary,
    GroupView,
    MemberView,
    ResetRequest,
    ResetView,
)

router = APIRouter(prefix="/groups", tags=["groups"])


@router.get("")
def get_groups(
    desk: TheDesk, limit: Limit = USUAL, cursor: Cursor = None, system: bool = False
) -> PartialPage[GroupSummary]:
    """The groups by name, with their lag."""
    return look.groups(desk.cluster, limit, cursor, system=system)


@router.get("/{group}")
def get_group(desk: TheDesk, group: str) -> GroupView:
    """One group: its members, the Spark queries that read for it, and how far it is in each queue."""
    return look.group(desk.cluster, group)


@router.get("/{group}/offsets")
def get_offsets(desk: TheDesk, group: str, limit: Limit = USUAL, cursor: Cursor = None) -> PartialPage[GroupQueueView]:
    """How far it is in each queue. Never committed is null."""
    view = look.group(desk.cluster, group)
    page = listed(view.offsets, lambda queue: [queue.topic, queue.broker_name, queue.queue_id], limit, cursor)
    return partial(page, view.silent)


@router.get("/{group}/clients")
def get_clients(desk: TheDesk, group: str, limit: Limit = USUAL, cursor: Cursor = None) -> PartialPage[MemberView]:
    """Who is connected now."""
    view = look.group(desk.cluster, group)
    return partial(listed(view.clients, lambda member: [member.client_id], limit, cursor), view.silent)


@router.post("/{group}/reset")
def reset(desk: TheDesk, who: Who, group: str, request: ResetRequest) -> ResetView:
    """Sets it to another place; with `dryRun` says what that would do."""
    return desk.actions.reset_group(who, group, request)


@router.delete("/{group}", status_code=HTTP_204_NO_CONTENT)
def delete(desk: TheDesk, who: Who, group: str) -> None:
    """Deletes it with its committed offsets."""
    desk.actions.delete_group(who, group)

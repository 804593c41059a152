"""/dlq: what groups have consumed in vain."""

from __future__ import annotations

from fastapi import APIRouter

from rmqspark.admin.paging import USUAL, Cursor, Limit, PartialPage, listed, partial
from rmqspark.admin.reads import dead_letters as look
from rmqspark.admin.routes.given import TheDesk, Who
from rmqspark.admin.schemas.dead_letters import DeadLetterCountView, DeadLetterView, ResendRequest, ResendView
from rmqspark.client.cluster.silence import Silence

router = APIRouter(prefix="/dlq", tags=["dead letters"])


@router.get("")
def get_counts(desk: TheDesk, limit: Limit = USUAL, cursor: Cursor = None) -> PartialPage[DeadLetterCountView]:
    """The groups that have dead letters, and how many."""
    silence = Silence()
    counts = look.counts(desk.cluster, silence)
    return partial(listed(counts, lambda count: [count.group], limit, cursor), silence.reasons)


@router.get("/{group}")
def get_letters(desk: TheDesk, group: str, limit: Limit = USUAL, cursor: Cursor = None) -> PartialPage[DeadLetterView]:
    """The dead letters of a group, the newest first. A page may be short and yet have a next one."""
    return look.letters(desk.cluster, group, limit, cursor)


@router.post("/{group}/resend")
def resend(desk: TheDesk, who: Who, group: str, request: ResendRequest | None = None) -> ResendView:
    """Gives a group its dead letters again, all without a body; with `dryRun` says how many."""
    return desk.actions.resend(who, group, request or ResendRequest())

"""/spark/queries: the Spark queries that read from here. A name of one may have slashes in it."""

from __future__ import annotations

from fastapi import APIRouter

from rmqspark.admin.paging import USUAL, Cursor, Limit, PartialPage, listed, partial
from rmqspark.admin.reads import queries as look
from rmqspark.admin.routes.given import TheDesk, Who
from rmqspark.admin.schemas.groups import ResetRequest, ResetView
from rmqspark.admin.schemas.queries import QueryDetail, QuerySummary, RewindRequest
from rmqspark.admin.schemas.transactions import ProofView
from rmqspark.client.cluster.silence import Silence
from rmqspark.client.spark.queries import STATES

router = APIRouter(prefix="/spark/queries", tags=["Spark"])


@router.get("")
def get_queries(
    desk: TheDesk, limit: Limit = USUAL, cursor: Cursor = None, past: bool = False
) -> PartialPage[QuerySummary]:
    """The queries, those that run first; with `past` those, too, that have stopped, or have no listener to say so, and
    were not heard of for ten minutes."""
    silence = Silence()
    queries = look.queries(desk.cluster, silence, past=past)
    page = listed(queries, lambda query: [STATES.index(query.state), query.query_id], limit, cursor)
    return partial(page, silence.reasons)


@router.get("/{query:path}/proof")
def get_proof(desk: TheDesk, query: str) -> ProofView:
    """Batch by batch what was read, committed and written; gaps and duplicates counted."""
    return look.proof(desk.cluster, query)


@router.get("/{query:path}")
def get_query(desk: TheDesk, query: str) -> QueryDetail:
    """One query, by its id, name or group: its queues, its last batch, and what to change if it is slow."""
    return look.query(desk.cluster, query)


@router.post("/{query:path}/rewind")
def rewind(desk: TheDesk, who: Who, query: str, request: RewindRequest) -> ResetView:
    """Has it read on from another place, while it runs; with `dryRun` says what that would do."""
    return desk.actions.rewind(who, query, ResetRequest(to=request.to, dry_run=request.dry_run))

"""/transactions: of Spark's batches. A transactional id may have slashes in it."""

from __future__ import annotations

from fastapi import APIRouter

from rmqspark.admin.paging import USUAL, Cursor, Limit, PartialPage, listed, partial
from rmqspark.admin.reads import transactions as look
from rmqspark.admin.routes.given import TheDesk, Who
from rmqspark.admin.schemas.transactions import DecisionRequest, DecisionView, OneTransaction, TransactionView
from rmqspark.client.cluster.silence import Silence
from rmqspark.protocol.headers.txn import TxnOutcome

router = APIRouter(prefix="/transactions", tags=["transactions"])


OfWhatIsOpen = DecisionRequest | None  # without a body it is the version that is open


@router.get("")
def get_transactions(desk: TheDesk, limit: Limit = USUAL, cursor: Cursor = None) -> PartialPage[TransactionView]:
    """All transactional ids that their coordinators keep, those that are open first."""
    silence = Silence()
    views = look.transactions(desk.cluster, silence)
    page = listed(views, lambda view: [not view.open, view.transactional_id], limit, cursor)
    return partial(page, silence.reasons)


@router.get("/{transactional_id:path}")
def get_transaction(desk: TheDesk, transactional_id: str) -> OneTransaction:
    """One transactional id."""
    return look.transaction(desk.cluster, transactional_id)


@router.post("/{transactional_id:path}/commit")
def commit(desk: TheDesk, who: Who, transactional_id: str, request: OfWhatIsOpen = None) -> DecisionView:
    """Commits what is open, if the brokers hold all of it; for good."""
    return desk.actions.decide(who, transactional_id, _version(request), TxnOutcome.COMMIT)


@router.post("/{transactional_id:path}/rollback")
def rollback(desk: TheDesk, who: Who, transactional_id: str, request: OfWhatIsOpen = None) -> DecisionView:
    """Gives up what is open; nothing of it becomes readable."""
    return desk.actions.decide(who, transactional_id, _version(request), TxnOutcome.ROLLBACK)


def _version(request: OfWhatIsOpen) -> int | None:
    return None if request is None else request.version

"""What operators are told: transactional ids and their state in words; decided batches, what went in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies_txn import AuditedBatch, AuditedBatches, TxnState, TxnStates
from rmqspark.txn.events import Finished, decode_event
from rmqspark.txn.ledger import audited, is_open

if TYPE_CHECKING:
    from rmqspark.txn.events import Pending, Transaction
    from rmqspark.txn.journal import Journal
    from rmqspark.txn.ledger import Ledger
    from rmqspark.txn.rollout import Rollout

MAX_LIMIT: Final = 1_000
_MOST_SCANNED: Final = 10_000  # events for one answer: the loop has other work
_IS_FINISHED: Final = b'"event":"finished"'


class Reports:
    """Answers TXN_LIST and TXN_AUDIT on the broker `coordinator`."""

    def __init__(self, coordinator: str, ledger: Ledger, journal: Journal, rollout: Rollout) -> None:
        self._coordinator = coordinator
        self._ledger = ledger
        self._journal = journal
        self._rollout = rollout

    def states(self, transactional_id: str | None, limit: int, cursor: str | None, now_ms: int) -> TxnStates:
        """States by id, from the one after `cursor` on."""
        wanted = sorted(
            txn.transactional_id
            for txn in self._ledger
            if transactional_id in (None, txn.transactional_id) and txn.transactional_id > (cursor or "")
        )
        page = wanted[: _limit(limit)]
        states = [self._state(self._ledger.require(name), now_ms) for name in page]
        return TxnStates(states, page[-1] if page and len(page) < len(wanted) else None)

    def batches(
        self, transactional_id: str | None, query_id: str | None, limit: int, cursor: str | None
    ) -> AuditedBatches:
        """Decided batches from the ledger's topic, oldest first; what is not finished yet comes last.

        A page may be short, or empty, and have a cursor all the same. After a power loss of this broker a batch may
        come twice; the later one counts. Raises InvalidArgument for a cursor that is none.
        """
        if cursor is not None and not cursor.isdecimal():
            raise InvalidArgument(f"{cursor[:20]!r} is no cursor.")
        wanted = [name.encode() for name in (transactional_id, query_id) if name]
        found: list[AuditedBatch] = []
        next_offset = int(cursor or 0)
        for scanned, (queue_offset, _, body) in enumerate(self._journal.scan(next_offset)):
            if scanned == _MOST_SCANNED or len(found) == _limit(limit):
                return AuditedBatches(found, str(queue_offset))
            if _IS_FINISHED in body and all(name in body for name in wanted):
                event = decode_event(body)
                if isinstance(event, Finished) and _is_wanted(event.batch, transactional_id, query_id):
                    found.append(event.batch)
        found += (
            batch
            for txn in self._ledger
            for pending in txn.pending
            if _is_wanted(batch := self._unfinished(txn, pending), transactional_id, query_id)
        )
        return AuditedBatches(found)

    def _unfinished(self, txn: Transaction, pending: Pending) -> AuditedBatch:
        return audited(txn, pending, self._rollout.outputs(txn, pending), completed=False)

    def _state(self, txn: Transaction, now_ms: int) -> TxnState:
        newest = txn.pending[-1] if txn.pending else None
        decision = newest.decision if newest else txn.last_decision
        if txn.open_version > txn.last_version:  # the newest one is not decided
            decision = None
        return TxnState(
            transactionalId=txn.transactional_id,
            queryId=txn.query_id,
            coordinator=self._coordinator,
            epoch=txn.epoch,
            version=max(txn.open_version, txn.last_version),
            lastVersion=txn.last_version,
            state=self._in_words(txn),
            ageMs=max(0, now_ms - txn.touched_ms),
            brokers=sorted(decision.participants) if decision else [],
            rows=decision.rows if decision else 0,
            bytes=decision.bytes if decision else 0,
            decidedBy=txn.closed_by if txn.epoch <= txn.closed_epoch else txn.decided_by,
        )

    def _in_words(self, txn: Transaction) -> str:
        unreadable = sorted(self._rollout.unreadable(txn))
        waiting = f", readable everywhere but on {', '.join(unreadable)}" if unreadable else ""
        if is_open(txn):
            return f"version {txn.open_version} is being written{waiting}"
        if txn.open_version > txn.last_version:
            return f"version {txn.open_version} was given up by {txn.closed_by}{waiting}"
        if txn.last_version < 0:
            return "nothing written yet"
        return f"version {txn.last_version} is committed{waiting}"


def _limit(limit: int) -> int:
    return max(1, min(limit, MAX_LIMIT))


def _is_wanted(batch: AuditedBatch, transactional_id: str | None, query_id: str | None) -> bool:
    return (not transactional_id or batch.transactionalId == transactional_id) and (
        not query_id or batch.queryId == query_id
    )

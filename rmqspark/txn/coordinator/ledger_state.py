"""What the events of a ledger add up to: all that a coordinator knows of its transactional ids. Pure.

Nothing changes but by `apply`, so a state that was answered from can always be made again from the events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from rmqspark.errors import UnknownTransaction
from rmqspark.protocol.bodies.txn import ManualDecision
from rmqspark.protocol.headers.txn import NO_VERSION, TxnOutcome
from rmqspark.txn.coordinator.decisions import figures
from rmqspark.txn.coordinator.events import (
    CLOCK,
    DRIVER,
    BrokerCompleted,
    Decided,
    EpochClosed,
    Finished,
    Forgotten,
    Kept,
    PeerSeen,
    Pending,
    Restated,
    RunOpened,
    Transaction,
    VersionBegun,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.protocol.bodies.txn import AuditedBatch
    from rmqspark.txn.coordinator.events import Event

MAX_RUNS: Final = 64  # of one id; one forgotten that comes back gets a new epoch, which costs a retry and no row
_MAX_MANUAL: Final = 10  # decisions of operators, the latest, of one id


class LedgerState:
    """All transactional ids of one coordinator."""

    def __init__(self) -> None:
        self._transactions: dict[str, Transaction] = {}
        self._kept: dict[str, list[Pending]] = {}  # while events that restate an id are being read
        self.uptime_ms = 0  # the latest that an event tells (see `uptime`)
        self._heard_of: set[str] = set()  # since the start, by an attempt that was allowed to write
        self.peers: dict[str, None] = {}  # brokers of the cluster ever seen, in the order they were

    def __contains__(self, transactional_id: str) -> bool:
        return transactional_id in self._transactions

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def require(self, transactional_id: str) -> Transaction:
        """Raises UnknownTransaction."""
        found = self._transactions.get(transactional_id)
        if found is None:
            raise UnknownTransaction(f"Nobody has prepared the transactional id {transactional_id!r} here.")
        return found

    def is_heard_of(self, transactional_id: str) -> bool:
        """Whether an attempt was allowed to write under this id since the start."""
        return transactional_id in self._heard_of

    def start(self) -> None:
        """All that the log had has been applied: what comes now is news."""
        self._heard_of.clear()

    def apply(self, event: Event) -> None:
        """Takes an event that is in the log. The same events in the same order make the same ledger."""
        match event:
            case RunOpened():
                self._apply_opened(event)
            case VersionBegun():
                txn = self._transactions.get(event.transactional_id)
                if txn is not None:
                    txn.open_version = event.version
                    self._hear(txn, event.uptime_ms)
                    self._heard_of.add(event.transactional_id)
            case EpochClosed():
                self._apply_closed(event)
            case Decided():
                self._apply_decided(event)
            case BrokerCompleted():
                txn = self._transactions.get(event.transactional_id)
                if txn is not None and (pending := txn.pending_of(event.version)) is not None:
                    pending.outputs[event.broker] = event.outputs
            case Finished():
                self._apply_finished(event.batch)
            case Forgotten():
                self._transactions.pop(event.transactional_id, None)
                self._heard_of.discard(event.transactional_id)
            case Kept():
                self._kept.setdefault(event.transactional_id, []).append(event.pending)
            case Restated():
                self._apply_restated(event.transaction, event.kept)
            case PeerSeen():
                self.peers[event.broker] = None

    def _hear(self, txn: Transaction, uptime_ms: int) -> None:
        txn.heard_ms = uptime_ms
        self.uptime_ms = max(self.uptime_ms, uptime_ms)

    def _apply_opened(self, event: RunOpened) -> None:
        txn = self._transactions.setdefault(event.transactional_id, Transaction(event.transactional_id))
        txn.query_id = event.query_id or txn.query_id
        txn.epoch, txn.open_version = event.epoch, NO_VERSION
        self._hear(txn, event.uptime_ms)
        txn.runs.pop(event.run, None)
        txn.runs[event.run] = event.epoch
        while len(txn.runs) > MAX_RUNS:
            del txn.runs[next(iter(txn.runs))]

    def _apply_closed(self, event: EpochClosed) -> None:
        txn = self._transactions.get(event.transactional_id)
        if txn is not None:
            txn.closed_epoch = max(txn.closed_epoch, event.epoch)
            txn.closed_by, txn.closed_at_ms = event.by, event.at_ms
            _note_manual(txn, event, TxnOutcome.ROLLBACK)

    def _apply_decided(self, event: Decided) -> None:
        txn = self._transactions.setdefault(event.transactional_id, Transaction(event.transactional_id))
        txn.epoch = max(txn.epoch, event.epoch)
        txn.last_version, txn.last_epoch, txn.last_decision = event.version, event.epoch, event.decision
        txn.open_version = NO_VERSION
        txn.decided_by, txn.decided_at_ms = event.by, event.at_ms
        _note_manual(txn, event, TxnOutcome.COMMIT)
        txn.pending.append(Pending(event.epoch, event.version, event.decision, event.at_ms, event.by))

    def _apply_restated(self, txn: Transaction, kept: int) -> None:
        found = self._kept.pop(txn.transactional_id, [])
        txn.pending = found[len(found) - kept :]
        if txn.pending and txn.pending[-1].version == txn.last_version:
            txn.last_decision = txn.pending[-1].decision
        self._hear(txn, txn.heard_ms)
        self._transactions[txn.transactional_id] = txn

    def _apply_finished(self, batch: AuditedBatch) -> None:
        txn = self._transactions.get(batch.transactionalId)
        pending = txn.pending_of(batch.version) if txn is not None else None
        if txn is None or pending is None:
            return
        txn.pending.remove(pending)
        if batch.version == txn.last_version:
            txn.last_decision = figures(pending.decision)

    def restated(self, transactional_id: str) -> list[Event]:
        """Events that stand for all of this transactional id; none if it is forgotten."""
        txn = self._transactions.get(transactional_id)
        if txn is None:
            return []
        decision = figures(txn.last_decision) if txn.last_decision is not None else None
        alone = msgspec.structs.replace(txn, runs=dict(txn.runs), last_decision=decision, pending=[])
        return [*(Kept(transactional_id, pending) for pending in txn.pending), Restated(alone, len(txn.pending))]


def _note_manual(txn: Transaction, event: EpochClosed | Decided, decision: TxnOutcome) -> None:
    """What an operator decided can be looked up as long as the id is known, whatever comes after it."""
    if event.by not in (DRIVER, CLOCK):
        txn.manual = [*txn.manual, ManualDecision(event.version, decision, event.by, event.at_ms)][-_MAX_MANUAL:]

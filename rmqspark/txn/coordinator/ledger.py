"""The ledger: what a coordinator knows of its transactional ids. Pure: events in, decisions out.

Nothing changes but by `apply`. Every other method looks at the state and returns what to answer together with the
events that have to be remembered first; the coordinator writes those, applies them, and answers when they are on disk.
So a state that was answered from can always be made again from the events.

Per transactional id T, the rules that all else rests on (docs/exactly-once.md):
- A version is decided at most once, and versions of T grow: `last_version`.
- Only the newest epoch may decide, and only while it is not closed. A new run gets a new epoch; an abort, a status
  question of a driver, an operator or the clock closes one. Closed stays closed.
- A decision is kept until every broker it names has said that its rows are on disk there, and shared groups that it has
  read for have gone on behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from rmqspark.errors import Busy, ForgedEpoch, UnknownTransaction
from rmqspark.protocol.bodies.txn import AuditedBatch, ManualDecision, TxnDecision
from rmqspark.protocol.headers.txn import NO_EPOCH, NO_VERSION, TxnOutcome
from rmqspark.txn.coordinator.decisions import audited, check_decision, figures
from rmqspark.txn.coordinator.events import (
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
    from collections.abc import Iterator, Mapping

    from rmqspark.protocol.bodies.txn import OutputRange
    from rmqspark.txn.coordinator.events import Event

MAX_TRANSACTIONS: Final = 20_000
MAX_PENDING: Final = 256  # decisions of one id whose brokers have not all completed
MAX_PEERS: Final = 1_000  # brokers ever seen, each of which is asked before an id is adopted
_MAX_MANUAL: Final = 10  # decisions of operators, the latest, of one id
MAX_RUNS: Final = 64  # of one id; one forgotten that comes back gets a new epoch, which costs a retry and no row
_HEARD_EVERY_MS: Final = 10_000  # attempts of one version within so long are noted once
DRIVER: Final = "driver"
CLOCK: Final = "timeout"


class Answer(NamedTuple):
    """What to answer once `events` are on disk. `decision` where one is recorded, with the `epoch` it was made in;
    `reason` in words with FENCED, where it is neither another run nor the driver's own wish."""

    outcome: TxnOutcome
    epoch: int = NO_EPOCH
    last_version: int = NO_VERSION
    decision: TxnDecision | None = None
    events: tuple[Event, ...] = ()
    reason: str | None = None


class Ledger:
    """All transactional ids of one coordinator."""

    def __init__(self, *, max_transactions: int = MAX_TRANSACTIONS) -> None:
        self._max_transactions = max_transactions
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

    # --- decisions ---------------------------------------------------------------------------------------------------

    def prepare(
        self, transactional_id: str, run: str, version: int, query_id: str, uptime_ms: int, *, least_epoch: int = 1
    ) -> Answer:
        """Whether an attempt of `run` is to write `version`. A run that is new here gets `least_epoch`, or a later one.

        Raises Busy where too much is unfinished already.
        """
        known = self._transactions.get(transactional_id)
        txn = known or Transaction(transactional_id)
        if self.is_decided(txn, version):
            return Answer(_already(txn, version), last_version=txn.last_version)
        next_epoch = max(txn.epoch + 1, least_epoch)
        epoch = txn.runs.get(run) or next_epoch
        if epoch < txn.epoch:
            return Answer(TxnOutcome.FENCED, last_version=txn.last_version)
        self._admit(txn, is_new=known is None)
        events: list[Event] = []
        if self.is_fenced(txn, epoch):  # it is the newest run, so nobody else has been given anything since
            epoch = next_epoch
        if epoch != txn.epoch:
            events.append(RunOpened(transactional_id, query_id, run, epoch, uptime_ms))
        if events or txn.open_version != version or txn.heard_ms + _HEARD_EVERY_MS <= uptime_ms:
            events.append(VersionBegun(transactional_id, version, uptime_ms))
        return Answer(TxnOutcome.WRITE, epoch, txn.last_version, events=tuple(events))

    def decide(self, transactional_id: str, run: str, epoch: int, version: int, decision: TxnDecision) -> Answer | None:
        """None if the participants are to vote, and then `record`; else the answer.

        Raises UnknownTransaction, ForgedEpoch, TransactionError for a decision that contradicts itself.
        """
        txn = self.require(transactional_id)
        if self.is_decided(txn, version):
            return self._recorded(txn, version, _already(txn, version))
        self._refuse_forged(txn, epoch, run)
        if self.is_fenced(txn, epoch):
            return _fenced(txn, epoch)
        if version != txn.open_version:
            raise UnknownTransaction(f"Version {version} of {transactional_id!r} was never prepared here.")
        check_decision(decision)
        return None

    def record(
        self,
        transactional_id: str,
        epoch: int,
        version: int,
        decision: TxnDecision,
        now_ms: int,
        by: str = DRIVER,
        output_bytes: int = 0,
    ) -> Answer:
        """All participants have said yes: the decision, unless the version was closed or decided meanwhile."""
        txn = self.require(transactional_id)
        if self.is_decided(txn, version):
            return self._recorded(txn, version, _already(txn, version))
        if self.is_fenced(txn, epoch):
            return _fenced(txn, epoch)
        events: list[Event] = [Decided(transactional_id, epoch, version, decision, now_ms, by, output_bytes)]
        if not decision.participants:  # nothing to complete
            pending = Pending(epoch, version, decision, now_ms, by)
            events.append(Finished(audited(txn, pending, {}, completed=True)))
        return Answer(TxnOutcome.COMMITTED, epoch, version, decision, tuple(events))

    def status(self, transactional_id: str, epoch: int, version: int) -> Answer:
        """How a version stands, for a participant that has halves of it: UNKNOWN while it may still be decided.

        FENCED also for what nobody was allowed to write: a forged epoch, a version from the future. Until an attempt is
        heard of after a start there is no telling the latter: a power loss may have taken the note that a version was
        begun, and another attempt may yet bring that back. `epoch` of the answer is the newest one handed out where no
        decision is recorded.
        """
        txn = self.require(transactional_id)
        if self.is_decided(txn, version):
            return self._recorded(txn, version, TxnOutcome.COMMITTED)
        may_be_begun = version <= txn.open_version or transactional_id not in self._heard_of
        is_open = epoch == txn.epoch and may_be_begun and not self.is_fenced(txn, epoch)
        return Answer(TxnOutcome.UNKNOWN if is_open else TxnOutcome.FENCED, txn.epoch, txn.last_version)

    def close(self, transactional_id: str, epoch: int, version: int, now_ms: int, by: str = DRIVER) -> Answer:
        """The same for a driver that is giving up, or an operator: what is open is closed before the answer, also
        where a power loss took the note that the version was begun: an attempt may yet bring that back.

        Raises UnknownTransaction, ForgedEpoch.
        """
        txn = self.require(transactional_id)
        if self.is_decided(txn, version):
            return self._recorded(txn, version, TxnOutcome.COMMITTED)
        self._refuse_forged(txn, epoch)
        if self.is_fenced(txn, epoch):
            return _fenced(txn, epoch)._replace(epoch=txn.epoch)
        closed = EpochClosed(transactional_id, epoch, version, now_ms, by)
        return Answer(TxnOutcome.FENCED, txn.epoch, txn.last_version, events=(closed,))

    def completed(
        self, transactional_id: str, version: int, outputs: Mapping[str, list[OutputRange]], *, may_finish: bool = True
    ) -> list[Event]:
        """These brokers have the rows of `version` in their topics and on their disks. Nothing where that is known.
        Where it may not finish yet, the decision is kept when all have them, until this is asked once more."""
        txn = self._transactions.get(transactional_id)
        pending = _pending(txn, version)
        if txn is None or pending is None:
            return []
        left = pending.brokers_left()
        news = {broker: outputs[broker] for broker in left if broker in outputs}
        if len(news) < len(left) or not may_finish:
            return [BrokerCompleted(transactional_id, version, broker, some) for broker, some in news.items()]
        return [Finished(audited(txn, pending, {**pending.outputs, **news}, completed=True))]

    def overdue(self, uptime_ms: int, max_open_ms: int, now_ms: int) -> list[EpochClosed]:
        """Closes what no attempt has been heard of for too long."""
        return [
            EpochClosed(txn.transactional_id, txn.epoch, txn.open_version, now_ms, CLOCK)
            for txn in self
            if is_open(txn) and txn.heard_ms + max_open_ms <= uptime_ms
        ]

    def disused(self, uptime_ms: int, expiration_ms: int) -> list[Forgotten]:
        """Forgets what nobody has used for very long, with nothing left to do."""
        return [
            Forgotten(txn.transactional_id)
            for txn in self
            if not txn.pending and not is_open(txn) and txn.heard_ms + expiration_ms <= uptime_ms
        ]

    # --- the rules, one method each ----------------------------------------------------------------------------------

    def is_decided(self, txn: Transaction, version: int) -> bool:
        """Idempotence: what is at or below the last version is never written again."""
        return version <= txn.last_version

    def is_fenced(self, txn: Transaction, epoch: int) -> bool:
        """The fence: an epoch that is not the newest, or was closed, decides nothing."""
        return epoch < txn.epoch or epoch <= txn.closed_epoch

    def _refuse_forged(self, txn: Transaction, epoch: int, run: str | None = None) -> None:
        if epoch > txn.epoch or (run is not None and epoch > txn.runs.get(run, epoch)):
            raise ForgedEpoch(f"Epoch {epoch} of {txn.transactional_id!r} was never handed out to this run.")

    def _admit(self, txn: Transaction, *, is_new: bool) -> None:
        if is_new and len(self._transactions) >= self._max_transactions:
            raise Busy(f"This broker coordinates {self._max_transactions} transactional ids, and takes no more.")
        if len(txn.pending) >= MAX_PENDING:
            brokers = ", ".join(txn.pending[0].brokers_left()) or "brokers that they have read from"
            raise Busy(f"{MAX_PENDING} versions of {txn.transactional_id!r} wait for {brokers}.")

    def _recorded(self, txn: Transaction, version: int, outcome: TxnOutcome) -> Answer:
        """What is known of a version that is not open any more; FENCED instead of COMMITTED where it is forgotten."""
        pending = _pending(txn, version)
        if pending is not None:
            return Answer(outcome, pending.epoch, txn.last_version, pending.decision)
        if version == txn.last_version:
            return Answer(outcome, txn.last_epoch, txn.last_version, txn.last_decision)
        forgotten = TxnOutcome.FENCED if outcome is TxnOutcome.COMMITTED else outcome
        return Answer(forgotten, txn.epoch, txn.last_version)

    # --- what happened -----------------------------------------------------------------------------------------------

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
                pending = _pending(self._transactions.get(event.transactional_id), event.version)
                if pending is not None:
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
        pending = _pending(txn, batch.version)
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


def is_open(txn: Transaction) -> bool:
    """Whether somebody may be writing a version now."""
    return txn.open_version > txn.last_version and txn.epoch > txn.closed_epoch


def _already(txn: Transaction, version: int) -> TxnOutcome:
    """What a driver is told of a version that is decided."""
    return TxnOutcome.ALREADY_COMMITTED if version == txn.last_version else TxnOutcome.STALE


def _fenced(txn: Transaction, epoch: int) -> Answer:
    """What is said of an epoch under which nothing is decided any more."""
    return Answer(TxnOutcome.FENCED, last_version=txn.last_version, reason=_why_closed(txn, epoch))


def _why_closed(txn: Transaction, epoch: int) -> str | None:
    """In words for a driver, with what to do; None where it closed the epoch itself, or another run has taken over."""
    if epoch != txn.closed_epoch or txn.closed_by in ("", DRIVER):
        return None
    if txn.closed_by == CLOCK:
        return (
            "no task of it had begun for transaction_max_open, so its coordinator gave it up. "
            "Raise that setting of the brokers, or write fewer rows in a batch or in a task."
        )
    return f"{txn.closed_by} has rolled it back by hand."


def _pending(txn: Transaction | None, version: int) -> Pending | None:
    if txn is None:
        return None
    return next((pending for pending in txn.pending if pending.version == version), None)


def _note_manual(txn: Transaction, event: EpochClosed | Decided, decision: TxnOutcome) -> None:
    """What an operator decided can be looked up as long as the id is known, whatever comes after it."""
    if event.by not in (DRIVER, CLOCK):
        txn.manual = [*txn.manual, ManualDecision(event.version, decision, event.by, event.at_ms)][-_MAX_MANUAL:]

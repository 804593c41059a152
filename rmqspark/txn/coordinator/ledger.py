"""The ledger: what a coordinator decides about its transactional ids. Pure: events in, decisions out.

Each decision looks at the state (`ledger_state.py`) and changes nothing: it returns what to answer together with the
events that have to be remembered first. The coordinator writes those, applies them, and answers when they are on disk.

Per transactional id T, the rules that all else rests on (docs/exactly-once.md):
- A version is decided at most once, and versions of T grow: `last_version`.
- Only the newest epoch may decide, and only while it is not closed. A new run gets a new epoch; an abort, a status
  question of a driver, an operator or the clock closes one. Closed stays closed.
- A decision is kept until every broker it names has said that its rows are on disk there, and groups that it has read
  for have gone on behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import Busy, ForgedEpoch, UnknownTransaction
from rmqspark.protocol.headers.txn import NO_EPOCH, NO_VERSION, TxnOutcome
from rmqspark.txn.coordinator.decisions import audited, check_decision
from rmqspark.txn.coordinator.events import (
    CLOCK,
    DRIVER,
    BrokerCompleted,
    Decided,
    EpochClosed,
    Finished,
    Forgotten,
    RunOpened,
    Transaction,
    VersionBegun,
)
from rmqspark.txn.coordinator.ledger_state import LedgerState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.protocol.bodies.txn import OutputRange, TxnDecision
    from rmqspark.txn.coordinator.events import Event

MAX_TRANSACTIONS: Final = 20_000
MAX_PENDING: Final = 256  # decisions of one id whose brokers have not all completed
MAX_PEERS: Final = 1_000  # brokers ever seen, each of which is asked before an id is adopted
_HEARD_EVERY_MS: Final = 10_000  # attempts of one version within so long are noted once
_LOST: Final = "Has the broker lost power, or its place to a slave? Start the query again: it runs the batch once more."


class Answer(NamedTuple):
    """What to answer once `events` are on disk. `decision` where one is recorded, with the `epoch` it was made in;
    `reason` in words with FENCED, where it is neither another run nor the driver's own wish."""

    outcome: TxnOutcome
    epoch: int = NO_EPOCH
    last_version: int = NO_VERSION
    decision: TxnDecision | None = None
    events: tuple[Event, ...] = ()
    reason: str | None = None


class Ledger(LedgerState):
    """Its state, and what is to be answered in it; `max_transactions` ids at most are prepared."""

    def __init__(self, *, max_transactions: int = MAX_TRANSACTIONS) -> None:
        super().__init__()
        self._max_transactions = max_transactions

    def prepare(
        self, transactional_id: str, run: str, version: int, query_id: str, uptime_ms: int, *, least_epoch: int = 1
    ) -> Answer:
        """Whether an attempt of `run` is to write `version`. A run that is new here gets `least_epoch`, or a later one.

        Raises Busy where too much is unfinished already.
        """
        known = self._transactions.get(transactional_id)
        txn = known or Transaction(transactional_id)
        if self.is_decided(txn, version):
            return Answer(_already_of_run(txn, run, version), last_version=txn.last_version)
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
        is_due = txn.heard_ms + _HEARD_EVERY_MS <= uptime_ms or not self.is_heard_of(transactional_id)
        if events or txn.open_version != version or is_due:
            events.append(VersionBegun(transactional_id, version, uptime_ms))
        return Answer(TxnOutcome.WRITE, epoch, txn.last_version, events=tuple(events))

    def decide(self, transactional_id: str, run: str, epoch: int, version: int, decision: TxnDecision) -> Answer | None:
        """None if the participants are to vote, and then `record`; else the answer.

        Raises UnknownTransaction, ForgedEpoch, TransactionError for a decision that contradicts itself.
        """
        txn = self.require(transactional_id)
        if self.is_decided(txn, version):
            return self._recorded(txn, version, _already_of_run(txn, run, version))
        self._refuse_forged(txn, epoch, run)
        if self.is_fenced(txn, epoch):
            return _fenced(txn, epoch)
        if version != txn.open_version:
            raise UnknownTransaction(f"Version {version} of {transactional_id!r} was never prepared here.", hint=_LOST)
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
        decided = Decided(transactional_id, epoch, version, decision, now_ms, by, output_bytes)
        return Answer(TxnOutcome.COMMITTED, epoch, version, decision, (decided,))

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
        may_be_begun = version <= txn.open_version or not self.is_heard_of(transactional_id)
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
        pending = txn.pending_of(version) if txn is not None else None
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
            if txn.is_open and txn.heard_ms + max_open_ms <= uptime_ms
        ]

    def disused(self, uptime_ms: int, expiration_ms: int) -> list[Forgotten]:
        """Forgets what nobody has used for very long, with nothing left to do."""
        return [
            Forgotten(txn.transactional_id)
            for txn in self
            if not txn.pending and not txn.is_open and txn.heard_ms + expiration_ms <= uptime_ms
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
            story = f"Epoch {epoch} of {txn.transactional_id!r} was never handed out to this run."
            raise ForgedEpoch(story, hint=_LOST)

    def _admit(self, txn: Transaction, *, is_new: bool) -> None:
        if is_new and len(self._transactions) >= self._max_transactions:
            raise Busy(
                f"This broker coordinates {self._max_transactions} transactional ids, and takes no more.",
                hint="Use ids again, or have unused ones forgotten earlier (transactional_id_expiration).",
            )
        if len(txn.pending) >= MAX_PENDING:
            brokers = ", ".join(txn.pending[0].brokers_left()) or "brokers that they have read from"
            raise Busy(f"{MAX_PENDING} versions of {txn.transactional_id!r} wait for {brokers}.")

    def _recorded(self, txn: Transaction, version: int, outcome: TxnOutcome) -> Answer:
        """What is known of a version that is not open any more; FENCED instead of COMMITTED where it is forgotten."""
        pending = txn.pending_of(version)
        if pending is not None:
            return Answer(outcome, pending.epoch, txn.last_version, pending.decision)
        if version == txn.last_version:
            return Answer(outcome, txn.last_epoch, txn.last_version, txn.last_decision)
        forgotten = TxnOutcome.FENCED if outcome is TxnOutcome.COMMITTED else outcome
        return Answer(forgotten, txn.epoch, txn.last_version)


def _already(txn: Transaction, version: int) -> TxnOutcome:
    """What a driver is told of a version that is decided."""
    return TxnOutcome.ALREADY_COMMITTED if version == txn.last_version else TxnOutcome.STALE


def _already_of_run(txn: Transaction, run: str, version: int) -> TxnOutcome:
    """The same; below the last version a run that another one has taken over from is told that."""
    outcome = _already(txn, version)
    is_cut_off = txn.runs.get(run, txn.epoch) < txn.epoch
    return TxnOutcome.FENCED if outcome is TxnOutcome.STALE and is_cut_off else outcome


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

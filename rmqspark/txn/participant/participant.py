"""What a broker knows as a participant of transactions: half batches held, votes given, versions completed or dropped.

Pure: it decides, and is told what has happened (`hold`, `apply`) once that is in the log. What everything rests on:

* A half batch that was voted for is dropped by the coordinator's word alone.
* A version that is completed stays completed: nothing of it is taken, and nothing appended, again.
* Version N of a transactional id is completed or dropped before a later one is completed.
* An older epoch than the newest one its coordinator spoke of is fenced, and so is a version that was dropped under
  its epoch. What senders say of epochs fences nobody: it may be forged.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from rmqspark.errors import Busy, Fenced, TransactionError, TwoCoordinators
from rmqspark.protocol.bodies.txn import HeldVersion
from rmqspark.txn.participant.half_batch import Batch
from rmqspark.txn.participant.held import Completion, HeldTransaction
from rmqspark.txn.participant.participant_events import (
    Completed,
    CompletionBegun,
    Dismissed,
    Dropped,
    Summary,
    VotedFor,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqspark.protocol.bodies.txn import HeldAttempt, OutputRange
    from rmqspark.txn.participant.half_batch import HalfBatch
    from rmqspark.txn.participant.participant_events import AttemptKey, Event
    from rmqspark.txn.ports import Remembered

_MOST_IDLE: Final = 20_000  # transactional ids remembered of which nothing is held: as many as a broker coordinates
_UNKNOWN: Final = HeldTransaction()  # stands for those of which nothing was ever heard


class Participant:
    """All transactional ids of one broker. It holds at most `max_halves` half batches of `max_bytes` in all."""

    def __init__(self, *, max_halves: int, max_bytes: int) -> None:
        self._max_halves = max_halves
        self._max_bytes = max_bytes
        self._transactions: dict[str, HeldTransaction] = {}  # the longest untouched first
        self.half_count = 0
        self.half_bytes = 0

    # --- half batches ------------------------------------------------------------------------------------------------

    def find(self, half: HalfBatch) -> HalfBatch | None:
        """The same half batch, if it is held. Raises TransactionError if another one is held under its name."""
        held = self._get(half.name.batch).halves.get(half.name)
        if held is not None and not held.is_same_as(half):
            raise TransactionError(
                f"Half batch {half.name.sequence} of attempt {half.name.attempt} was sent before, with other content."
            )
        return held

    def admit(self, half: HalfBatch) -> None:
        """Raises Fenced for one that comes too late or from a run that was cut off, TransactionError for one of a
        version whose coordinator has forgotten that it is committed, Busy for one too many."""
        batch = half.name.batch
        if self.is_fenced(batch):
            raise self._forgotten(batch) or too_late(batch)
        if self.half_count >= self._max_halves or self.half_bytes + half.body_bytes > self._max_bytes:
            raise Busy(
                f"This broker holds {self.half_count} half batches of {self.half_bytes} bytes, the most it may.",
                hint="Finish open transactions (rmq txn list), or raise max_half_batches or max_half_batch_bytes.",
            )

    def _forgotten(self, batch: Batch) -> TransactionError | None:
        """The error for a version that is completed and was to be written later, under a newer epoch."""
        if not self.is_completed(batch) or batch.epoch <= self._get(batch).completed_epoch:
            return None
        return TransactionError(
            f"{batch} was committed here before, under an older epoch, and its coordinator does not know that.",
            hint="Was that one's store set back, or is it another broker now? The batch goes through under a new "
            "transactionalId, and then has the rows twice that are here.",
        )

    def is_fenced(self, batch: Batch) -> bool:
        """Whether nothing of this batch is to be taken any more."""
        return self._get(batch).is_fenced(batch)

    def is_announced(self, batch: Batch) -> bool:
        """Whether its coordinator has spoken of its epoch here, or of a newer one."""
        return self._get(batch).is_announced(batch.epoch)

    def remembered(self, transactional_id: str) -> Remembered:
        """What coordinators have said of an id; nothing if none ever spoke of it."""
        return self._transactions.get(transactional_id, _UNKNOWN).remembered

    def announce(self, batch: Batch) -> None:
        """Its coordinator says that its epoch was handed out."""
        self._touch(batch.transactional_id).announce(batch.epoch)

    def hold(self, half: HalfBatch) -> None:
        """It is in the log."""
        self._count_out(self._touch(half.name.batch.transactional_id).hold(half))
        self.half_count += 1
        self.half_bytes += half.body_bytes

    def held(self) -> Iterator[HalfBatch]:
        """All that is held."""
        for transaction in self._transactions.values():
            yield from transaction.halves.values()

    def batches(self) -> list[Batch]:
        """Those of which half batches are held, each once, in the order in which they came."""
        return list(dict.fromkeys(half.name.batch for half in self.held()))

    def holds(self, batch: Batch) -> bool:
        """Whether a half batch of it is held."""
        return any(name.batch == batch for name in self._get(batch).halves)

    def held_versions(self, transactional_id: str | None = None) -> list[HeldVersion]:
        """How many rows and bytes are held of which versions: of one transactional id, or of all."""
        totals: dict[Batch, HeldVersion] = {}
        for half in self.held() if transactional_id is None else self._halves_of_id(transactional_id):
            batch = half.name.batch
            total = totals.setdefault(batch, HeldVersion(*batch))
            total.rows += half.rows
            total.bytes += half.body_bytes
        return list(totals.values())

    def forget_before(self, physical_offset: int) -> list[HalfBatch]:
        """Lets go of the half batches that are in the log no more, and returns them."""
        gone: list[HalfBatch] = []
        for transaction in self._transactions.values():
            gone += transaction.forget_before(physical_offset)
        self._count_out(gone)
        return gone

    # --- votes -------------------------------------------------------------------------------------------------------

    def missing(self, batch: Batch, attempts: Sequence[HeldAttempt]) -> str:
        """What is not held of these attempts, in words; empty if all is."""
        return self._get(batch).missing(batch, attempts)

    def has_voted(self, batch: Batch, halves: int | None = None) -> bool:
        """Whether this batch was voted for, and for so many half batches."""
        voted = self._get(batch).voted.get(batch)
        return voted is not None and halves in (None, voted)

    # --- decisions ---------------------------------------------------------------------------------------------------

    def is_completed(self, batch: Batch) -> bool:
        """Whether this version was completed here before."""
        return batch.version <= self._get(batch).completed

    def check_decision(self, batch: Batch) -> None:
        """Raises TwoCoordinators where this version was completed under another epoch."""
        transaction = self._get(batch)
        if batch.version == transaction.completed and batch.epoch != transaction.completed_epoch:
            raise TwoCoordinators(f"{batch} was committed before, under epoch {transaction.completed_epoch}.")

    def outputs(self, batch: Batch) -> list[OutputRange]:
        """Where a completed version went; empty if it is not the last one."""
        transaction = self._get(batch)
        return transaction.outputs if batch.version == transaction.completed else []

    def comes_first(self, batch: Batch) -> Batch | None:
        """An older version that was voted for, and must be completed or dropped before this one is completed."""
        return self._get(batch).comes_first(batch)

    def completion(self, batch: Batch) -> Completion | None:
        """The completion of this batch, if it has begun."""
        return self._get(batch).completions.get(batch)

    def completions(self) -> list[Completion]:
        """All that are under way, the oldest first."""
        begun = (each for transaction in self._transactions.values() for each in transaction.completions.values())
        return sorted(begun, key=attrgetter("log_offset"))

    def halves_of(self, batch: Batch, attempts: Iterable[AttemptKey]) -> list[HalfBatch]:
        """The half batches of these attempts, in the order of partitions and sequences.

        Raises TransactionError where an attempt has none, or lacks some.
        """
        return self._get(batch).halves_of(batch, attempts)

    def attempts_of(self, batch: Batch) -> list[AttemptKey]:
        """Those of which half batches are held, in the order of partitions."""
        return self._get(batch).attempts_of(batch)

    def sent_by(self, batch: Batch, attempts: Iterable[AttemptKey]) -> list[HalfBatch]:
        """The half batches held of these attempts, whether or not that is all of them."""
        return self._get(batch).sent_by(batch, attempts)

    def concerns(self, batch: Batch) -> bool:
        """Whether this broker ever heard of the transactional id."""
        return batch.transactional_id in self._transactions

    def would_drop(self, batch: Batch) -> bool:
        """Whether there is anything to be done when the coordinator has this batch dropped."""
        return self.concerns(batch) and self._get(batch).would_drop(batch)

    # --- what has happened -------------------------------------------------------------------------------------------

    def apply(self, event: Event, log_offset: int) -> None:
        """Takes over an event that lies at `log_offset` of the log."""
        if isinstance(event, Summary):
            self._transactions = {
                each.transactional_id: HeldTransaction.from_standing(each) for each in event.standings
            }
            self.half_count = self.half_bytes = 0
            return
        transaction = self._touch(event.transactional_id)
        batch = Batch(event.transactional_id, event.epoch, event.version)
        match event:
            case VotedFor(halves=halves):
                transaction.vote(batch, halves)
            case CompletionBegun(attempts=attempts):
                transaction.begin(Completion(batch, attempts, log_offset))
            case Completed(outputs=outputs):
                self._count_out(transaction.complete(batch, outputs, log_offset))
            case Dropped():
                self._count_out(transaction.drop(batch, log_offset))
            case Dismissed():
                self._count_out(transaction.dismiss(batch, log_offset))

    @property
    def idle_count(self) -> int:
        """Of how many transactional ids nothing is held, as far as they are to be remembered."""
        return min(_MOST_IDLE, sum(transaction.is_idle for transaction in self._transactions.values()))

    def summary(self, next_half: int, *, idle: int, told: int) -> Summary:
        """Everything, for whoever starts after us; but of ids that hold nothing only so many, `idle`, and of only so
        many in all, `told`, where messages went: nothing rests on that. Those that were touched last."""
        forgotten = set(self._idle_but(idle))
        kept = [each for each in self._transactions.items() if each[0] not in forgotten]
        standings = [
            transaction.standing(transactional_id, with_outputs=place >= len(kept) - told)
            for place, (transactional_id, transaction) in enumerate(kept)
        ]
        return Summary(standings, sorted(half.queue_offset for half in self.held()), next_half)

    def forget_idle(self, most: int) -> None:
        """Remembers only so many of the ids that hold nothing: those that were touched last."""
        for transactional_id in self._idle_but(most):
            del self._transactions[transactional_id]

    def _idle_but(self, most: int) -> list[str]:
        idle = [transactional_id for transactional_id, it in self._transactions.items() if it.is_idle]
        return idle[: max(0, len(idle) - most)]

    @property
    def id_count(self) -> int:
        """How many transactional ids are known."""
        return len(self._transactions)

    def needed_offset(self) -> int | None:
        """Physical offset from which on the log has what was voted for, or begun; None if nothing was."""
        offsets = (each.needed_offset() for each in self._transactions.values() if each.voted or each.completions)
        return min((offset for offset in offsets if offset is not None), default=None)

    def _get(self, batch: Batch) -> HeldTransaction:
        return self._transactions.get(batch.transactional_id, _UNKNOWN)

    def _halves_of_id(self, transactional_id: str) -> Iterable[HalfBatch]:
        return self._transactions.get(transactional_id, _UNKNOWN).halves.values()

    def _touch(self, transactional_id: str) -> HeldTransaction:
        transaction = self._transactions.pop(transactional_id, None) or HeldTransaction()
        self._transactions[transactional_id] = transaction
        return transaction

    def _count_out(self, gone: Sequence[HalfBatch]) -> None:
        self.half_count -= len(gone)
        self.half_bytes -= sum(half.body_bytes for half in gone)


def too_late(batch: Batch) -> Fenced:
    """The error for what is not taken any more."""
    return Fenced(f"Nothing more is taken of {batch}.", hint="Another run has taken over, or it was decided.")

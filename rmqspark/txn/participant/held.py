"""What a participant knows of one transactional id: the half batches it holds, and what the coordinator has said."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, Self

from rmqspark.errors import TransactionError
from rmqspark.txn.participant.half_batch import Batch
from rmqspark.txn.participant.participant_events import BegunCompletion, Standing, Vote
from rmqspark.txn.ports import Remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rmqspark.protocol.bodies.txn import HeldAttempt, OutputRange
    from rmqspark.txn.participant.half_batch import HalfBatch, HalfName
    from rmqspark.txn.participant.participant_events import AttemptKey


class AppendedRows(NamedTuple):
    """How many of a half batch's messages are in their queue, from which offset on."""

    queue_offset: int
    rows: int


class Completion:
    """A completion under way. `appended` says, by physical offset of the half batch, what is in its queue."""

    def __init__(self, batch: Batch, attempts: Sequence[AttemptKey], log_offset: int) -> None:
        self.batch = batch
        self.attempts = list(attempts)
        self.log_offset = log_offset
        self.appended: dict[int, AppendedRows] = {}

    def rows_of(self, half: HalfBatch) -> int:
        """How many of its messages are in their queue."""
        appended = self.appended.get(half.physical_offset)
        return appended.rows if appended is not None else 0


class HeldTransaction:
    """Changed by `hold`, `vote`, `begin`, `complete`, `drop` and `dismiss`, each when that is in the log. The last
    three are told where: they concern what lies before it. `announce` is in no log: it can be asked again."""

    def __init__(self) -> None:
        self.halves: dict[HalfName, HalfBatch] = {}
        self.voted: dict[Batch, int] = {}  # and for how many half batches
        self.completions: dict[Batch, Completion] = {}
        self.completed = -1  # all versions up to this one are
        self.completed_epoch = 0
        self.outputs: list[OutputRange] = []  # of the version completed last
        self._epoch = 0  # the newest one that the coordinator spoke of
        self._dropped = -1  # under that epoch, all versions up to this one are

    @property
    def remembered(self) -> Remembered:
        """What a coordinator that knows less is told. A completion that has begun is finished, over any crash."""
        return Remembered(self._epoch, max([self.completed, *(batch.version for batch in self.completions)]))

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is held or under way."""
        return not (self.halves or self.voted or self.completions)

    def is_fenced(self, batch: Batch) -> bool:
        """Whether nothing of this batch is to be taken any more."""
        was_dropped = batch.epoch == self._epoch and batch.version <= self._dropped
        return was_dropped or batch.epoch < self._epoch or batch.version <= self.completed or batch in self.voted

    def is_announced(self, epoch: int) -> bool:
        """Whether the coordinator has spoken of this epoch, or of a newer one."""
        return epoch <= self._epoch

    def missing(self, batch: Batch, attempts: Sequence[HeldAttempt]) -> str:
        """What is not held of these attempts, in words; empty if all is."""
        held = self._by_attempt(batch)
        for wanted in attempts:
            if story := _difference(wanted, held.get((wanted.partition, wanted.attempt), [])):
                return f"Of attempt {wanted.attempt} of partition {wanted.partition}, {story}"
        return ""

    def comes_first(self, batch: Batch) -> Batch | None:
        """The oldest version below this one that was voted for, and is neither completed nor dropped."""
        older = (other for other in self.voted if other.version < batch.version)
        return min(older, key=attrgetter("version"), default=None)

    def halves_of(self, batch: Batch, attempts: Iterable[AttemptKey]) -> list[HalfBatch]:
        """The half batches of these attempts, in the order of partitions and sequences.

        Raises TransactionError where an attempt has none, or lacks some.
        """
        held = self._by_attempt(batch)
        chosen: list[HalfBatch] = []
        for key in sorted(attempts):
            halves = held.get(key, [])
            if not halves or not _is_whole(halves):
                raise _lost(batch, f"what attempt {key[1]} of partition {key[0]} has sent")
            chosen += halves
        if len(chosen) != self.voted.get(batch, len(chosen)):
            raise _lost(batch, f"{self.voted[batch]} half batches, but {len(chosen)}")
        return chosen

    def attempts_of(self, batch: Batch) -> list[AttemptKey]:
        """Those of which half batches are held, in the order of partitions."""
        return [*self._by_attempt(batch)]

    def sent_by(self, batch: Batch, attempts: Iterable[AttemptKey]) -> list[HalfBatch]:
        """The half batches held of these attempts, whether or not that is all of them."""
        wanted = set(attempts)
        return [half for half in self.halves.values() if half.name.batch == batch and _attempt_of(half) in wanted]

    def needed_offset(self) -> int | None:
        """Physical offset from which on the log has what was voted for, or begun; None if nothing of it is held."""
        needed = self.voted.keys() | self.completions.keys()
        return min((half.physical_offset for half in self.halves.values() if half.name.batch in needed), default=None)

    # --- what has happened -------------------------------------------------------------------------------------------

    def hold(self, half: HalfBatch) -> list[HalfBatch]:
        """Returns what it takes the place of: one that was sent again after it was dismissed is in the log twice, and
        a start sees both before it knows of that."""
        replaced = self.halves.pop(half.name, None)
        self.halves[half.name] = half
        return [] if replaced is None else [replaced]

    def announce(self, epoch: int) -> None:
        """The coordinator has handed it out. All that are older are fenced."""
        self._raise_epoch(epoch)

    def vote(self, batch: Batch, halves: int) -> None:
        """Nothing follows from its epoch: while the coordinator cannot be asked about it, it may be forged."""
        self.voted[batch] = halves

    def begin(self, completion: Completion) -> None:
        self.completions[completion.batch] = completion

    def complete(self, batch: Batch, outputs: list[OutputRange], log_offset: int) -> list[HalfBatch]:
        """Lets go of everything up to this version, and returns it."""
        self._raise_epoch(batch.epoch)
        self.completed, self.completed_epoch, self.outputs = batch.version, batch.epoch, outputs
        self.voted = {other: count for other, count in self.voted.items() if other.version > batch.version}
        self.completions.pop(batch, None)
        return self._let_go(lambda other: other.version <= batch.version, log_offset)

    def drop(self, batch: Batch, log_offset: int) -> list[HalfBatch]:
        """Lets go of what `falls_with` this batch, and returns it. Nothing more is taken of what it concerns."""
        gone = self._let_go(lambda other: self.falls_with(other, batch), log_offset)
        self.voted.pop(batch, None)
        self._raise_epoch(batch.epoch)
        if batch.epoch == self._epoch:
            self._dropped = max(self._dropped, batch.version)
        return gone

    def dismiss(self, batch: Batch, log_offset: int) -> list[HalfBatch]:
        """Lets go of this batch alone, and returns it. Nothing follows from its epoch, which may be forged."""
        self.voted.pop(batch, None)
        return self._let_go(lambda other: other == batch, log_offset)

    def falls_with(self, other: Batch, dropped: Batch) -> bool:
        """Whether a batch goes when the coordinator has another one dropped: all up to its version and epoch do, but
        what was voted for only when it is spoken of itself."""
        is_up_to = other.version <= dropped.version and other.epoch <= dropped.epoch
        return other == dropped if other in self.voted else is_up_to

    def would_drop(self, batch: Batch) -> bool:
        """Whether `drop` would change anything."""
        if batch.epoch > self._epoch or (batch.epoch == self._epoch and batch.version > self._dropped):
            return True
        return any(self.falls_with(name.batch, batch) for name in self.halves)

    def forget_before(self, physical_offset: int) -> list[HalfBatch]:
        """Forgets the half batches that lie before this, and returns them."""
        return self._let_go(lambda _: True, physical_offset)

    def _let_go(self, goes: Callable[[Batch], bool], log_offset: int) -> list[HalfBatch]:
        gone = [half for half in self.halves.values() if half.physical_offset < log_offset and goes(half.name.batch)]
        for half in gone:
            del self.halves[half.name]
        return gone

    def _raise_epoch(self, epoch: int) -> None:
        if epoch > self._epoch:
            self._epoch, self._dropped = epoch, -1

    # --- for a summary -----------------------------------------------------------------------------------------------

    def standing(self, transactional_id: str, *, with_outputs: bool = True) -> Standing:
        """Everything but the half batches, and where messages went if that is not wanted."""
        return Standing(
            transactional_id,
            self._epoch,
            self.completed,
            self.completed_epoch,
            self._dropped,
            self.outputs if with_outputs else [],
            [Vote(batch.epoch, batch.version, halves) for batch, halves in self.voted.items()],
            [
                BegunCompletion(each.batch.epoch, each.batch.version, each.attempts, each.log_offset)
                for each in self.completions.values()
            ],
        )

    @classmethod
    def from_standing(cls, standing: Standing) -> Self:
        self = cls()
        self._epoch, self._dropped = standing.epoch, standing.dropped
        self.completed, self.completed_epoch = standing.completed, standing.completed_epoch
        self.outputs = standing.outputs
        for vote in standing.voted:
            self.voted[Batch(standing.transactional_id, vote.epoch, vote.version)] = vote.halves
        for begun in standing.begun:
            batch = Batch(standing.transactional_id, begun.epoch, begun.version)
            self.begin(Completion(batch, begun.attempts, begun.log_offset))
        return self

    def _by_attempt(self, batch: Batch) -> dict[AttemptKey, list[HalfBatch]]:
        """The half batches of a batch by partition and attempt, each in the order of sequences."""
        chosen = sorted((half for half in self.halves.values() if half.name.batch == batch), key=_place)
        return {key: list(halves) for key, halves in groupby(chosen, key=_attempt_of)}


def _attempt_of(half: HalfBatch) -> AttemptKey:
    return half.name.partition, half.name.attempt


def _place(half: HalfBatch) -> tuple[int, str, int]:
    return half.name.partition, half.name.attempt, half.name.sequence


def _is_whole(halves: Sequence[HalfBatch]) -> bool:
    return all(half.name.sequence == place for place, half in enumerate(halves))


def _difference(wanted: HeldAttempt, halves: Sequence[HalfBatch]) -> str:
    figures = (
        ("half batches", wanted.halves, len(halves)),
        ("rows", wanted.rows, sum(half.rows for half in halves)),
        ("bytes", wanted.bytes, sum(half.body_bytes for half in halves)),
        ("as the sum of checksums", wanted.digest, sum(half.body_crc32 for half in halves)),
    )
    for what, expected, found in figures:
        if expected != found:
            return f"{found} {what} are held instead of {expected}."
    return "" if _is_whole(halves) else "half batches are missing in between."


def _lost(batch: Batch, what: str) -> TransactionError:
    return TransactionError(
        f"Of {batch} this broker does not hold {what}.",
        hint="Was its store damaged, replaced, or set back? Where that is lost for good, go on with a new "
        "transactionalId.",
    )

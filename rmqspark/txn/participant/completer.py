"""Committed half batches into their topics, over any crash: each message once.

A completion is an event that it has begun, the messages, and an event that it has ended. Every message names its half
batch (RocketMQ's preparedTransactionOffset), so whoever finds a completion begun and not ended can tell which messages
are there, and appends the others and no other. At a start that happens before anybody reads (`restore`), so readers
see all messages of a half batch, or none.

A half batch whose topic was deleted since it came is passed over: its messages have gone with the topic, as they would
if they had been there before, and a topic made anew under the name has nothing to do with them.

While messages are appended the store publishes nothing, so a transaction becomes readable at once. A large one does so
in several steps, each of whole half batches: other readers wait no longer than one step takes.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import structlog

from rmqspark.errors import NotWritable, RmqError, StoreError, TransactionError
from rmqspark.fault_points import fault_point
from rmqspark.txn.participant.completion_steps import appended_together, published_together
from rmqspark.txn.participant.journal import Journal
from rmqspark.txn.participant.output_ranges import deleted_ranges, most_bytes, output_ranges
from rmqspark.txn.participant.participant_events import Completed, CompletionBegun, Dismissed, Dropped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from rmqspark.txn.participant.half_batch import Batch, HalfBatch
    from rmqspark.txn.participant.half_store import HalfStore
    from rmqspark.txn.participant.held import Completion
    from rmqspark.txn.participant.participant import Participant
    from rmqspark.txn.participant.participant_events import AttemptKey
    from rmqspark.txn.participant.preparation import Preparation

log = structlog.get_logger("rmqspark.txn")


def _nothing() -> None: ...


class TornBatch(StoreError):
    """Readers would see a part of a half batch, and the rest cannot be written."""


class Completer:
    """Completes and drops versions, which the `journal` remembers. `check_target` raises what forbids sending to a
    queue of a topic; `broker_name` stands in the output ranges; `on_appended` counts rows and bytes of half batches."""

    def __init__(
        self,
        participant: Participant,
        halves: HalfStore,
        *,
        check_target: Callable[[str, int], None],
        broker_name: str,
        on_appended: Callable[[int, int], None] = lambda _rows, _bytes: None,
    ) -> None:
        self._participant = participant
        self._halves = halves
        self._check_target = check_target
        self._broker_name = broker_name
        self._on_appended = on_appended
        self.journal = Journal(participant, halves)

    def most_output_bytes(self, batch: Batch, attempts: Sequence[AttemptKey]) -> int:
        """How long the account of where these attempts' messages went will be in an event, at most."""
        return most_bytes(_queues(self._participant.sent_by(batch, attempts)), self._broker_name)

    def barred(self, batch: Batch, attempts: Sequence[AttemptKey]) -> str:
        """What stands against appending what these attempts have sent for its queues; empty if nothing does."""
        halves = self._participant.sent_by(batch, attempts)
        for half in halves:
            if self._halves.was_deleted(half):
                return f"Topic {half.topic!r} was deleted after rows for it had been sent."
        try:
            self._check_targets(halves)
        except RmqError as error:
            return error.message
        return ""

    def _check_targets(self, halves: Iterable[HalfBatch]) -> None:
        for queue in sorted(_queues(halves)):
            self._check_target(*queue)

    def _undeleted(self, halves: Iterable[HalfBatch]) -> list[HalfBatch]:
        return [half for half in halves if not self._halves.was_deleted(half)]

    def begin(self, batch: Batch, attempts: Sequence[AttemptKey]) -> Completion:
        """The completion of a version, begun now if it was not before.

        Raises TransactionError where something is not held, what stands against sending to one of the topics (none
        that was deleted), and NotWritable where there is no room, for what is not appended yet.
        """
        completion = self._participant.completion(batch)
        if completion is not None:
            if sorted(completion.attempts) != sorted(attempts):
                raise TransactionError(f"{batch} was committed before, with other attempts.")
            self._check_ways(self._missing(completion))
            return completion
        self._check_ways(self._undeleted(self._participant.halves_of(batch, attempts)))
        self.journal.record(CompletionBegun(batch.transactional_id, batch.epoch, batch.version, list(attempts)))
        completion = self._participant.completion(batch)
        assert completion is not None
        return completion

    def _check_ways(self, halves: Sequence[HalfBatch]) -> None:
        self._check_targets(halves)
        self._halves.check_room(sum(half.messages_bytes for half in halves))

    def steps(self, completion: Completion) -> Generator[None]:
        """Appends what is missing, some half batches a step (`appended_together`): the messages of the next are made
        while they are written. Raises NotWritable, and what stands against sending to a topic by now; may be tried
        again then. A topic that is deleted between two steps takes its messages along."""
        groups = [list(appended_together(group)) for group in published_together(self._missing(completion))]
        preparations = (self._prepare(completion, halves) for halves in chain.from_iterable(groups))
        ready = next(preparations, None)
        for group in groups:
            with self._halves.publishing_together():
                for _ in group:
                    assert ready is not None
                    coming = next(preparations, None)
                    self._append_new(completion, ready, meanwhile=coming.run if coming is not None else _nothing)
                    ready = coming
                    yield

    def end(self, completion: Completion) -> None:
        """Notes that all is appended but what went with topics, and drops everything else up to this version."""
        fault_point("mid_complete")
        batch, halves = completion.batch, self._participant.halves_of(completion.batch, completion.attempts)
        gone = [half for half in halves if self._halves.was_deleted(half)]
        appended = [
            (half.topic, half.queue_id, completion.appended[half.physical_offset]) for half in self._undeleted(halves)
        ]
        outputs = output_ranges(appended, self._broker_name) + deleted_ranges(gone, self._broker_name)
        self.journal.record(Completed(batch.transactional_id, batch.epoch, batch.version, outputs))
        _tell_deleted(batch, gone)
        self.journal.summarize()

    def drop(self, batch: Batch) -> None:
        """Drops a version and what falls with it. Raises TransactionError if it is committed."""
        self._refuse_if_begun(batch)
        if self._participant.would_drop(batch):
            self.journal.record(Dropped(batch.transactional_id, batch.epoch, batch.version))
            self.journal.summarize()

    def dismiss(self, batch: Batch) -> None:
        """Drops a version of one epoch and nothing else. Raises TransactionError if it is committed."""
        self._refuse_if_begun(batch)
        self.journal.record(Dismissed(batch.transactional_id, batch.epoch, batch.version))
        self.journal.summarize()

    def _refuse_if_begun(self, batch: Batch) -> None:
        if self._participant.completion(batch) is not None:
            raise TransactionError(f"{batch} is committed, it cannot be dropped.")

    # --- at a start --------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Brings back what the log says, and finishes what was begun. Once, before anybody reads or writes.

        Raises TornBatch where readers would see a part of a half batch, since there is no room for the rest.
        """
        self.journal.replay()
        mended = [completion for completion in self._participant.completions() if _tried(self._mend, completion)]
        for completion in mended:
            _tried(self._resume, completion)
        self.journal.summarize(at_once=True)

    def _mend(self, completion: Completion) -> None:
        """Finds out what is there, and completes the half batch in whose messages the last run ended."""
        halves = self._participant.halves_of(completion.batch, completion.attempts)
        present = {half.physical_offset for half in halves}
        completion.appended = self._halves.rows_present(completion.log_offset, present)
        for half in self._undeleted(halves):
            if 0 < completion.rows_of(half) < half.rows:
                self._append_rest(completion, half)

    def _append_rest(self, completion: Completion, half: HalfBatch) -> None:
        try:
            self._append(completion, self._prepare(completion, [half]))
        except NotWritable as error:
            raise TornBatch(
                f"{half.topic}/{half.queue_id} ends in the middle of a batch, and the rest cannot be written: "
                f"{error.message}",
                hint="Free some space on the disk of the store, then start the broker again.",
            ) from error

    def _resume(self, completion: Completion) -> None:
        self.begin(completion.batch, completion.attempts)
        for _ in self.steps(completion):
            pass
        self.end(completion)

    # --- steps -------------------------------------------------------------------------------------------------------

    def _missing(self, completion: Completion) -> list[HalfBatch]:
        halves = self._participant.halves_of(completion.batch, completion.attempts)
        return [half for half in self._undeleted(halves) if completion.rows_of(half) < half.rows]

    def _prepare(self, completion: Completion, halves: Sequence[HalfBatch]) -> Preparation:
        """Several at once are new, a single one may be there in part."""
        return self._halves.prepare(halves, completion.rows_of(halves[0]) if len(halves) == 1 else 0)

    def _append_new(
        self, completion: Completion, preparation: Preparation, meanwhile: Callable[[], None] = _nothing
    ) -> None:
        if self._halves.was_deleted(preparation.halves[0]):  # between two steps, and all are for one topic
            return
        self._check_targets(preparation.halves)
        self._append(completion, preparation, meanwhile)

    def _append(
        self, completion: Completion, preparation: Preparation, meanwhile: Callable[[], None] = _nothing
    ) -> None:
        for half, new in zip(preparation.halves, self._halves.append(preparation, meanwhile), strict=True):
            self._on_appended(new.rows, half.messages_bytes)
            known = completion.appended.get(half.physical_offset)
            appended = new if known is None else known._replace(rows=known.rows + new.rows)
            completion.appended[half.physical_offset] = appended


def _tried(do: Callable[[Completion], None], completion: Completion) -> bool:
    """Does it at a start; returns whether that went through. If not, what is there of the completion is whole, or
    cannot be mended, and the rest follows if what stands against it goes. Raises TornBatch."""
    try:
        do(completion)
    except TornBatch:
        raise
    except RmqError as error:
        log.error("a committed batch cannot be completed yet", batch=str(completion.batch), reason=str(error))
        return False
    return True


def _queues(halves: Iterable[HalfBatch]) -> set[tuple[str, int]]:
    """The queues (topic, queue id) that these half batches are for."""
    return {(half.topic, half.queue_id) for half in halves}


def _tell_deleted(batch: Batch, halves: Sequence[HalfBatch]) -> None:
    """What a decided version has lost, topic by topic."""
    for topic in sorted({half.topic for half in halves}):
        rows = sum(half.rows for half in halves if half.topic == topic)
        log.warning("rows of a committed batch went with their topic", batch=str(batch), topic=topic, rows=rows)

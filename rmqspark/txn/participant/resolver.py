"""A broker as a participant: takes half batches, votes, completes and drops, and asks about what nobody speaks of.

The thin, waiting side. What may be done says `participant.py`, how it is done `completer.py`.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from rmqspark.errors import Busy, RmqError, TransactionError
from rmqspark.protocol.bodies.txn import AttemptName
from rmqspark.txn.participant.check_backs import CheckBacks
from rmqspark.txn.participant.half_batch import Batch
from rmqspark.txn.participant.hearsay import Hearsay, Verdict
from rmqspark.txn.participant.participant_events import VotedFor, keys_of
from rmqspark.txn.participant.retention import Retention
from rmqspark.txn.participant.write_back import WriteBack
from rmqspark.txn.ports import Complete, VoteAnswer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.txn import HeldVersion, OutputRange
    from rmqspark.txn.participant.completer import Completer
    from rmqspark.txn.participant.half_batch import HalfBatch
    from rmqspark.txn.participant.half_store import HalfStore
    from rmqspark.txn.participant.participant import Participant
    from rmqspark.txn.participant.participant_events import AttemptKey
    from rmqspark.txn.ports import Remembered, Vote

_ASKED_AT_ONCE: Final = 256  # with whom one is asked whose coordinator hangs waits for that: 3 s

log = structlog.get_logger("rmqspark.txn")


class Disk(Protocol):
    """The way to the disk, as far as a participant needs it."""

    async def flushed(self, end_offset: int) -> None:
        """Returns when the log is on disk up to there. Raises FlushTimeout, NotWritable."""

    def hurry(self) -> None:
        """Has what is written so far go to the disk soon."""


@dataclass(frozen=True)
class ResolverConfig:
    """What a resolver can be told."""

    timeout_ms: int  # see `check_backs.py`
    check_interval_ms: int
    reads_unsynced: bool  # whether messages are readable before they are on disk (ASYNC_FLUSH)
    max_output_bytes: int  # how long the account of where a version went may be


class Resolver:
    """Does what a coordinator wants of this broker, and asks it where it says nothing. All methods belong to the event
    loop's thread. `ask` asks the coordinator of a batch, wherever that is; what comes over the network is for `hearsay`
    first."""

    def __init__(
        self,
        config: ResolverConfig,
        participant: Participant,
        halves: HalfStore,
        completer: Completer,
        disk: Disk,
        clock: Clock,
        *,
        ask: Callable[[Batch], Awaitable[Verdict]],
    ) -> None:
        self._config = config
        self._participant = participant
        self._halves = halves
        self._completer = completer
        self._disk = disk
        self._clock = clock
        self._ask = ask
        self.hearsay: Final = Hearsay(participant, ask)
        self._check_backs = CheckBacks(timeout_ms=config.timeout_ms, interval_ms=config.check_interval_ms)
        self._one_at_a_time = asyncio.Lock()
        self._write_back = WriteBack()
        self._retention = Retention(participant, halves, completer.journal, clock)

    def recover(self) -> None:
        """Brings back what the log says and finishes what was begun; to be called once, before anybody reads.

        Raises TornBatch where readers would see a part of a half batch.
        """
        self._completer.restore()
        for batch in self._participant.batches():
            self._check_backs.hurry(batch, self._clock.monotonic_ms())

    # --- half batches ------------------------------------------------------------------------------------------------

    def known(self, half: HalfBatch) -> HalfBatch | None:
        """The same half batch, if it is held already. Raises Fenced, Busy, TransactionError for one not to be taken."""
        held = self._participant.find(half)
        if held is None:
            self._participant.admit(half)
        return held

    def take(self, half: HalfBatch, body: memoryview) -> HalfBatch:
        """Stores a half batch that is new and whose body has been checked. Raises NotWritable."""
        held = self._halves.put(half, body)
        self._participant.hold(held)
        self._check_backs.expect(half.name.batch, self._clock.monotonic_ms())
        if self._write_back.is_due(half.body_bytes):
            self._disk.hurry()
        return held

    def remembered(self, transactional_id: str) -> Remembered:
        """What coordinators have said of an id; nothing if none ever spoke of it."""
        return self._participant.remembered(transactional_id)

    def held_versions(self, transactional_id: str | None) -> list[HeldVersion]:
        """What is held undecided: of one transactional id, or of all."""
        return self._participant.held_versions(transactional_id)

    # --- ParticipantPort ---------------------------------------------------------------------------------------------

    async def vote(self, request: Vote) -> VoteAnswer:
        """Yes when all that is asked for is held, and on disk with everything stored before it."""
        batch = Batch.of(request)
        if refusal := self.refusal(request):
            return VoteAnswer(yes=False, remark=refusal)
        output_bytes = self._completer.most_output_bytes(batch, keys_of(request.attempts))
        if output_bytes > self._config.max_output_bytes:
            return VoteAnswer(yes=False, remark=_too_many_queues(output_bytes, self._config.max_output_bytes))
        halves = sum(attempt.halves for attempt in request.attempts)
        if not self._participant.has_voted(batch, halves):
            self._completer.journal.record(VotedFor(*batch, halves))
        await self._disk.flushed(self._halves.end_offset)
        self._write_back.begin_anew()
        refusal = self.refusal(request)  # it may have been dropped meanwhile, or have expired
        return VoteAnswer(not refusal, refusal, output_bytes)

    async def complete(self, request: Complete) -> list[OutputRange]:
        """Completes or drops a version; returns where its messages are, as soon as they are readable.

        Raises Busy while an older version that was voted for is neither completed nor dropped, TransactionError where
        this contradicts what was done or something is not held (any more), and what stands against the appending.
        """
        batch = Batch.of(request)
        if request.commit:
            outputs = await self._commit(batch, keys_of(request.attempts))
        else:
            outputs = await self._drop(batch)
        if request.durable or not self._config.reads_unsynced:
            await self._disk.flushed(self._halves.end_offset)
        return outputs

    def refusal(self, request: Vote) -> str:
        """Why the answer is no, as things are now; empty for yes."""
        self._retention.forget_expired()
        batch = Batch.of(request)
        if not request.attempts or any(each.halves < 1 for each in request.attempts):
            return "It names no attempt, or one that has sent nothing."
        if not self._participant.is_completed(batch._replace(version=request.completed)):
            return f"Version {request.completed} is not complete here."
        missing = self._participant.missing(batch, request.attempts)
        return missing or self._completer.barred(batch, keys_of(request.attempts))

    def _check_order(self, batch: Batch) -> None:
        first = self._participant.comes_first(batch)
        if first is not None:
            self._check_backs.hurry(first, self._clock.monotonic_ms())
            raise Busy(f"{first} was voted for, and comes first.")

    async def _commit(self, batch: Batch, attempts: Sequence[AttemptKey]) -> list[OutputRange]:
        self._participant.check_decision(batch)
        if not self._participant.is_completed(batch):  # else there is no need to wait for others
            async with self._one_at_a_time:
                if not self._participant.is_completed(batch) and (attempts or self._participant.concerns(batch)):
                    self._check_order(batch)
                    await self._append(batch, attempts)
        return self._participant.outputs(batch)

    async def _append(self, batch: Batch, attempts: Sequence[AttemptKey]) -> None:
        completion = self._completer.begin(batch, attempts)
        with closing(self._completer.steps(completion)) as steps:
            for _ in steps:
                await asyncio.sleep(0)
        self._completer.end(completion)

    async def _drop(self, batch: Batch) -> list[OutputRange]:
        async with self._one_at_a_time:
            self._completer.drop(batch)
        return []

    # --- what goes on beside the requests ----------------------------------------------------------------------------

    async def check_back(self) -> None:
        """One round: asks the coordinators of what is due, and completes or drops by the answers."""
        self._tidy()
        now_ms = self._clock.monotonic_ms()
        due = self._check_backs.due(now_ms)
        for first in range(0, len(due), _ASKED_AT_ONCE):
            await asyncio.gather(*map(self._check_one, due[first : first + _ASKED_AT_ONCE]))

    async def _check_one(self, batch: Batch) -> None:
        if not self._participant.holds(batch):
            self._check_backs.forget(batch)
            return
        had_voted = self._participant.has_voted(batch)
        try:
            verdict = await self._verdict(batch)
            if verdict.is_open:
                return
            if verdict.attempts:
                await self.complete(Complete(*batch, commit=True, attempts=verdict.attempts))
            elif had_voted and verdict.was_here:
                await self._complete_again(batch)
            elif had_voted and verdict.holders:
                raise _of_another_name(batch, verdict.holders)
            else:
                await self._dismiss(batch, had_voted)
            log.info("settled what its driver left", batch=str(batch), committed=bool(verdict.attempts))
        except (RmqError, OSError) as error:
            log.warning("a batch stays in doubt", batch=str(batch), reason=str(error))

    async def _complete_again(self, batch: Batch) -> None:
        """What was complete on a disk that this broker no longer has: its store was set back, or a slave's before."""
        log.warning("a version is completed that was complete: the log has lost its end", batch=str(batch))
        attempts = self._participant.attempts_of(batch)  # as many as were voted for, or it stays in doubt
        await self.complete(Complete(*batch, commit=True, attempts=[AttemptName(*each) for each in attempts]))

    async def _verdict(self, batch: Batch) -> Verdict:
        """Nobody needs to be asked about what was begun."""
        begun = self._participant.completion(batch)
        if begun is not None:
            return Verdict(is_open=False, attempts=[AttemptName(*attempt) for attempt in begun.attempts])
        return await self._ask(batch)

    async def _dismiss(self, batch: Batch, had_voted: bool) -> None:
        """Unless it was voted for since the coordinator was asked: its epoch may not have been handed out then."""
        async with self._one_at_a_time:
            if self._participant.holds(batch) and self._participant.has_voted(batch) == had_voted:
                self._completer.dismiss(batch)

    def _tidy(self) -> None:
        """Lets go of what retention has taken, and renews the summary before that takes it, too."""
        self._retention.forget_expired()
        self._retention.renew_summary()

    def needed_offset(self) -> int | None:
        """Physical offset from which on the log is needed. None if all of it may go."""
        return self._retention.needed_offset()


def _of_another_name(batch: Batch, holders: Sequence[str]) -> TransactionError:
    """The error where a broker has voted for what is decided, and the decision does not name it."""
    return TransactionError(
        f"{batch} was voted for here, and is committed on {', '.join(sorted(holders))}, but on no broker of this name.",
        hint="Was this broker renamed? Start it under its old name, and it completes what it holds. Or has the run "
        "written this version twice? Then what is held here goes when the next version is decided.",
    )


def _too_many_queues(output_bytes: int, max_bytes: int) -> str:
    return (
        f"The list of the queues its rows are for takes {output_bytes} bytes, over the limit of {max_bytes}: write to "
        "fewer topics or queues in one batch, or raise max_message_size."
    )

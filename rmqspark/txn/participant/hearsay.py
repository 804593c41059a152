"""What comes over the network in a coordinator's name: anybody can say that he is it, so the coordinator is asked.

Only where it would make a difference: a batch under an epoch that it has spoken of here, and the completion of what was
voted for, cost no question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import structlog

from rmqspark.errors import Busy, ForgedDecision, ForgedEpoch, RmqError
from rmqspark.protocol.headers.txn import NO_EPOCH
from rmqspark.txn.participant.half_batch import Batch
from rmqspark.txn.participant.participant import too_late
from rmqspark.txn.participant.participant_events import keys_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rmqspark.protocol.bodies.txn import AttemptName
    from rmqspark.txn.participant.participant import Participant
    from rmqspark.txn.ports import Complete, Vote

log = structlog.get_logger("rmqspark.txn")


class Verdict(NamedTuple):
    """What a coordinator says of a batch: `is_open`, or for good the attempts of this broker that count, if any do.
    `newest_epoch`: that it has handed out, or of the decision; 0 where there is no telling. `holders`: the brokers that
    have what was decided. `was_here`: this one had it on its disk, and which attempts that were is forgotten."""

    is_open: bool
    attempts: Sequence[AttemptName] = ()
    newest_epoch: int = NO_EPOCH
    holders: Sequence[str] = ()
    was_here: bool = False

    def allows(self, request: Complete) -> bool:
        """Whether this is what the coordinator says. The request is about the same batch."""
        if request.commit:
            return bool(request.attempts) and {*keys_of(request.attempts)} == {*keys_of(self.attempts)}
        return not self.is_open and not self.attempts and request.epoch <= self.newest_epoch


class Hearsay:
    """Refuses what a coordinator has not said. `ask` asks that of a batch, wherever it is."""

    def __init__(self, participant: Participant, ask: Callable[[Batch], Awaitable[Verdict]]) -> None:
        self._participant = participant
        self._ask = ask

    def is_announced(self, batch: Batch) -> bool:
        """Whether half batches of it may be taken at once; else it is to be introduced first."""
        return self._participant.is_announced(batch)

    async def introduce(self, batch: Batch) -> None:
        """Asks its coordinator about an epoch that is new here: a forged one is refused, a real one fences the older.

        Raises ForgedEpoch, Fenced. While there is no telling the epoch stays new: its half batches are taken and fence
        nobody, and the check-back settles them.
        """
        try:
            verdict = await self._ask(batch)
        except RmqError as error:
            log.info("the coordinator of a new epoch cannot be asked", batch=str(batch), reason=str(error))
            return
        if verdict.is_open:
            if verdict.newest_epoch == batch.epoch:
                self._participant.announce(batch)
        elif batch.epoch > verdict.newest_epoch:
            raise ForgedEpoch(f"Epoch {batch.epoch} of {batch.transactional_id!r} was never handed out.")
        else:
            raise too_late(batch)

    async def check_vote(self, request: Vote) -> None:
        """An epoch that is new here is asked about, as it is for half batches. Raises ForgedEpoch, Fenced."""
        batch = Batch.of(request)
        if not self.is_announced(batch):
            await self.introduce(batch)

    async def check_complete(self, request: Complete) -> None:
        """What was not voted for here was hardly decided: its coordinator is asked whether it was, and for which
        attempts. Raises ForgedDecision, Busy where there is no telling."""
        batch = Batch.of(request)
        if request.commit and (self._participant.is_completed(batch) or self._participant.has_voted(batch)):
            return
        try:
            verdict = await self._ask(batch)
        except RmqError as error:
            raise Busy(f"The coordinator of {batch} cannot be asked about it: {error}") from error
        if verdict.is_open and verdict.newest_epoch == NO_EPOCH:
            raise Busy(f"The coordinator of {batch} cannot be asked about it.")
        if not verdict.allows(request):
            raise ForgedDecision(f"The coordinator of {batch} has not decided this.")

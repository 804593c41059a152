"""The vote on a decision: does each broker hold exactly what it says, and on its disk?

A broker is told first, once more, of the versions that it has not confirmed yet: a yes comes after a flush of all it
has, and so confirms those, too (see `rollout`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.errors import RmqError
from rmqspark.fault_points import fault_point
from rmqspark.txn.ports import Vote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.protocol.bodies.txn import HeldAttempt, TxnDecision
    from rmqspark.txn.coordinator.events import Transaction
    from rmqspark.txn.coordinator.rollout import Rollout
    from rmqspark.txn.ports import ParticipantPort, VoteAnswer


class _Poll(NamedTuple):
    """The versions that a broker's vote confirms and how long its output ranges may be; or why it is not a yes, and
    whether that may pass by itself."""

    confirmed: list[int]
    refusal: str = ""
    may_pass: bool = False
    output_bytes: int = 0


class Ballot(NamedTuple):
    """What all brokers of a decision said, by name."""

    polls: dict[str, _Poll]

    @property
    def refusals(self) -> str:
        """Who did not say yes, and why; empty if all did."""
        return "; ".join(f"{broker}: {poll.refusal}" for broker, poll in self.polls.items() if poll.refusal)

    @property
    def may_pass(self) -> bool:
        """Whether all of that may pass by itself."""
        return all(poll.may_pass for poll in self.polls.values() if poll.refusal)

    @property
    def confirmed(self) -> dict[str, list[int]]:
        """The earlier versions that are on each broker's disk now."""
        return {broker: poll.confirmed for broker, poll in self.polls.items()}

    @property
    def output_bytes(self) -> int:
        """How long the output ranges of the decision may be, of all brokers."""
        return sum(poll.output_bytes for poll in self.polls.values())


class Voting:
    """Asks brokers. `participant` gives the way to a broker by its name."""

    def __init__(self, rollout: Rollout, participant: Callable[[str], ParticipantPort]) -> None:
        self._rollout = rollout
        self._participant = participant

    async def ballot(self, txn: Transaction, epoch: int, version: int, decision: TxnDecision) -> Ballot:
        """Asks all brokers that the decision names, at once."""
        fault_point("before_vote")
        polls = await asyncio.gather(
            *(self._poll(broker, txn, epoch, version, held) for broker, held in decision.participants.items())
        )
        fault_point("after_vote")
        return Ballot(dict(zip(decision.participants, polls, strict=True)))

    async def _poll(
        self, broker: str, txn: Transaction, epoch: int, version: int, held: Sequence[HeldAttempt]
    ) -> _Poll:
        done = await self.complete_earlier(broker, txn)
        if done is None:
            return _Poll([], self._rollout.story(broker, txn), self._rollout.is_away(broker))
        request = Vote(txn.transactional_id, epoch, version, held, done[-1] if done else -1)
        try:
            vote = await self.vote(broker, request)
        except RmqError as error:
            return _Poll([], str(error), error.retriable)
        return _Poll(done, output_bytes=vote.output_bytes) if vote.yes else _Poll([], vote.remark or "no")

    async def complete_earlier(self, broker: str, txn: Transaction) -> list[int] | None:
        """Completes what is pending on a broker before it votes on more; None if that does not work now."""
        expected = [pending.version for pending in self._rollout.in_order(txn, broker)]
        done = await self._rollout.complete_on(broker, txn)
        return done if done == expected else None

    async def vote(self, broker: str, request: Vote) -> VoteAnswer:
        return await self._participant(broker).vote(request)

"""What a coordinator asks of participants, whether they are in this broker or in another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rmqspark.protocol.headers.txn import NO_EPOCH, NO_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.bodies.txn import AttemptName, HeldAttempt, OutputRange


class Vote(NamedTuple):
    """Are these attempts held, exactly as described, and on disk? And is `completed` complete here, as the coordinator
    believes (-1 for nothing)? A power loss may have taken it since."""

    transactional_id: str
    epoch: int
    version: int
    attempts: Sequence[HeldAttempt]
    completed: int = -1


class VoteAnswer(NamedTuple):
    """`yes` pins the attempts until the coordinator's COMPLETE. `remark` says what is missing. `output_bytes`: how
    long the account of where their messages are will be, at most."""

    yes: bool
    remark: str = ""
    output_bytes: int = 0


class Complete(NamedTuple):
    """What has become of a version: with `commit`, the attempts (of exactly this epoch and version) go to their topics,
    and every other half of the transactional id up to this version is dropped. Without, every half up to this version
    and this epoch is dropped. Again is the same as once.

    The answer comes when the rows are readable; with `durable`, when they and the op record are on disk besides."""

    transactional_id: str
    epoch: int
    version: int
    commit: bool
    attempts: Sequence[AttemptName] = ()
    durable: bool = False


class Remembered(NamedTuple):
    """What a participant knows of a transactional id by the word of its coordinators: it takes nothing of an epoch
    below `newest_epoch`, and versions up to `completed` are in their topics there, or will be without another word."""

    newest_epoch: int = NO_EPOCH
    completed: int = NO_VERSION


class ParticipantPort(Protocol):
    """A broker that holds half batches. Both raise what the way there raises: Unreachable, RequestTimeout."""

    async def vote(self, request: Vote) -> VoteAnswer: ...

    async def complete(self, request: Complete) -> list[OutputRange]: ...


class ParticipantHere(ParticipantPort, Protocol):
    """The one in the coordinator's own broker."""

    def remembered(self, transactional_id: str) -> Remembered:
        """Of an id of which no coordinator ever spoke: nothing."""

"""What a participant remembers, one JSON object for each thing that happened, in RMQ_SYS_TRANS_OP_HALF_BATCH_TOPIC.

`Summary` says all that matters at its place: a start reads from the newest one on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rmqspark.errors import DecodeError
from rmqspark.protocol.bodies.txn import OutputRange
from rmqspark.protocol.learned import learned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.protocol.bodies.txn import AttemptName, HeldAttempt

AttemptKey: TypeAlias = tuple[int, str]
"""Partition and attempt."""


def keys_of(attempts: Iterable[HeldAttempt | AttemptName]) -> list[AttemptKey]:
    return [(each.partition, each.attempt) for each in attempts]


class _Event(msgspec.Struct, frozen=True, tag_field="event", tag=str.lower):
    """The tag is the class's name."""


class VotedFor(_Event, frozen=True):
    """The coordinator was told that so many half batches are held: from now on only its word drops them."""

    transactional_id: str
    epoch: int
    version: int
    halves: int


class CompletionBegun(_Event, frozen=True):
    """The version is committed. What its attempts sent is appended behind this event."""

    transactional_id: str
    epoch: int
    version: int
    attempts: list[AttemptKey]


class Completed(_Event, frozen=True):
    """All of it is appended, and everything else of the transactional id up to this version is dropped."""

    transactional_id: str
    epoch: int
    version: int
    outputs: list[OutputRange]


class Dropped(_Event, frozen=True):
    """What was held of the transactional id up to this version and epoch is dropped."""

    transactional_id: str
    epoch: int
    version: int


class Dismissed(_Event, frozen=True):
    """What was held of exactly this version and epoch is dropped: its coordinator, asked, says that it is dead."""

    transactional_id: str
    epoch: int
    version: int


class Vote(msgspec.Struct, frozen=True):
    """A version that was voted for and is not decided here."""

    epoch: int
    version: int
    halves: int


class BegunCompletion(msgspec.Struct, frozen=True):
    """A completion that is not finished; what it has appended lies behind `log_offset`."""

    epoch: int
    version: int
    attempts: list[AttemptKey]
    log_offset: int


class Standing(msgspec.Struct, frozen=True):
    """What is remembered of a transactional id besides the halves that are held."""

    transactional_id: str
    epoch: int
    completed: int
    completed_epoch: int
    dropped: int
    outputs: list[OutputRange]
    voted: list[Vote]
    begun: list[BegunCompletion]


class Summary(_Event, frozen=True):
    """All of it: standings, the longest untouched first, and which half batches are held among those before
    `next_half` (queue offsets)."""

    standings: list[Standing]
    held: list[int]
    next_half: int


Event: TypeAlias = VotedFor | CompletionBegun | Completed | Dropped | Dismissed | Summary

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(learned(Event))


def encode_event(event: Event) -> bytes:
    return _encoder.encode(event)


def decode_event(data: bytes | memoryview) -> Event:
    """Raises DecodeError for what is no event of ours."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DecodeError(f"No event of a participant: {error}.") from error

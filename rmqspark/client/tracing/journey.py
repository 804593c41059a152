"""What is known of a message's way: plain data, as REST, console and command line show it. Who asks is in `journeys`.

Nothing here is guessed. What cannot be known is None, or stands in `unknown` with why.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rmqspark.message_queue import MessageQueue
from rmqspark.model import ReceivedMessage
from rmqspark.protocol.bodies.txn import InputRange, OutputRange


class Track(StrEnum):
    """How a group stands to a message, in RocketMQ's words (its TrackType, CONSUME_BROADCASTING since 4.9)."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    PULL = "PULL"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


class StageKind(StrEnum):
    HALF_MESSAGE = "half message"
    HALF_BATCH = "half batch"
    DELAY = "delay"
    DELIVER_TIME = "deliver time"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is."""

    queue: MessageQueue
    queue_offset: int
    physical_offset: int
    offset_msg_id: str
    stored_ms: int


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a message lay before its readers could see it.

    Of a delay: its `level`, or the time it was to be delivered at (`due_ms`; of a level only while it waits). Of a half
    message: the producers' `group` and the `transaction_id`. Of a half batch: the transactional id and its `version`.
    """

    kind: StageKind
    place: Place
    real_topic: str
    due_ms: int | None = None
    level: int | None = None
    group: str = ""
    transaction_id: str = ""
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Return:
    """A message that `group` consumed in vain, for the `times`th time: to be consumed once more, or a dead letter.

    `is_waiting` while its time has not come (`due_ms`, None where unknown). `first_msg_id` names the message that was
    consumed first, None where nothing says it.
    """

    group: str
    is_dead: bool
    times: int
    place: Place
    first_msg_id: str | None
    is_waiting: bool = False
    due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GroupReader:
    """A group that reads the topic. `is_past`: its committed offset lies behind the message; None where it has never
    committed one for the queue, or keeps its offsets itself. `track` is what RocketMQ's mqadmin says."""

    group: str
    track: Track
    committed: int | None
    is_past: bool | None
    is_online: bool


@dataclass(frozen=True, slots=True)
class BatchReader:
    """A batch of a Spark query that read the message.

    `version` is set where it wrote exactly-once under `transactional_id`: it was decided at `decided_ms`, and `outputs`
    are what came of the whole batch. Else its tasks said that they read `read` in batch `batch_id`, and where that went
    is not known.
    """

    query_id: str
    query_name: str
    read: InputRange
    transactional_id: str | None = None
    version: int | None = None
    batch_id: int | None = None
    decided_ms: int | None = None
    outputs: tuple[OutputRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Writer:
    """The exactly-once batch that wrote the message, and everything that this batch had read."""

    transactional_id: str
    version: int
    query_id: str | None
    query_name: str
    decided_ms: int | None
    decided_by: str
    rows: int | None
    inputs: tuple[InputRange, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """What cannot be said, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Journey:
    """`message` is as it lies at `place`. It is for `topic`: where it lies, or will once it is readable.

    `stages` are where it lay before, oldest first. `returned` where it is a retry or a dead letter itself; `first` is
    then where the message lies that was consumed first, None where that is gone. `duplicates` have the same unique id
    in the same topic: it was sent more than once. `returns` are what its groups gave back; of a retry or dead letter
    all others of the same first message. `set_aside`: a half message that nobody decided lies there now.
    """

    message: ReceivedMessage
    place: Place
    topic: str
    is_readable: bool
    stages: tuple[Stage, ...] = ()
    returned: Return | None = None
    first: Place | None = None
    duplicates: tuple[Place, ...] = ()
    returns: tuple[Return, ...] = ()
    set_aside: Place | None = None
    groups: tuple[GroupReader, ...] = ()
    batches: tuple[BatchReader, ...] = ()
    written_by: Writer | None = None
    unknown: tuple[Unknown, ...] = ()

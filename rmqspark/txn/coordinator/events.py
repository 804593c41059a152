"""What the ledger remembers, one JSON object for each thing that happened (docs/exactly-once.md).

`Restated` and `Kept` say all that matters of one transactional id: what came before them may go.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from rmqspark.errors import DecodeError
from rmqspark.protocol.bodies.txn import AuditedBatch, InputRange, ManualDecision, OutputRange, TxnDecision
from rmqspark.protocol.learned import learned

DRIVER: Final = "driver"
CLOCK: Final = "timeout"
"""By whom a version was decided or closed, where it was no operator."""


class _Event(msgspec.Struct, tag_field="event", tag=str.lower):
    """The tag is the class's name."""


class RunOpened(_Event):
    """A run of the query may write, under this epoch."""

    transactional_id: str
    query_id: str
    run: str
    epoch: int
    uptime_ms: int = 0


class VersionBegun(_Event):
    """An attempt of a version was allowed to write: the first one, and now and then a later one, for `overdue`."""

    transactional_id: str
    version: int
    uptime_ms: int = 0


class EpochClosed(_Event):
    """Nothing is decided any more under this epoch or an older one. `by` is a driver, an operator, or the clock."""

    transactional_id: str
    epoch: int
    version: int
    at_ms: int
    by: str


class Decided(_Event):
    """The version is committed, with exactly these attempts. What is known of it grows by `output_bytes` at most."""

    transactional_id: str
    epoch: int
    version: int
    decision: TxnDecision
    at_ms: int
    by: str
    output_bytes: int = 0


class BrokerCompleted(_Event):
    """The rows of a version are in their topics on this broker, and on its disk."""

    transactional_id: str
    version: int
    broker: str
    outputs: list[OutputRange]


class Finished(_Event):
    """So they are on all brokers. This is the record that an audit reads."""

    batch: AuditedBatch


class InputReported(_Event):
    """What read tasks say of one batch."""

    query_id: str
    batch_id: int
    inputs: list[InputRange]


class PeerSeen(_Event):
    """A broker of the cluster, which may own transactional ids."""

    broker: str


class Forgotten(_Event):
    """A transactional id that nobody has used for very long."""

    transactional_id: str


class Pending(msgspec.Struct):
    """A decision that is not known to be on the disks of all its brokers; `outputs` by those where it is."""

    epoch: int
    version: int
    decision: TxnDecision
    at_ms: int
    by: str
    outputs: dict[str, list[OutputRange]] = {}

    def brokers_left(self) -> list[str]:
        return [broker for broker in self.decision.participants if broker not in self.outputs]


class Transaction(msgspec.Struct):
    """One transactional id. `runs` has the newest ones only; `pending` is oldest first."""

    transactional_id: str
    query_id: str = ""
    epoch: int = 0  # the newest one handed out
    closed_epoch: int = 0  # this one and all below are closed
    runs: dict[str, int] = {}  # run -> its epoch, in the order of epochs
    last_version: int = -1
    last_epoch: int = 0
    last_decision: TxnDecision | None = None  # when it is not pending any more: the figures without the lists
    open_version: int = -1
    heard_ms: int = 0  # by the uptime: when an attempt was last allowed to write
    closed_by: str = ""
    closed_at_ms: int = 0
    decided_by: str = ""
    decided_at_ms: int = 0
    manual: list[ManualDecision] = []  # the latest
    pending: list[Pending] = []

    @property
    def is_open(self) -> bool:
        """Whether somebody may be writing a version now."""
        return self.open_version > self.last_version and self.epoch > self.closed_epoch

    def pending_of(self, version: int) -> Pending | None:
        """The decision of a version, if it is pending."""
        return next((pending for pending in self.pending if pending.version == version), None)

    def brokers_left(self) -> list[str]:
        """Those that have not confirmed everything, each once."""
        return list({broker: None for pending in self.pending for broker in pending.brokers_left()})


class Kept(_Event):
    """A decision that is pending while its transactional id is restated, oldest first; `Restated` follows."""

    transactional_id: str
    pending: Pending


class Restated(_Event):
    """Stands for all events of this transactional id so far. What is pending are the last `kept` ones of `Kept`: a
    power loss may have left some of them from a try before, and nothing counts before this."""

    transaction: Transaction
    kept: int


Event: TypeAlias = (
    RunOpened
    | VersionBegun
    | EpochClosed
    | Decided
    | BrokerCompleted
    | Finished
    | InputReported
    | PeerSeen
    | Forgotten
    | Restated
    | Kept
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(learned(Event))


def encode_event(event: Event) -> bytes:
    return _encoder.encode(event)


def decode_event(data: bytes | memoryview) -> Event:
    """Raises DecodeError for what is no event of ours."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DecodeError(f"No event of a transaction ledger: {error}.") from error

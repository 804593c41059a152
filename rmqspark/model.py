"""The nouns a user holds in hand: messages, queues, receipts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec

from rmqspark.message_queue import MessageQueue as MessageQueue  # one of the nouns, and of this module's names

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send. `properties` are the user's own; names that RocketMQ reserves are refused when it is sent."""

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0  # RocketMQ's 1 to 18; 0 delivers at once
    deliver_time_ms: int = 0  # since 1970, in the second after which it is delivered; 0 delivers at once
    wait_stored: bool = True  # False: the broker may answer before the flush its mode promises (property WAIT)
    delay_ms: int = 0  # by its broker's clock, in the second after which it is delivered; 0 delivers at once


class SendStatus(Enum):
    """How far a message had come when the broker answered (RocketMQ's SendStatus)."""

    OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


@dataclass(frozen=True, slots=True)
class SendReceipt:
    """Where a message was stored. `msg_id` is the client's unique id, `offset_msg_id` the broker's."""

    msg_id: str
    queue: MessageQueue
    queue_offset: int
    offset_msg_id: str = ""
    status: SendStatus = SendStatus.OK
    recall_handle: str = ""  # of a message with a deliver time: what `Producer.recall` takes, where it can be recalled

    def _repr_html_(self) -> str:
        return _facts_html("Stored", self)


class TransactionState(Enum):
    """What a producer knows of its transaction (RocketMQ's LocalTransactionState)."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"  # RocketMQ's spelling


@dataclass(frozen=True, slots=True)
class PreparedMessage(Message):
    """A message that waits for its transaction. `msg_id` names both, also when the broker asks later."""

    msg_id: str = ""


@dataclass(frozen=True, slots=True)
class TransactionReceipt:
    """What became of a transaction as far as its producer knows. `receipt` says where the half message was stored."""

    state: TransactionState
    receipt: SendReceipt

    def _repr_html_(self) -> str:
        return _facts_html(f"Transaction: {self.state.name}", self.receipt)


class _Received(msgspec.Struct, frozen=True, gc=False):
    """What a ReceivedMessage holds."""

    topic: str
    body: bytes
    tags: str | None
    keys: list[str]  # may be a tuple, see ReceivedMessage
    properties: dict[str, str]
    msg_id: str
    queue: MessageQueue
    queue_offset: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    reconsume_times: int = 0
    flag: int = 0
    offset_msg_id: str = ""


class ReceivedMessage(_Received, frozen=True, gc=False):
    """A message read. `msg_id` is the sender's unique id where it set one, else the broker's id.

    A struct of msgspec's because consumers make hundreds of thousands of these a second: 0.07 µs each instead of the
    1.4 µs of a frozen dataclass. `gc=False`: it holds strings, numbers and flat containers, never a cycle.

    Nor should what it holds occupy the garbage collector. That leaves dicts and tuples of strings alone, but goes
    through every list again and again, an empty one too, and one list for each of thousands of messages makes one
    collection after the other due. So keys are received as a tuple, and become a list when they are asked for.
    """

    if not TYPE_CHECKING:  # to type checkers it is the field it was

        @property
        def keys(self) -> list[str]:
            held = _held_keys(self)
            if isinstance(held, tuple):
                held = list(held)
                _hold_keys(self, held)
            return held

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReceivedMessage):
            return NotImplemented
        return super(ReceivedMessage, self._with_list()).__eq__(other._with_list())

    def __repr__(self) -> str:
        return super(ReceivedMessage, self._with_list()).__repr__()

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return super(ReceivedMessage, self._with_list()).__rich_repr__()

    def _with_list(self) -> Self:
        """Itself, with keys that are a list: what msgspec compares and shows is what it holds."""
        _ = self.keys
        return self


_held_keys = _Received.__dict__["keys"].__get__
_hold_keys = _Received.__dict__["keys"].__set__


def _facts_html(title: str, receipt: SendReceipt) -> str:
    from rmqspark.display import facts_html  # for notebooks only

    facts = {
        "message id": receipt.msg_id,
        "queue": receipt.queue,
        "queue offset": receipt.queue_offset,
        "status": receipt.status.value,
    }
    return facts_html(title, facts)

"""What clients did and what they saw, as JSON lines: the evidence that `history_checker` judges.

Every send and every read has two lines, one when it is begun and one when its outcome is known; the order of the lines
is the order of events. A send that has no second line is unknown: its client died. Simulated and real processes write
the same lines, so both are judged by one law (docs/reliability.md).

A message is known by a name of its own, which it carries as its first key. Of the rest a history holds a digest
(`content_of`): enough to tell whether what was read is what was sent, a hundred bytes a message.
"""

from __future__ import annotations

import threading
from hashlib import blake2b
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias

import msgspec

from rmqspark.errors import ConnectionLost, FlushTimeout, RequestTimeout, RmqError, ServerFault
from rmqspark.model import MessageQueue, SendStatus
from rmqspark.protocol.records.properties import RESERVED_NAMES, Property

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rmqspark.model import Message, ReceivedMessage, SendReceipt

Outcome: TypeAlias = Literal["ok", "fail", "unknown"]
_SENDERS_OWN = frozenset({Property.KEYS, Property.TAGS})
_DOUBTFUL = (ConnectionLost, RequestTimeout, FlushTimeout, ServerFault)


class Send(msgspec.Struct, tag="send", tag_field="event", frozen=True):
    """A send is begun: one message, a batch or a bulk. `messages` are (name, content), in their order."""

    id: int
    producer: str
    messages: list[tuple[str, str]]


class Sent(msgspec.Struct, tag="sent", tag_field="event", frozen=True, omit_defaults=True):
    """The outcome of a send.

    "ok": acknowledged, in `queue` from `queue_offset` on; `durable` if it was promised to survive a power loss.
    "fail": refused. "unknown": nobody said. `tries` were made in all, and of `unknown_tries` nobody heard: each of them
    may have stored a copy.
    """

    id: int
    outcome: Outcome
    queue: MessageQueue | None = None
    queue_offset: int = -1
    durable: bool = False
    tries: int = 1
    unknown_tries: int = 0
    error: str = ""


class Read(msgspec.Struct, tag="read", tag_field="event", frozen=True):
    """A reader asks for what is in `queue` from `queue_offset` on."""

    id: int
    reader: str
    queue: MessageQueue
    queue_offset: int


class Seen(msgspec.Struct, tag="seen", tag_field="event", frozen=True, omit_defaults=True):
    """The outcome of a read: `messages` are (queue offset, name, content), and it would go on at `next_offset`."""

    id: int
    outcome: Outcome
    next_offset: int = -1
    messages: list[tuple[int, str, str]] = []
    error: str = ""


class Scan(msgspec.Struct, tag="scan", tag_field="event", frozen=True):
    """While nothing was being sent, `reader` has read all that `queue` holds from `begin` up to its end, `end`."""

    reader: str
    queue: MessageQueue
    begin: int
    end: int


class Opened(msgspec.Struct, tag="opened", tag_field="event", frozen=True):
    """A broker serves, in this incarnation of its store."""

    broker_name: str
    incarnation: int


Event: TypeAlias = Send | Sent | Read | Seen | Scan | Opened
_DECODER = msgspec.json.Decoder(Event)
_ENCODER = msgspec.json.Encoder()


def content_of(body: bytes | memoryview, properties: Mapping[str, str]) -> str:
    """Tells contents apart: length and digest of the body, digest of the properties (tags and keys are among them)."""
    pairs = "\2".join(f"{name}\1{value}" for name, value in sorted(properties.items()))
    return f"{len(body)}-{_digest(body)}/{_digest(pairs.encode())}"


def _digest(data: bytes | memoryview) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def content_to_send(message: Message) -> tuple[str, str]:
    """Name and content of a message as its sender knows it. Its first key is its name."""
    properties = {**message.properties, Property.KEYS: " ".join(message.keys)}
    if message.tags:
        properties[Property.TAGS] = message.tags
    return message.keys[0], content_of(message.body, properties)


def content_received(message: ReceivedMessage) -> tuple[int, str, str]:
    """Offset, name and content of a message as it was read; what client and broker add to a message is left out."""
    own = {
        name: value for name, value in message.properties.items() if name in _SENDERS_OWN or name not in RESERVED_NAMES
    }
    return message.queue_offset, message.keys[0] if message.keys else "", content_of(message.body, own)


def outcome_of(error: Exception) -> Outcome:
    """What the error of one try says: whether the message may be stored all the same."""
    return "unknown" if isinstance(error, _DOUBTFUL) or not isinstance(error, RmqError) else "fail"


class JsonLines:
    """Writes events to a file, a line each."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __call__(self, event: Event) -> None:
        self._file.write(_ENCODER.encode(event) + b"\n")


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """The events of such a file. Raises msgspec.DecodeError for a line that is none."""
    return map(_DECODER.decode, lines)


class History:
    """Where clients say what they do; tells it to `listeners`, one event at a time. Safe to share between threads.

    It counts, for whoever injects faults: `under_way` (messages sent and not answered), `acknowledged`, `refused` and
    `unknown` messages; `wait_for` waits for any condition on these.
    """

    def __init__(self, *listeners: Callable[[Event], None]) -> None:
        self._listeners = listeners
        self._changed = threading.Condition()
        self._sizes: dict[int, int] = {}  # of sends under way
        self._last_id = 0
        self.under_way = self.acknowledged = self.refused = self.unknown = 0

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Whether `condition` came true in time; it is asked after every outcome of a send."""
        with self._changed:
            return self._changed.wait_for(condition, timeout_s)

    def opened(self, broker_name: str, incarnation: int) -> None:
        """Clients talk to a broker whose store is in this incarnation from now on."""
        self._tell(Opened(broker_name, incarnation))

    # --- sends -------------------------------------------------------------------------------------------------------

    def sending(self, producer: str, messages: Sequence[tuple[str, str]]) -> int:
        """Messages (name, content) are about to be sent together; returns the number of this send."""
        with self._changed:
            number = self._next_id()
            self._sizes[number] = len(messages)
            self.under_way += len(messages)
            self._emit(Send(number, producer, list(messages)))
        return number

    def sent(self, number: int, receipt: SendReceipt, *, durable: bool, unknown_tries: int = 0) -> None:
        """The broker answered with a receipt, for the first message of the send where it is a batch."""
        if receipt.status is SendStatus.OK:
            self.stored(number, receipt.queue, receipt.queue_offset, durable=durable, unknown_tries=unknown_tries)
        else:
            self._end(Sent(number, "unknown", unknown_tries=unknown_tries + 1, error=receipt.status.value))

    def stored(
        self, number: int, queue: MessageQueue, queue_offset: int, *, durable: bool, unknown_tries: int = 0
    ) -> None:
        """The broker acknowledged all of the send, in `queue` from `queue_offset` on."""
        self._end(
            Sent(number, "ok", queue, queue_offset, durable, tries=1 + unknown_tries, unknown_tries=unknown_tries)
        )

    def in_doubt(self, number: int) -> None:
        """It was tried, and each of its messages may be there once, wherever."""
        self._end(Sent(number, "unknown", unknown_tries=1))

    def not_sent(self, number: int, error: Exception, *, unknown_tries: int = 0) -> None:
        """The last try ended with `error`; it may be stored, depending on what the error is."""
        unknown_tries += outcome_of(error) == "unknown"
        outcome: Outcome = "unknown" if unknown_tries else "fail"
        self._end(Sent(number, outcome, unknown_tries=unknown_tries, error=f"{type(error).__name__}: {error}"))

    def _end(self, event: Sent) -> None:
        with self._changed:
            size = self._sizes.pop(event.id)
            self.under_way -= size
            self.acknowledged += size if event.outcome == "ok" else 0
            self.refused += size if event.outcome == "fail" else 0
            self.unknown += size if event.outcome == "unknown" else 0
            self._emit(event)
            self._changed.notify_all()

    # --- reads -------------------------------------------------------------------------------------------------------

    def reading(self, reader: str, queue: MessageQueue, queue_offset: int) -> int:
        """A read is about to begin at `queue_offset`; returns its number."""
        with self._changed:
            number = self._next_id()
            self._emit(Read(number, reader, queue, queue_offset))
        return number

    def seen(self, number: int, next_offset: int, messages: Iterable[ReceivedMessage]) -> None:
        """What a read came back with."""
        self._tell(Seen(number, "ok", next_offset, [content_received(message) for message in messages]))

    def not_seen(self, number: int, error: Exception) -> None:
        """A read came back with nothing but an error."""
        self._tell(Seen(number, "fail", error=f"{type(error).__name__}: {error}"))

    def scanned(self, reader: str, queue: MessageQueue, begin: int, end: int) -> None:
        """The last reads of `reader` covered the queue from `begin` to its end, and nobody was sending meanwhile."""
        self._tell(Scan(reader, queue, begin, end))

    def _tell(self, event: Event) -> None:
        with self._changed:
            self._emit(event)

    def _emit(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

"""A request as a handler sees it, and the connection it came by.

**How long a request lives.** Its bytes lie in a buffer that the next read overwrites. So `body` (and what `fields`
is decoded from) is valid until the handler returns, and is then released: touching it later raises ValueError instead
of showing the bytes of somebody else's request. Views and arrays made of it escape that check: a handler that answers
later copies what it needs of the body before it returns. Everything else of a request (`header`, `opaque`, `reply`,
...) lives as long as the request. Where a handler returns an awaitable, the router takes a copy of the body first, so
an `async def` handler may use it all along; for bodies of megabytes a plain function is better, and for a request that
is carried out there is none (`reply.CarriedOut`). The body may be written to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec
import structlog

from rmqspark.errors import RmqError, ServerFault
from rmqspark.protocol.commands.command import RawCommand, Serialize, decode_command
from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.protocol.faults import to_response

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqspark.remoting.receive import Budget
    from rmqspark.remoting.reply import AnswerBody, Body, Buffer, Part, Reply
    from rmqspark.remoting.response import Response

H = TypeVar("H", bound=msgspec.Struct)

SERIALIZE_NAMES: Final[tuple[Serialize, ...]] = ("JSON", "ROCKETMQ")
"""By the number that says so in a frame."""

Result: TypeAlias = Literal["success", "oneway", "process_request_failed", "write_channel_failed"]
"""What became of an answer, in RocketMQ's words."""

log = structlog.get_logger("rmqspark.remoting")


class Stopwatch(Protocol):
    """Whoever wants to know how long requests take."""

    def now_ms(self) -> int:
        """Monotonic."""

    def answered(self, code: int, response_code: int, began_ms: int, *, waited: bool, result: Result) -> None:
        """A request that came then is answered now; `waited`: not by the handler before it returned."""


class Connection(Protocol):
    """One client of a server, as handlers see it. Compare and hash by identity, or use `id`."""

    id: int
    """Unique within the server's life."""
    peer: tuple[str, int]
    """Where it comes from: address and port."""
    ipv4_host: bytes | None
    """The same as a record says it; None where that is no IPv4 address."""
    encrypted: bool
    """Whether it speaks TLS."""
    under_way: int
    """Requests whose answer is still to come."""

    @property
    def closed(self) -> bool:
        """True from the moment nothing more can be sent."""

    def send(self, parts: Sequence[Part]) -> None:
        """Queues an encoded command; all that is queued in one turn of the loop is written at once."""

    def answer(self, responses: Buffer, count: int) -> None:
        """Queues the encoded answers to so many requests that were counted in `under_way`."""

    def begin_oneway(self) -> None:
        """A request that wants no answer has been handled and is not done. While too many are, nothing more is read."""

    def end_oneway(self) -> None:
        """It is done."""

    def send_request_oneway(self, code: int, header: msgspec.Struct | None = None, body: Body = b"") -> None:
        """Sends a request of ours that needs no answer, e.g. NOTIFY_CONSUMER_IDS_CHANGED. Does nothing once closed."""

    async def call(
        self, code: int, header: msgspec.Struct | None = None, body: Body = b"", *, timeout_ms: int
    ) -> Response:
        """Sends a request of ours and waits for the client's answer.

        Raises RequestTimeout, ConnectionLost, or Busy where too many such calls wait already.
        """

    def deliver(self, response: Response) -> None:
        """Hands over the client's answer to `call`."""

    def close(self, reason: str) -> None:
        """Ends the connection at once; the reason goes to the log."""


class Request(msgspec.Struct, Generic[H], eq=False):
    """One request: its decoded header, its body, and the way to answer it. See the module for how long each lives."""

    code: int
    """The one it was routed by: a forged header may name another later on."""
    header: H
    body: memoryview
    connection: Connection
    opaque: int
    version: int
    language: str
    oneway: bool
    serialize: Serialize
    """The header encoding of the request, in which it is answered."""
    _raw: RawCommand
    _stopwatch: Stopwatch | None = None
    _began_ms: int = 0
    _answered: bool = False
    _parked: bool = False
    _failed: bool = False

    def __str__(self) -> str:
        return f"request {self.code} (opaque {self.opaque}) of {self.connection.peer[0]}:{self.connection.peer[1]}"

    @property
    def fields(self) -> dict[str, str]:
        """All fields of the header as sent, also those that `header` does not declare. Decoded anew each time."""
        return decode_command(self._raw).fields

    def reply(
        self,
        header: msgspec.Struct | None = None,
        body: AnswerBody = b"",
        *,
        code: int = 0,
        remark: str | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """Answers, in the header encoding of the request. Does nothing if the request is oneway or already answered.

        Raises InvalidArgument for more than a frame holds; it is not answered then.
        """
        response: list[Part] = []
        if not (self._answered or self.oneway):
            response = encode_response(
                self.opaque, code, header, body, remark=remark, extra=extra, serialize=self.serialize
            )
        if self._begin_answer():
            self.connection.send(response)
        self._note_time(code)

    def reply_encoded(self, response: Buffer) -> None:
        """Answers with a response of success that is encoded already, in the header encoding that `serialize` names."""
        if self._begin_answer():
            self.connection.send((response,))
        self._note_time(0)

    def answer(self, reply: Reply) -> None:
        """Answers with a Reply."""
        self.reply(reply.header, reply.body, code=reply.code, remark=reply.remark, extra=reply.extra)

    def fail(self, error: Exception) -> None:
        """Answers with the response code of an error; one that is not an RmqError is logged: as a bug of ours, unless
        the system has refused something, a disk that cannot be read say."""
        if not isinstance(error, RmqError):
            if isinstance(error, OSError):
                log.error("a request failed", request=str(self), reason=str(error))
            else:
                log.error("a handler failed", request=str(self), exc_info=error)
            self._failed = True
            error = ServerFault(f"{type(error).__name__}: {error}")
        code, remark = to_response(error)
        self.reply(code=code, remark=remark)

    def _begin_answer(self) -> bool:
        """Whether there is somebody to answer, and nobody has done so yet. A oneway request is done with this."""
        if self._answered:
            return False
        self._answered = True
        if self._parked and self.oneway:
            self.connection.end_oneway()
        elif self._parked:
            self.connection.under_way -= 1
        return not self.oneway

    def _note_time(self, code: int) -> None:
        """Once, behind the answer; where memory runs out it is left out: the answer is worth more."""
        stopwatch, self._stopwatch = self._stopwatch, None
        if stopwatch is None:
            return
        try:
            stopwatch.answered(self.code, code, self._began_ms, waited=self._parked, result=self._result())
        except MemoryError:
            return

    def _result(self) -> Result:
        if self._failed:
            return "process_request_failed"
        return "oneway" if self.oneway else "write_channel_failed" if self.connection.closed else "success"

    # --- for the router ----------------------------------------------------------------------------------------------

    def park(self) -> None:
        """The handler has returned and will answer later."""
        if self._answered:
            return
        self._parked = True
        if self.oneway:
            self.connection.begin_oneway()
        else:
            self.connection.under_way += 1

    def own_body(self, room: Budget) -> int:
        """Copies what lies in the receive buffer, so that it outlives the handler's first step. Returns how many bytes
        that are, to be given back to `room`. Raises Busy where it has not so many left."""
        raw = self._raw
        size_bytes = len(raw.header) + len(raw.body)
        room.take(size_bytes)
        try:
            self._raw = RawCommand(raw.serialize_type, memoryview(bytes(raw.header)), memoryview(bytearray(raw.body)))
        except MemoryError:
            room.give_back(size_bytes)
            raise
        self.body = self._raw.body
        return size_bytes

"""From a request code to its handler, and from what the handler did to an answer.

Handlers raise, the router replies: an RmqError becomes its response code (`protocol/faults.py`), any other exception
is logged and becomes SYSTEM_ERROR, a code nobody handles becomes REQUEST_CODE_NOT_SUPPORTED (spec: remoting, section
4.1). The router owns no socket and no task: where a handler returns an awaitable, `dispatch` returns a coroutine for
the server to run.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from rmqspark.errors import HeaderError, InvalidArgument, NotSupported
from rmqspark.protocol.access_classes import ACCESS
from rmqspark.protocol.codes import OWN_CODES, TRUNCATED_CODES, RequestCode
from rmqspark.protocol.commands.command import (
    JSON,
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    STOCK_START,
    STOCK_STARTS,
    Envelope,
    RawCommand,
    decode_command,
    envelope_decoder,
    peek_code,
)
from rmqspark.remoting.receive import Budget, command_at
from rmqspark.remoting.reply import Body, CarriedOut, Reply
from rmqspark.remoting.request import SERIALIZE_NAMES, Connection, Request
from rmqspark.remoting.response import Response

if TYPE_CHECKING:
    from rmqspark.errors import RmqError
    from rmqspark.protocol.commands.command import Command
    from rmqspark.remoting.gathered import TakesTogether
    from rmqspark.remoting.request import Stopwatch

__all__ = ["Body", "Connection", "Reply", "Request", "Route", "Router", "Routes"]

_start_of = STOCK_START.unpack_from
_START_BYTES: Final = STOCK_START.size

Answer: TypeAlias = Reply | Awaitable[Reply | None] | None
Handle: TypeAlias = Callable[[Request[Any]], Answer]
Take: TypeAlias = Callable[[Envelope[Any], RawCommand, Connection], bool]
"""What was decoded, what it was decoded from, and the connection; whether the request was taken. The bytes are valid
until it returns."""
TakeUndecoded: TypeAlias = Callable[[memoryview, int, int, int, int, Connection], bool]
"""A buffer, where a command lies in it (see `FrameReceiver.frames`), and the connection; whether it was taken."""


class NoFields(msgspec.Struct, gc=False):
    """The header of requests that declare no fields; what they carry all the same is in `Request.fields`."""


class Route(NamedTuple):
    """How one request code is handled.

    `handle` returns a Reply; or None if it has answered through `request.reply`, or will; or an awaitable of either,
    which is refused, with nothing done, where too many wait: but for CarriedOut.
    So it does for a oneway request, too, which is not answered, but counts as waiting until then.
    `header` is the class of its declared fields, None where it has none. `take` may be given for requests that come
    often: it gets those that want an answer without a Request being made. What it takes it answers through
    `Connection.answer`; what it refuses to take is handled.
    """

    header: type[msgspec.Struct] | None
    handle: Handle
    take: Take | None = None


class Guard(Protocol):
    """Whoever lets requests pass to their handlers, or does not."""

    def check(self, request: Request[Any]) -> None:
        """Raises what the request is refused with."""


class _Way(msgspec.Struct, frozen=True, gc=False):
    """What a request of one code goes through."""

    code: int
    decode: Callable[[RawCommand], Envelope[Any]]
    handle: Handle
    take: Take | None


Routes: TypeAlias = dict[RequestCode, Route]


class Router:
    """All request codes of one server. Refuses at construction a code given twice or without a class of access.

    A guard is asked about each request, by its code as routed and its fields as its handler has them. Then there are no
    ways around it: nothing is taken undecoded, together, or by a route's `take`, which is slower. A request with a
    header that cannot be read, or a code that nobody handles, is refused without asking.
    """

    def __init__(
        self,
        routes: Iterable[Routes],
        take_undecoded: TakeUndecoded | None = None,
        together: TakesTogether | None = None,
        stopwatch: Stopwatch | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._guard = guard
        if guard is not None:
            take_undecoded = together = None
        self.together = together
        self.waiting = Budget(sys.maxsize)
        """What requests are kept in whose handlers wait."""
        self._stopwatch = stopwatch
        self._now_ms: Callable[[], int] = int if stopwatch is None else stopwatch.now_ms
        self._take_undecoded = take_undecoded
        self._routes: dict[int, _Way] = {}
        for family in routes:
            for code, route in family.items():
                self._add(code, route)
        for truncated, code in TRUNCATED_CODES.items():
            if code in self._routes:
                self._routes.setdefault(truncated, self._routes[code])
        self._by_start = {start: self._routes[code] for start, code in STOCK_STARTS.items() if code in self._routes}

    @property
    def is_guarded(self) -> bool:
        """Whether somebody is asked about each request."""
        return self._guard is not None

    def _add(self, code: RequestCode, route: Route) -> None:
        if code in self._routes:
            raise ValueError(f"Request code {code!r} has two handlers.")
        if code not in ACCESS:
            raise ValueError(f"Request code {code!r} has no class of access.")
        if self._guard is not None:
            route = _guarded(route, self._guard)
        self._routes[int(code)] = _Way(int(code), envelope_decoder(route.header or NoFields), route.handle, route.take)

    def receive(
        self, view: memoryview, word: int, header_at: int, body_at: int, end: int, connection: Connection
    ) -> Coroutine[Any, Any, None] | None:
        """Handles the command that lies there (see `FrameReceiver.frames`) as `dispatch` does, at once if it is known
        by its bytes."""
        if self._take_undecoded is not None:
            try:
                if self._take_undecoded(view, word, header_at, body_at, end, connection):
                    return None
            except Exception as error:  # noqa: BLE001 - answered and logged as what a handler raises
                raw = command_at(view, word, header_at, body_at, end)
                self._bare_request(decode_command(raw), raw, connection).fail(error)
                return None
        return self.dispatch(command_at(view, word, header_at, body_at, end), connection)

    def dispatch(self, raw: RawCommand, connection: Connection) -> Coroutine[Any, Any, None] | None:
        """Handles one command. A coroutine returned is the rest of the work, to be run as a task.

        Raises HeaderError if the header cannot be read at all: then nothing of this connection is to be trusted.
        """
        serialize_type, header = raw.serialize_type, raw.header
        is_plain = serialize_type == JSON and len(header) >= _START_BYTES
        way = self._by_start.get(_start_of(header)[0]) if is_plain else None
        if way is None:
            code = peek_code(raw)
            way = self._routes.get(code)
            if way is None:
                self.refuse(raw, connection, NotSupported(f"request type {code} not supported"))
                return None
        try:
            envelope = way.decode(raw)
        except HeaderError as error:
            self.refuse(raw, connection, _unreadable(way.code, error))
            return None
        if way.take is not None and not envelope.flag:
            try:
                if way.take(envelope, raw, connection):
                    return None
            except Exception as error:  # noqa: BLE001 - answered and logged as what a handler raises
                self._bare_request(decode_command(raw), raw, connection).fail(error)
                return None
        if envelope.flag & RESPONSE_FLAG:
            connection.deliver(Response.of(decode_command(raw), bytes(raw.body)))
            return None
        request = Request(
            way.code,
            envelope.extFields,
            raw.body,
            connection,
            envelope.opaque,
            envelope.version,
            envelope.language,
            envelope.flag & ONEWAY_FLAG != 0,
            SERIALIZE_NAMES[serialize_type],
            raw,
            self._stopwatch,
            self._now_ms(),
        )
        rest = None
        try:
            answer = way.handle(request)
            if answer is None:
                request.park()
            elif isinstance(answer, Reply):
                request.answer(answer)
            else:
                rest = self._later(request, answer)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises: `fail` answers, and logs what is a bug
            request.fail(error)
        raw.header.release()  # their memory is not the handler's any more (see request.py)
        raw.body.release()
        return rest

    def _later(self, request: Request[Any], answer: Awaitable[Reply | None]) -> Coroutine[Any, Any, None]:
        """The rest of a request whose handler waits."""
        kept_bytes = 0 if isinstance(answer, CarriedOut) else self._keep(request, answer)
        request.park()
        return self._finish(request, answer, kept_bytes)

    def _keep(self, request: Request[Any], answer: Awaitable[Reply | None]) -> int:
        """Keeps a request for its handler; returns how many bytes that takes. Raises Busy where too many are kept."""
        try:
            return request.own_body(self.waiting)
        except BaseException:  # Busy, or no memory: nobody awaits the handler then, and `dispatch` answers
            if isinstance(answer, Coroutine):
                answer.close()  # it has not begun
            raise

    async def _finish(self, request: Request[Any], answer: Awaitable[Reply | None], kept_bytes: int) -> None:
        try:
            reply = await answer
            if reply is not None:
                request.answer(reply)
        except Exception as error:  # noqa: BLE001 - as in `dispatch`
            request.fail(error)
        finally:
            self.waiting.give_back(kept_bytes)

    def refuse(self, raw: RawCommand, connection: Connection, error: RmqError) -> None:
        """Answers a request with an error without handling it. Answers of the client are delivered all the same."""
        command = decode_command(raw)
        if command.is_response:
            connection.deliver(Response.of(command, bytes(raw.body)))
        else:
            self._bare_request(command, raw, connection).fail(error)

    def _bare_request(self, command: Command, raw: RawCommand, connection: Connection) -> Request[NoFields]:
        return Request(
            command.code,
            NoFields(),
            raw.body,
            connection,
            command.opaque,
            command.version,
            command.language,
            command.is_oneway,
            SERIALIZE_NAMES[raw.serialize_type],
            raw,
            self._stopwatch,
            self._now_ms(),
        )


def _guarded(route: Route, guard: Guard) -> Route:
    """The same for those whom the guard lets pass."""
    check, handle = guard.check, route.handle

    def handle_checked(request: Request[Any]) -> Answer:
        check(request)
        return handle(request)

    return Route(route.header, handle_checked)


def _unreadable(code: int, error: HeaderError) -> RmqError:
    """RocketMQ answers SYSTEM_ERROR, and so do we. Clients of requests of our own are told that it is their fault."""
    return InvalidArgument(error.message, hint=error.hint) if code in OWN_CODES else error

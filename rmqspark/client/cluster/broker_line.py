"""Requests to wherever a broker is now, each with one time for both the answer and, should one have to be made, the
connection."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rmqspark.client.cluster.connections import serves_here
from rmqspark.client.cluster.futures import after
from rmqspark.errors import Unreachable
from rmqspark.remoting.unanswered import waits_for_itself

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from rmqspark.clock import Clock
    from rmqspark.remoting.blocking import BlockingConnection
    from rmqspark.remoting.reply import Body
    from rmqspark.remoting.response import Response

T = TypeVar("T")

Connect: TypeAlias = "Callable[[], BlockingConnection | Future[BlockingConnection]]"
"""Gives a live connection to wherever the broker is now, or the future of one that is being made. Waits for neither,
but a moment for those who asked before (`connections.py`)."""


class BrokerLine:
    """The way to the broker of that name. Raises, and its futures end with, Unreachable where it is not found in time:
    then nothing was sent."""

    def __init__(self, name: str, connect: Connect, clock: Clock) -> None:
        self._name = name
        self._connect = connect
        self._clock = clock

    def call(
        self,
        code: int,
        header: msgspec.Struct | None,
        body: Body,
        *,
        timeout_ms: int,
        extra: dict[str, str] | None = None,
    ) -> Response:
        connection, left_ms = self._connection(timeout_ms)
        return connection.call(code, header, body, timeout_ms=left_ms, extra=extra)

    def send_oneway(self, code: int, header: msgspec.Struct | None, body: Body, *, timeout_ms: int) -> None:
        connection, _ = self._connection(timeout_ms)
        connection.send_oneway(code, header, body)

    def submit(
        self, code: int, header: msgspec.Struct | None, body: Body, *, timeout_ms: int, extra: dict[str, str] | None
    ) -> Future[Response]:
        connection = self._connect()
        if not isinstance(connection, Future):
            return connection.submit(code, header, body, timeout_ms=timeout_ms, extra=extra)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms

        def send(made: BlockingConnection) -> Future[Response]:
            return made.submit(code, header, body, timeout_ms=self._left_ms(deadline_ms, timeout_ms), extra=extra)

        return after(connection, send)

    def with_connection(self, ask: Callable[[BlockingConnection], Future[T]]) -> Future[T]:
        """What `ask` gives, at once where there is a connection."""
        connection = self._connect()
        return after(connection, ask) if isinstance(connection, Future) else ask(connection)

    def _connection(self, timeout_ms: int) -> tuple[BlockingConnection, int]:
        """It, and what it leaves of the time. Conflict in a callback on a thread that makes connections."""
        connection = self._connect()
        if not isinstance(connection, Future):
            return connection, timeout_ms
        if serves_here() and not connection.done():
            raise waits_for_itself()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        try:
            made = connection.result(timeout_ms / 1000)
        except TimeoutError:
            raise self._not_reached(timeout_ms) from None
        return made, self._left_ms(deadline_ms, timeout_ms)

    def _left_ms(self, deadline_ms: int, timeout_ms: int) -> int:
        left_ms = deadline_ms - self._clock.monotonic_ms()
        if left_ms <= 0:
            raise self._not_reached(timeout_ms)
        return left_ms

    def _not_reached(self, timeout_ms: int) -> Unreachable:
        return Unreachable(f"Broker {self._name!r} was not reached within {timeout_ms} ms.", address=self._name)

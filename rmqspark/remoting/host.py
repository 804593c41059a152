"""What a connection and the server that it is of need of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rmqspark.remoting.request import Connection

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rmqspark.remoting.closings import Closings
    from rmqspark.remoting.deadlines import Ticks
    from rmqspark.remoting.limits import Limits
    from rmqspark.remoting.receive import Budget
    from rmqspark.remoting.router import Router
    from rmqspark.remoting.turn import Turn
    from rmqspark.remoting.unsent import UnsentAnswers


class Guest(Connection, Protocol):
    """A connection, as the server knows it that it is of."""

    @property
    def idle(self) -> bool:
        """True if nothing is under way and nothing waits to be sent."""

    def check(self, now: int) -> int | None:
        """Ends it if a deadline has passed; the tick at which to look at it again, or None for never."""

    def close_gently(self) -> None:
        """Sends what is queued, then ends the connection."""


class Host(Protocol):
    """Implemented by `RemotingServer`."""

    router: Router
    limits: Limits
    ticks: Ticks
    shared_buffer: memoryview
    newcomers: Budget
    buffered: Budget
    unsent: UnsentAnswers
    closings: Closings
    going_away: bool
    now: int
    """The current tick."""
    turn: Turn

    def admit(self, connection: Guest) -> str | None:
        """Takes a new connection in; a text says why not."""

    def forget(self, connection: Guest) -> None:
        """The connection has ended."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the rest of a request as a task of the server."""

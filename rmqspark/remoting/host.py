"""What a connection needs of the server that it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rmqspark.remoting.closings import Closings
    from rmqspark.remoting.deadlines import Ticks
    from rmqspark.remoting.limits import Limits
    from rmqspark.remoting.receive import Budget
    from rmqspark.remoting.router import Router
    from rmqspark.remoting.server_connection import ServerConnection
    from rmqspark.remoting.turn import Turn
    from rmqspark.remoting.unsent import UnsentAnswers


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

    def admit(self, connection: ServerConnection) -> str | None:
        """Takes a new connection in; a text says why not."""

    def forget(self, connection: ServerConnection) -> None:
        """The connection has ended."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the rest of a request as a task of the server."""

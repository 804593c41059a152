"""What a connection needs of the server that it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from rmqspark.remoting.closings import Closings
    from rmqspark.remoting.deadlines import Ticks
    from rmqspark.remoting.gathered import Gathered, TakesTogether
    from rmqspark.remoting.limits import Limits
    from rmqspark.remoting.receive import Budget
    from rmqspark.remoting.router import Router
    from rmqspark.remoting.server_connection import ServerConnection
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
    small_requests: int
    """Handled in this turn of the loop, counted by the connections."""
    together: TakesTogether | None
    """Who wants requests gathered in this turn."""

    def admit(self, connection: ServerConnection) -> str | None:
        """Takes a new connection in; a text says why not."""

    def forget(self, connection: ServerConnection) -> None:
        """The connection has ended."""

    def gather(self, requests: Gathered) -> None:
        """Hands requests over at the end of the turn."""

    def hand_over(self) -> None:
        """Does so now."""

    def flush_soon(self, connection: ServerConnection) -> None:
        """Calls the connection's `flush` in the next turn of the loop."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the rest of a request as a task of the server."""

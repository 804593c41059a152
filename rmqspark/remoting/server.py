"""A TCP server for RocketMQ's protocol around a Router.

One loop, one thread, no locks. Work that a handler leaves behind runs as tasks of the server and ends with it.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import TYPE_CHECKING, Any, Self

import structlog

from rmqspark.errors import InvalidArgument, PortInUse
from rmqspark.remoting.address import cannot_listen, format_address, is_loopback
from rmqspark.remoting.closings import Closings
from rmqspark.remoting.deadlines import ticks_of
from rmqspark.remoting.limits import Limits
from rmqspark.remoting.receive import SHARED_BUFFER_BYTES, Budget
from rmqspark.remoting.server_connection import ServerConnection
from rmqspark.remoting.tls.newcomer import Newcomer
from rmqspark.remoting.tls.serving import ServerTls
from rmqspark.remoting.tls.transport import ENCRYPTED_BYTES
from rmqspark.remoting.turn import Turn
from rmqspark.remoting.unsent import UnsentAnswers
from rmqspark.remoting.wheel import TimerWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from types import TracebackType

    from rmqspark.remoting.host import Guest
    from rmqspark.remoting.request import Connection
    from rmqspark.remoting.router import Router
    from rmqspark.remoting.tls.settings import TlsServing

_BACKLOG = 4096  # one that finds no room tries again after a second, then three; Linux allows no more by itself
_PORT_PAIRS_TRIED = 64

log = structlog.get_logger("rmqspark.remoting")


class RemotingServer:
    """Listens while its `async with` block runs. Implements `host.Host`.

    `port` 0 takes any free one. `port_offsets` names the ports beside it that lead to the same place: a broker gives
    (-2,), the "VIP channel" of old clients. `port_setting` is what a user would change, for the error PortInUse.
    `on_close` is told of each connection that ended. With `tls` clients may or must encrypt; InvalidArgument says what
    is wrong with its files. `insecure` must be said to listen beyond loopback, unless the router has a guard.
    """

    def __init__(
        self,
        router: Router,
        *,
        host: str,
        port: int,
        limits: Limits | None = None,
        on_close: Callable[[Connection], None] | None = None,
        port_offsets: Sequence[int] = (),
        port_setting: str = "--port",
        insecure: bool = False,
        tls: TlsServing | None = None,
    ) -> None:
        if not router.is_guarded:
            check_host(host, insecure)
        self.router = router
        self.limits = limits or Limits()
        router.waiting = Budget(self.limits.max_waiting_bytes, "requests that wait")
        self.shared_buffer = memoryview(bytearray(SHARED_BUFFER_BYTES))
        self.newcomers = Budget(self.limits.max_newcomer_bytes)
        self.buffered = Budget(self.limits.max_buffered_bytes)
        self.unsent = UnsentAnswers(self.limits.max_unsent_bytes)
        self.closings = Closings()
        self.going_away = False
        self.now = 0
        self.turn = Turn(router.together)
        self._host = host
        self._wanted_port = port
        self._port_offsets = tuple(port_offsets)
        self._port_setting = port_setting
        self._on_close = on_close
        self._tls = None if tls is None else ServerTls(tls)
        self._encrypted = memoryview(b"" if tls is None else bytearray(ENCRYPTED_BYTES))
        self._tick_ms, self.ticks = ticks_of(self.limits)
        self._wheel: TimerWheel[Guest] = TimerWheel()
        self._ids = itertools.count(1)
        self._connections: dict[int, Guest] = {}
        self._per_address: dict[str, int] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._listeners: list[asyncio.Server] = []
        self._ticker: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._port = 0

    # --- life --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._listeners = await self._listen()
        self._ticker = self._loop.call_later(self._tick_ms / 1000, self._tick)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops accepting, tells newer clients to go away, lets what is under way end (bounded), then closes all."""
        for listener in self._listeners:
            listener.close()
        self.going_away = True
        await self._wait_until(lambda: all(connection.idle for connection in self._connections.values()))
        for task in list(self._tasks):
            task.cancel()
        for connection in list(self._connections.values()):
            connection.close_gently()
        await self._wait_until(lambda: not self._connections)
        for connection in list(self._connections.values()):
            connection.close("the server closes")
        while self._connections or self._tasks:
            await self._change()
        if self._ticker is not None:
            self._ticker.cancel()
        self.closings.report()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    @property
    def address(self) -> str:
        """host:port."""
        return format_address(self._host, self._port)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def close_connection(self, connection_id: int, reason: str) -> None:
        """Ends the connection of that id, if it is still there."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            connection.close(reason)

    # --- what connections use ----------------------------------------------------------------------------------------

    def admit(self, connection: Guest) -> str | None:
        """Takes a new connection in; a text says why not."""
        address = connection.peer[0]
        here = self._per_address.get(address, 0)
        self._connections[connection.id] = connection
        self._per_address[address] = here + 1
        if len(self._connections) > self.limits.max_connections:
            return f"there are {self.limits.max_connections} connections already"
        if here >= self.limits.max_connections_per_address:
            return f"there are {here} connections from this address already"
        if self.going_away:
            return "the server closes"
        self._wheel.add(connection, self.now + self.ticks.visit)
        return None

    def forget(self, connection: Guest) -> None:
        """The connection has ended."""
        if self._connections.pop(connection.id, None) is None:
            return
        left = self._per_address[connection.peer[0]] - 1
        if left:
            self._per_address[connection.peer[0]] = left
        else:
            del self._per_address[connection.peer[0]]
        self._changed.set()
        if self._on_close is not None:
            self._on_close(connection)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the rest of a request as a task of the server."""
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _listen(self) -> list[asyncio.Server]:
        tries = _PORT_PAIRS_TRIED if self._wanted_port == 0 and self._port_offsets else 1
        for attempt in range(1, tries + 1):
            listeners = [await self._listen_on(self._wanted_port)]
            self._port = listeners[0].sockets[0].getsockname()[1]
            try:
                for offset in self._port_offsets:
                    listeners += [await self._listen_on(self._port + offset)]
            except (PortInUse, OverflowError):
                for listener in listeners:
                    listener.close()
                if attempt == tries:
                    raise
            else:
                return listeners
        raise AssertionError("the loop returns or raises")

    async def _listen_on(self, port: int) -> asyncio.Server:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            return await self._loop.create_server(
                self._connected, self._host, port, family=family, backlog=_BACKLOG, reuse_address=True
            )
        except OSError as error:
            raise cannot_listen(error, self._host, port, self._port_setting) from error

    def _connected(self) -> ServerConnection | Newcomer:
        connection = ServerConnection(self, next(self._ids))
        return connection if self._tls is None else Newcomer(connection, self._tls, self._encrypted)

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(self._tick_ms / 1000, self._tick)
        self._wheel.advance()
        self.now = self._wheel.now
        if self.now % self.ticks.report == 0:
            self.closings.report()
            if self._tls is not None:
                self._tls.look()

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._changed.set()

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Returns when the condition holds, at the latest after the time that closing allows."""
        try:
            async with asyncio.timeout(self.limits.close_timeout_ms / 1000):
                while not condition():
                    await self._change()
        except TimeoutError:
            log.warning("closing with work left", connections=len(self._connections), tasks=len(self._tasks))

    async def _change(self) -> None:
        """Waits for an end of a task or connection, or a little while for what announces itself by nothing."""
        self._changed.clear()
        try:
            async with asyncio.timeout(0.02):
                await self._changed.wait()
        except TimeoutError:
            return


def check_host(host: str, insecure: bool) -> None:
    """Raises InvalidArgument for a host beyond this machine, unless `insecure`."""
    if is_loopback(host):
        return
    if not insecure:
        raise InvalidArgument(
            f"Refusing to listen on {host}: without authentication, all who reach it may do anything.",
            hint="Listen on 127.0.0.1, ask who they are (authentication_enabled = true), or say insecure = true "
            "(--insecure) if the network keeps others out.",
        )
    log.warning("listening without authentication beyond this machine", host=host)

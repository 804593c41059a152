"""A RemotingServer in a thread of its own, on both event loops, and raw sockets to talk to it."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import uvloop

from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.remoting.router import Router
from rmqspark.remoting.server import RemotingServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from rmqspark.protocol.commands.command import Command
    from rmqspark.remoting.router import Routes

PATIENCE_S = 60
# What writelines() is given piles up in asyncio's own loop of these: python/cpython#127655. Servers run in uvloop.
NEVER_PAUSES = (3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2)


class Served:
    """A server that runs until its test ends."""

    def __init__(self, server: RemotingServer, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        self.server = server
        self._loop = loop
        self._thread = thread
        self._closed = False

    @property
    def address(self) -> str:
        return self.server.address

    @property
    def port(self) -> int:
        return self.server.port

    def run(self, work: Callable[[], Any]) -> Any:
        """Calls a function on the server's loop."""

        async def call() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(PATIENCE_S)

    def start_closing(self) -> Future[None]:
        """Begins a graceful close; the future ends with it."""
        self._closed = True
        return asyncio.run_coroutine_threadsafe(self.server.close(), self._loop)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Returns when a condition about the server holds, looked at on its loop."""

        async def wait() -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not condition():  # noqa: ASYNC110 - any condition at all, so nothing announces it
                    await asyncio.sleep(0.002)

        asyncio.run_coroutine_threadsafe(wait(), self._loop).result(PATIENCE_S)

    def stop(self) -> None:
        if not self._closed:
            self.start_closing().result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


class Serve(Protocol):
    def __call__(self, routes: Routes, **options: Any) -> Served: ...


@pytest.fixture(params=["uvloop", "asyncio"])
def serve(request: pytest.FixtureRequest) -> Iterator[Serve]:
    """Starts servers: `serve(routes, limits=..., ...)`."""
    with ExitStack() as stack:

        def start(routes: Routes, **options: Any) -> Served:
            loop = uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, daemon=True)
            thread.start()
            server = RemotingServer(Router([routes]), **{"host": "127.0.0.1", "port": 0, **options})
            asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(PATIENCE_S)
            served = Served(server, loop, thread)
            stack.callback(served.stop)
            return served

        yield start


@pytest.fixture
def pauses(request: pytest.FixtureRequest) -> None:
    """For tests of a loop that says when it has more to write than it should."""
    if NEVER_PAUSES and request.node.callspec.params["serve"] == "asyncio":
        pytest.skip("asyncio's own loop pauses nobody before Python 3.12.9 and 3.13.2")


class RawClient:
    """A socket that sends what a test likes and reads commands."""

    def __init__(self, address: str, *, receive_buffer: int | None = None) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect((host, int(port)))
        self._frames = FrameDecoder()
        self._ready: list[tuple[Command, bytes]] = []

    def request(self, code: int, opaque: int = 1, body: bytes = b"", **options: Any) -> None:
        self.socket.sendall(b"".join(encode_request(code, opaque, body=body, **options)))

    def receive(self) -> tuple[Command, bytes]:
        """The next command."""
        while not self._ready:
            chunk = self.socket.recv(1 << 20)
            assert chunk, "the server closed the connection"
            for frame in self._frames.feed(chunk):
                raw = split_frame(frame)
                self._ready.append((decode_command(raw), bytes(raw.body)))
        return self._ready.pop(0)

    def is_closed_by_server(self) -> bool:
        """Waits for the end of the connection; False if something else comes."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


@pytest.fixture
def raw_client() -> Iterator[Callable[..., RawClient]]:
    """Opens raw connections: `raw_client(address)`."""
    with ExitStack() as stack:

        def connect(address: str, **options: Any) -> RawClient:
            client = RawClient(address, **options)
            stack.callback(client.socket.close)
            return client

        yield connect

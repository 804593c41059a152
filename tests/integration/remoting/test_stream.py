"""Bytes both ways between servers, on the event loop that servers run on."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import uvloop

from rmqspark.errors import HandshakeFailed, InvalidArgument, Unreachable
from rmqspark.remoting.access import Tls
from rmqspark.remoting.stream import Stream, open_stream
from rmqspark.remoting.tls.serving import ServerTls

from .tls_talk import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from typing import Any

    from tests.certificates import Authority

pytestmark = pytest.mark.integration
PATIENCE_S = 60
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


def run(loop: Callable[[], asyncio.AbstractEventLoop], talk: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(talk)


@asynccontextmanager
async def pair(tls: ServerTls | None = None, access: Tls | None = None) -> AsyncIterator[tuple[Stream, Stream]]:
    """The client's end and the server's."""
    accepted: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = Stream(reader, writer)
        try:
            if tls is not None and await stream.peek() == 0x16:
                await stream.secure(tls.session())
        except OSError:  # which the client's end tells
            stream.close()
        else:
            accepted.set_result(stream)

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = await open_stream(address, access, timeout_s=PATIENCE_S, limit=1 << 20)
        if tls is not None and access is None:
            client.write(b"?")
        ours = await accepted
        if tls is not None and access is None:
            assert await ours.read(1) == b"?"
        yield client, ours
        client.close()
        ours.close()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("way", ["plain", "permitted", "tls"])
def test_what_is_written_is_read(authority: Authority, loop: Any, way: str) -> None:
    """In both directions, more than any buffer holds, and then the end."""
    data = bytes(range(256)) * 8_000

    async def talk() -> None:
        tls = None if way == "plain" else ServerTls(serving(authority))
        async with pair(tls, Tls(authority.path) if way == "tls" else None) as (client, server):
            for one, other in ((client, server), (server, client)):
                one.bound_unsent(1 << 16)
                for at in range(0, len(data), 100_000):
                    one.write(data[at : at + 100_000])
                reading = asyncio.create_task(other.read_exactly(len(data)))
                await one.drain()
                assert await reading == data
            client.close()
            assert await server.read(10) == b""
            with pytest.raises(EOFError):
                await server.read_exactly(1)

    run(loop, talk())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("way", ["plain", "tls"])
def test_a_connection_that_is_reset_is_an_error_and_no_bug(authority: Authority, loop: Any, way: str) -> None:
    """Reading, writing and closing say so, as of any connection that broke."""

    async def talk() -> None:
        tls = ServerTls(serving(authority)) if way == "tls" else None
        async with pair(tls, Tls(authority.path) if way == "tls" else None) as (client, server):
            reset(server)
            with pytest.raises((ConnectionError, EOFError)):
                await client.read_exactly(1)
            with pytest.raises(ConnectionError):
                await write_on(client)
            client.close()

    run(loop, talk())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("way", ["plain", "tls"])
def test_who_takes_nothing_does_not_keep_what_is_closed(
    authority: Authority, loop: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is unsent is let go after a while, and the socket with it: nobody counts it any more."""
    monkeypatch.setattr(Stream, "last_words_s", 0.05)

    async def talk() -> None:
        tls = ServerTls(serving(authority)) if way == "tls" else None
        async with pair(tls, Tls(authority.path) if way == "tls" else None) as (_, server):
            fd = server._writer.get_extra_info("socket").fileno()
            there = os.fstat(fd).st_ino
            server.write(bytes(16 << 20))
            server.close()
            async with asyncio.timeout(PATIENCE_S):
                while is_open(fd, there):  # noqa: ASYNC110 - nobody tells of it
                    await asyncio.sleep(0.01)

    run(loop, talk())


def is_open(fd: int, inode: int) -> bool:
    try:
        return os.fstat(fd).st_ino == inode
    except OSError:
        return False


async def write_on(stream: Stream) -> None:
    for _ in range(1000):
        stream.write(b"more")
        await stream.drain()


def reset(stream: Stream) -> None:
    """As when a process is killed that has not read everything."""
    transport = stream._writer.transport
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def test_errors_name_what_is_wrong(authority: Authority, stranger: Authority) -> None:
    """Nobody there, no host, no TLS, and another's certificate."""

    async def talk() -> None:
        async with pair(ServerTls(serving(authority))) as (client, _):
            address = "{}:{}".format(*client._writer.get_extra_info("peername"))
            with pytest.raises(HandshakeFailed, match="is not trusted"):
                await open_stream(address, Tls(stranger.path), timeout_s=PATIENCE_S, limit=1 << 16)
        with pytest.raises(OSError, match="refused|Connect call failed"):
            await open_stream(address, None, timeout_s=PATIENCE_S, limit=1 << 16)
        with pytest.raises(Unreachable, match="cannot be the name of a host"):
            await open_stream("a..b:1", Tls(authority.path), timeout_s=PATIENCE_S, limit=1 << 16)
        with pytest.raises(InvalidArgument):
            await open_stream("nowhere", None, timeout_s=PATIENCE_S, limit=1 << 16)

    asyncio.run(talk())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_server_that_never_shakes_hands_is_named(authority: Authority, loop: Any) -> None:
    """It listens, and says nothing."""

    async def talk() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
            with pytest.raises(TimeoutError, match=f"{address} does not answer in time"):
                await open_stream(address, Tls(authority.path), timeout_s=0.1, limit=1 << 16)

    run(loop, talk())

"""Large pieces within one machine are not paced, whatever the system paces; seen on real connections."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.pacing import LARGE_BYTES, stop_pacing
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Request, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import Serve

pytestmark = pytest.mark.integration


def _is_paced(connection: socket.socket) -> bool:
    name: bytes = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.startswith(b"bbr")


@contextmanager
def _pair(*, source: str = "127.0.0.1") -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a paced connection to 127.0.0.1, which comes from `source`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname(), source_address=(source, 0))
        other, _ = listener.accept()
    with one, other:
        _pace(one, other)
        yield one, other


def _pace(*ends: socket.socket) -> None:
    for end in ends:
        try:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
        except OSError:
            pytest.skip("this system has no BBR, so it paces nothing")


@contextmanager
def _ends_at(port: int) -> Iterator[list[socket.socket]]:
    """Both ends of the connections of this process to `port`, the client's first."""
    ends = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # no socket, or the directory that is being listed
            ends.append(socket.socket(fileno=os.dup(int(name))))
    try:
        clients = [end for end in ends if _port(end.getpeername) == port]
        yield [*clients, *(end for end in ends if _port(end.getsockname) == port and _port(end.getpeername))]
    finally:
        for end in ends:
            end.close()


def _port(name: Callable[[], Any]) -> int:
    """0 for what has none: a listener has no peer, a Unix socket no port."""
    with suppress(OSError, IndexError, TypeError):
        return int(name()[1])
    return 0


def test_within_a_machine() -> None:
    """Each end speaks for what it sends itself."""
    with _pair() as (one, other):
        stop_pacing(one)
        assert (_is_paced(one), _is_paced(other)) == (False, True)
        stop_pacing(other)
        assert not _is_paced(other)
        one.sendall(b"x")
        assert other.recv(1) == b"x"


def test_between_machines() -> None:
    """Two addresses may be two machines: there the system's word stands."""
    with _pair(source="127.0.0.2") as (one, _):
        stop_pacing(one)
        assert _is_paced(one)


def test_what_is_no_connection() -> None:
    """A socket that has ended, or is none of TCP's, is left alone."""
    with _pair() as (one, _):
        one.close()
        stop_pacing(one)
    one, other = socket.socketpair()
    with one, other:
        stop_pacing(one)


def test_what_the_system_has_chosen_otherwise() -> None:
    """Only pacing is taken off: another congestion control stays."""
    with _pair() as (one, _):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        before = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        stop_pacing(one)
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) == before


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="only Linux lists the sockets of a process there")
def test_client_and_server(serve: Serve) -> None:
    """The first large request and the first large answer end it, each for its own end; small ones do not."""

    def echo(request: Request[Any]) -> Reply:
        return Reply(body=bytes(request.body) if request.fields.get("echo") else b"")

    server = serve({RequestCode.GET_MAX_OFFSET: Route(None, echo)})
    connection = BlockingConnection(server.address)
    try:
        connection.call(RequestCode.GET_MAX_OFFSET, timeout_ms=60_000)  # the server has taken the connection in by then
        with _ends_at(server.port) as ends:
            client, accepted = ends
            _pace(client, accepted)
            for body, fields, paced in (
                (b"small", {"echo": "1"}, (True, True)),
                (bytes(LARGE_BYTES), {}, (False, True)),
                (bytes(LARGE_BYTES), {"echo": "1"}, (False, False)),
            ):
                answer = connection.call(RequestCode.GET_MAX_OFFSET, None, body, timeout_ms=60_000, extra=fields)
                assert bytes(answer.body) == (body if fields else b"")
                assert (_is_paced(client), _is_paced(accepted)) == paced
    finally:
        connection.close()

"""What a client of REST may take before anybody knows who it is: memory, time, places."""

from __future__ import annotations

import socket
import sys
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from rmqspark.admin.http_connection import MOST_HEADER_BYTES, MOST_OF_AN_ADDRESS, HttpConnection, Phase

from .conftest import ADMIN_TOKEN, Rest, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration

PATIENCE_S = 60
SOON_S = 0.1


@pytest.fixture(scope="module")
def guarded(mq: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    with served(mq.namesrv, tmp_path_factory.mktemp("clients"), admin_token=ADMIN_TOKEN) as rest:
        yield rest


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gets much time."""
    monkeypatch.setattr(HttpConnection, "allowed_s", dict.fromkeys(Phase, SOON_S))
    monkeypatch.setattr(HttpConnection, "unread_s", SOON_S)


def connected(rest: Rest, source: str = "127.0.0.1") -> socket.socket:
    parts = urlsplit(rest.url)
    return socket.create_connection((parts.hostname, parts.port), PATIENCE_S, source_address=(source, 0))


def ends(client: socket.socket) -> bytes:
    """What comes until the server has hung up."""
    received = b""
    with suppress(ConnectionError):
        while piece := client.recv(1 << 16):
            received += piece
    return received


def test_a_header_without_an_end_is_not_kept(guarded: Rest) -> None:
    """Nor one of many lines: memory follows no promise, and nobody needs a token for that (S8)."""
    for line in (b"x" * 1000, b"X-Line: 1\r\n" * 100):
        with connected(guarded) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
            for _ in range(2 * MOST_HEADER_BYTES // len(line)):
                client.sendall(line)
            assert ends(client).startswith(b"HTTP/1.1 400")


def test_a_request_of_two_lengths_is_the_last_of_its_connection(guarded: Rest) -> None:
    """A proxy in front that goes by the other one would take what is behind it for a part of it: nobody else's request
    is put in there."""
    with connected(guarded) as client:
        client.sendall(b"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n")
        client.sendall(b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answers = ends(client)
    assert answers.startswith(b"HTTP/1.1 400")
    assert answers.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /healthz HT",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-More: ",
        b"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        b"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\n",
    ],
)
@pytest.mark.usefixtures("hurried")
def test_who_does_not_come_to_an_end_is_hung_up_on(guarded: Rest, begun: bytes) -> None:
    """In its first header, in one behind it, in a body (S11)."""
    with connected(guarded) as client:
        client.sendall(begun)
        ends(client)
    assert guarded.client.get("/healthz").status_code == 200


@pytest.mark.usefixtures("hurried")
def test_who_does_not_take_its_answer_is_hung_up_on(guarded: Rest) -> None:
    """What waits for it would be kept for as long as it likes."""
    asked = b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\nGET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(guarded) as client, suppress(ConnectionError):
        while True:  # until nothing more is taken, and then all is gone
            client.sendall(asked * 100)


@pytest.mark.usefixtures("hurried")
def test_who_leaves_the_end_of_its_last_answer_is_hung_up_on(guarded: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little that is: a connection that is closed goes only when all is taken, and has its place until then."""
    made: list[HttpConnection] = []
    monkeypatch.setattr(HttpConnection, "connection_made", noting(made, HttpConnection.connection_made))
    with narrow(guarded) as client:
        wait_until(lambda: bool(made))
        transport = made[0].transport
        for _ in range(1_000):
            client.sendall(ASKED)
            wait_until(lambda: made[0].cycle is not None and made[0].cycle.response_complete)
            if transport.get_write_buffer_size():
                break
        client.sendall(ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        wait_until(lambda: made[0] not in made[0].connections)


ASKED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def noting(made: list[HttpConnection], connection_made: Callable[..., None]) -> Callable[..., None]:
    def note(connection: HttpConnection, transport: Any) -> None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection_made(connection, transport)
        transport.set_write_buffer_limits(1 << 20)  # less than that, and nobody waits for it
        made.append(connection)

    return note


def narrow(rest: Rest) -> socket.socket:
    """A connection that holds little by itself of what is not read."""
    parts = urlsplit(rest.url)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((parts.hostname, parts.port))
    return client


def wait_until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.001)


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is there without asking")
def test_no_address_takes_all_places(guarded: Rest) -> None:
    """One that has many connections is refused more, and others are served."""
    with ExitStack() as stack:
        many = [stack.enter_context(connected(guarded, "127.0.0.3")) for _ in range(MOST_OF_AN_ADDRESS)]
        assert ends(stack.enter_context(connected(guarded, "127.0.0.3"))) == b""
        other = stack.enter_context(connected(guarded, "127.0.0.2"))
        for client in (other, many[0]):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert ends(client).startswith(b"HTTP/1.1 200")

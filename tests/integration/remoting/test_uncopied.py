"""Answers whose bytes lie in a file, by real sockets: whole, in their order, and out of that file."""

from __future__ import annotations

import os
from contextlib import suppress
from errno import EIO
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rmqspark.errors import DamagedFile
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.remoting.router import Reply, Request, Route, Routes

from .test_remoting_server import ECHO, assert_serves, echo
from .tls_talk import EncryptedRawClient, serving, trusting

if TYPE_CHECKING:
    from pathlib import Path

    from tests.certificates import Authority

    from .conftest import RawClient

pytestmark = pytest.mark.integration

PATIENCE_S = 20
READ = RequestCode.RMQ_BULK_READ
CONTENT = b"".join(b"%07d " % number for number in range(1 << 20))  # 8 MiB, every eight bytes others


class Region:
    """A part of a file that has CONTENT. Notes how many of its bytes went uncopied, and how many were read."""

    def __init__(self, file: int, start: int, size: int, went: dict[str, Any]) -> None:
        self._place = (file, start, size)
        self._went = went

    def __len__(self) -> int:
        return self._place[2]

    def send(self, descriptor: int) -> int:
        taken = os.sendfile(descriptor, *self._place)
        self._went["uncopied"] += taken
        return taken

    def after(self, taken: int) -> Region:
        file, start, size = self._place
        return Region(file, start + taken, size - taken, self._went)

    def read(self) -> memoryview:
        file, start, size = self._place
        if "error" in self._went:
            self._went["met"].set()
            raise self._went["error"]
        self._went["read"] += size
        return memoryview(os.pread(file, size, start))


@pytest.fixture
def went() -> dict[str, int]:
    return {"uncopied": 0, "read": 0}


@pytest.fixture
def routes(tmp_path: Path, went: dict[str, int]) -> Any:
    """READ answers with the bytes of a file from the place that its body names on, between two short parts."""
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    file = os.open(path, os.O_RDONLY)

    def read(request: Request[Any]) -> Reply:
        start, size = map(int, bytes(request.body).split())
        middle = size // 3
        regions = (Region(file, start, middle, went), Region(file, start + middle, size - middle, went))
        return Reply(body=(b"<", *regions, b">"))

    yield {ECHO: Route(None, echo), READ: Route(None, read)}
    os.close(file)


def ask(client: RawClient, *places: tuple[int, int]) -> None:
    """A read of each of these places, and a word behind each of them, all at once."""
    frames: list[bytes] = []
    for number, (start, size) in enumerate(places):
        frames += map(bytes, encode_request(READ, 2 * number, body=b"%d %d" % (start, size)))
        frames += map(bytes, encode_request(ECHO, 2 * number + 1, body=b"%d" % number))
    client.socket.sendall(b"".join(frames))


def receive(client: RawClient, *places: tuple[int, int]) -> None:
    """What was asked for comes, in its order."""
    for number, (start, size) in enumerate(places):
        for opaque, body in (2 * number, b"<%b>" % CONTENT[start : start + size]), (2 * number + 1, b"%d" % number):
            command, came = client.receive()
            assert command.opaque == opaque
            assert came == body


@pytest.mark.parametrize("size", [60_000, 1_000_000, len(CONTENT)])
def test_it_goes_uncopied(serve: Any, raw_client: Any, routes: Routes, went: dict[str, int], size: int) -> None:
    """Whoever takes answers as they come gets hardly any of one that way that was copied."""
    client = raw_client(serve(routes).address)
    for start in (0, len(CONTENT) - size):
        ask(client, (start, size))
        receive(client, (start, size))
    assert went["uncopied"] + went["read"] == 2 * size
    assert went["uncopied"] >= 2 * size // 8  # an untried socket takes less than all of the largest


def test_who_takes_nothing_for_a_while(serve: Any, raw_client: Any, routes: Routes, went: dict[str, int]) -> None:
    """What a socket has no room for is read and waits its turn, with what was asked for behind it."""
    client = raw_client(serve(routes).address, receive_buffer=65536)
    places = [(start, 3_000_000) for start in range(0, 5_000_000, 1_000_000)]
    ask(client, *places)
    assert_serves(serve(routes), raw_client)
    receive(client, *places)
    assert went["read"] > 0
    assert went["uncopied"] > 0


def test_encrypted_it_is_read(serve: Any, routes: Routes, went: dict[str, int], authority: Authority) -> None:
    """What goes out then is no bytes of the file."""
    served = serve(routes, tls=serving(authority))
    tls = trusting(authority).tls
    assert tls is not None
    client = EncryptedRawClient(served.address, tls)
    ask(client, (8, 500_000))
    receive(client, (8, 500_000))
    client.socket.close()
    assert went == {"uncopied": 0, "read": 500_000}


@pytest.mark.faults
@pytest.mark.parametrize("error", [DamagedFile("gone"), OSError(EIO, "planned"), MemoryError("planned")], ids=repr)
def test_what_cannot_be_read_in_the_middle_of_an_answer(
    serve: Any, raw_client: Any, routes: Routes, went: dict[str, Any], error: Exception
) -> None:
    """Its head has promised bytes that nothing else may take the place of: the connection ends, and others go on."""
    went["error"], went["met"] = error, Event()
    served = serve(routes)
    client = raw_client(served.address, receive_buffer=65536)
    with capture_logs() as logs:
        ask(client, (0, len(CONTENT)))
        assert went["met"].wait(PATIENCE_S), "who takes nothing leaves no room for all of it"
        received = bytearray()
        with suppress(ConnectionResetError):
            while chunk := client.socket.recv(1 << 20):
                received += chunk
    assert went["uncopied"] > 0
    head = received.index(b"<")
    assert received[head + 1 :] == CONTENT[: len(received) - head - 1]
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["answers could not be written"]
    assert_serves(served, raw_client)

"""How many turns of the loop an answer takes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.encoding import encode_request, encode_response
from rmqspark.remoting.router import Route, Router
from rmqspark.remoting.server import RemotingServer
from rmqspark.remoting.server_connection import ServerConnection

if TYPE_CHECKING:
    from rmqspark.remoting.request import Request


class Wire(asyncio.Transport):
    """The other end of a connection: keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def answer_soon(request: Request[Any]) -> None:
    asyncio.get_running_loop().call_soon(request.reply)


def take_and_answer_soon(envelope: Any, raw: Any, connection: Any) -> bool:
    connection.under_way += 1
    response = b"".join(encode_response(envelope.opaque, 0))
    asyncio.get_running_loop().call_soon(connection.answer, response, 1)
    return True


async def talk(route: Route) -> list[bytes]:
    """Three requests that come in one read, answered later in the same turn of the loop."""
    router = Router([{RequestCode.GET_BROKER_RUNTIME_INFO: route}])
    async with RemotingServer(router, host="127.0.0.1", port=0) as server:
        connection, wire = ServerConnection(server, 1), Wire()
        connection.connection_made(wire)
        stream = b"".join(b"".join(encode_request(RequestCode.GET_BROKER_RUNTIME_INFO, opaque)) for opaque in (1, 2, 3))
        connection.get_buffer(-1)[: len(stream)] = stream
        connection.buffer_updated(len(stream))
        await asyncio.sleep(0)
        assert connection.idle
        connection.connection_lost(None)
    return wire.written


@pytest.mark.parametrize("take", [None, take_and_answer_soon], ids=["handled", "taken"])
def test_what_is_answered_in_the_turn_of_its_request_leaves_with_it(take: Any) -> None:
    """A send waits for no further round of the broker, and pipelined ones share a write."""
    (written,) = asyncio.run(talk(Route(None, answer_soon, take)))
    assert written.count(b'"flag":1') == 3


class FullWire(Wire):
    """One that there is no memory to write to."""

    def write(self, data: Any) -> None:
        raise MemoryError("planned by the test")


def test_answers_that_cannot_be_written_do_not_keep_others_back() -> None:
    """Of a turn's connections the one at fault is closed; the others have their answers."""

    async def scene() -> None:
        async with RemotingServer(Router([]), host="127.0.0.1", port=0) as server:
            wires = FullWire(), Wire()
            connections = [ServerConnection(server, number) for number in (1, 2)]
            for connection, wire in zip(connections, wires, strict=True):
                connection.connection_made(wire)
                connection.send([b"answer"])
            with capture_logs() as logs:
                await asyncio.sleep(0)
            assert wires[1].written == [b"answer"]
            assert [wire.is_aborted for wire in wires] == [True, False]
            assert [line["event"] for line in logs if line["log_level"] == "error"] == ["answers could not be written"]
            for connection in connections:
                connection.connection_lost(None)

    asyncio.run(scene())

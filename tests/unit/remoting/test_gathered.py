"""Requests that are alike are handed over together at the end of a turn, and nobody's order is lost by it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.remoting.gathered import LEAST_TOGETHER, are_alike
from rmqspark.remoting.limits import Limits
from rmqspark.remoting.receive import Budget, FrameReceiver
from rmqspark.remoting.router import Route, Router
from rmqspark.remoting.server import RemotingServer
from rmqspark.remoting.server_connection import ServerConnection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from rmqspark.remoting.gathered import Gathered
    from rmqspark.remoting.request import Request

CLIENTS = 24
MANY = LEAST_TOGETHER // CLIENTS


class Handlers:
    """Takes sends together, if it is in the mood, and other requests one by one; notes what came."""

    def __init__(self) -> None:
        self.words: set[int] = set()
        self.takes = self.takes_mixed = True
        self.has_no_memory = False
        self.came: list[tuple[str, int, int]] = []  # how, by which connection, opaque

    def take_together(self, requests: Sequence[Gathered]) -> bool:
        if self.has_no_memory:
            raise MemoryError
        takes = self.takes and (self.takes_mixed or are_alike(requests))
        if takes:
            for alike in requests:
                for at in accumulate(alike.sizes[:-1], initial=0):
                    self.came.append(("together", alike.connection.id, opaque_of(alike.frames[at:])))
                alike.connection.answer(b"done", len(alike.sizes))
        return takes

    def handle(self, request: Request[Any]) -> None:
        self.came.append(("alone", request.connection.id, request.opaque))
        asyncio.get_running_loop().call_soon(request.reply)  # in this turn, as a send is answered


class Wire(asyncio.Transport):
    """The other end of a connection: keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.ended = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.ended

    def abort(self) -> None:
        self.ended = True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def request(opaque: int, code: RequestCode = RequestCode.SEND_MESSAGE_V2, body: bytes = b"x") -> bytes:
    return b"".join(encode_request(code, opaque, None, body, serialize="ROCKETMQ"))


def opaque_of(frame: bytes) -> int:
    return int.from_bytes(frame[13:17], "big")


class Clients:
    """Connections of a server whose last turn brought many requests."""

    def __init__(self, server: RemotingServer, handlers: Handlers) -> None:
        self.handlers = handlers
        self.connections = [ServerConnection(server, 1000 + number) for number in range(CLIENTS)]
        self.wires = [Wire() for _ in self.connections]
        for connection, wire in zip(self.connections, self.wires, strict=True):
            connection.connection_made(wire)

    def send(self, client: int, stream: bytes) -> None:
        """The bytes come in one read, or in two where the first is of what was begun."""
        connection = self.connections[client]
        while stream:
            room = connection.get_buffer(-1)
            part, stream = stream[: len(room)], stream[len(room) :]
            room[: len(part)] = part
            connection.buffer_updated(len(part))

    async def turns(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def turn(self, streams: Sequence[bytes]) -> list[tuple[str, int, int]]:
        """One read of each connection; returns what was handled and how."""
        self.handlers.came.clear()
        for client, stream in enumerate(streams):
            self.send(client, stream)
        await self.turns()
        return [(how, client - 1000, opaque) for how, client, opaque in self.handlers.came]


@asynccontextmanager
async def connected(limits: Limits | None = None) -> AsyncIterator[Clients]:
    """Clients that are taken together from the next turn on."""
    handlers = Handlers()
    route = Route(None, handlers.handle)
    routes = {RequestCode.SEND_MESSAGE_V2: route, RequestCode.GET_BROKER_RUNTIME_INFO: route}
    router = Router([routes], None, handlers)
    async with RemotingServer(router, host="127.0.0.1", port=0, limits=limits) as server:
        clients = Clients(server, handlers)
        await clients.turn([b"".join(request(n) for n in range(MANY + 1))] * CLIENTS)
        handlers.words.add(int.from_bytes(request(1)[4:8], "big"))
        try:
            yield clients
        finally:
            for connection in clients.connections:
                connection.connection_lost(None)


def test_many_that_are_alike_are_handed_over_together() -> None:
    """In the order of each connection; their answers leave in the same turn."""

    async def talk() -> None:
        async with connected() as clients:
            stream = b"".join(request(n) for n in range(MANY))
            came = await clients.turn([stream] * CLIENTS)
            assert came == [("together", client, n) for client in range(CLIENTS) for n in range(MANY)]
            assert [wire.written[-1] for wire in clients.wires] == [b"done"] * CLIENTS
            assert not any(connection.under_way for connection in clients.connections)

    asyncio.run(talk())


def test_several_lengths_are_handed_over_together_too() -> None:
    """In the order they came; where that is refused, those are tried that are alike."""

    async def talk() -> None:
        async with connected() as clients:
            clients.handlers.words.add(int.from_bytes(request(1, body=b"longer")[4:8], "big"))
            mixed = b"".join(request(n, body=b"longer" * (n % 2)) for n in range(MANY))
            alike = b"".join(request(n) for n in range(LEAST_TOGETHER))
            came = await clients.turn([mixed, alike, mixed])
            numbers = [*((0, n) for n in range(MANY)), *((1, n) for n in range(LEAST_TOGETHER))]
            assert came == [("together", *number) for number in [*numbers, *((2, n) for n in range(MANY))]]
            clients.handlers.takes_mixed = False
            came = await clients.turn([mixed, alike, mixed])
            assert came[:LEAST_TOGETHER] == [("together", 1, n) for n in range(LEAST_TOGETHER)]
            assert came[LEAST_TOGETHER:] == [("alone", client, n) for client in (0, 2) for n in range(MANY)]
            assert not any(connection.under_way for connection in clients.connections)

    asyncio.run(talk())


def test_what_is_refused_is_handled_one_by_one() -> None:
    """In the same order, and each is answered."""

    async def talk() -> None:
        async with connected() as clients:
            clients.handlers.takes = False
            stream = b"".join(request(n) for n in range(MANY))
            came = await clients.turn([stream] * CLIENTS)
            assert came == [("alone", client, n) for client in range(CLIENTS) for n in range(MANY)]
            assert not any(connection.under_way for connection in clients.connections)

    asyncio.run(talk())


def test_no_more_are_under_way_than_may_be() -> None:
    """Of those that are handled one by one, too: the others are told to come later."""

    async def talk() -> None:
        async with connected(Limits(max_requests_under_way=30)) as clients:
            clients.handlers.takes = False
            stream = b"".join(request(n) for n in range(LEAST_TOGETHER))
            assert await clients.turn([stream]) == [("alone", 0, n) for n in range(30)]
            assert clients.connections[0].under_way == 0
            told = b"".join(clients.wires[0].written)
            assert told.count(b"too many requests of this connection are under way") == LEAST_TOGETHER - 30

    asyncio.run(talk())


def test_where_that_fails_the_connections_end() -> None:
    """Nobody waits for an answer that will not come, and others are served."""

    async def talk() -> None:
        async with connected() as clients:
            clients.handlers.has_no_memory = True
            stream = b"".join(request(n) for n in range(LEAST_TOGETHER))
            assert await clients.turn([stream]) == []
            assert [wire.ended for wire in clients.wires[:2]] == [True, False]
            other = request(7, RequestCode.GET_BROKER_RUNTIME_INFO, b"")
            assert await clients.turn([b"", other]) == [("alone", 1, 7)]

    asyncio.run(talk())


def test_few_are_handled_one_by_one() -> None:
    """And after a turn of few the next are not even gathered."""

    async def talk() -> None:
        async with connected() as clients:
            assert await clients.turn([request(1)] * CLIENTS) == [("alone", client, 1) for client in range(CLIENTS)]
            clients.send(0, request(2))
            assert clients.handlers.came[-1] == ("alone", 1000, 2)
            await asyncio.sleep(0)

    asyncio.run(talk())


def test_another_request_behind_them_waits_for_its_turn() -> None:
    """A connection's requests are handled in the order they were sent, whatever they are."""

    async def talk() -> None:
        async with connected() as clients:
            clients.handlers.came.clear()
            sends = [request(n) for n in range(LEAST_TOGETHER)]
            for stream in (b"".join(sends), request(777, RequestCode.GET_BROKER_RUNTIME_INFO, b""), request(778)):
                clients.send(0, stream)
            await clients.turns()
            wanted = [*(("together", n) for n in range(LEAST_TOGETHER)), ("alone", 777), ("alone", 778)]
            assert [(how, opaque) for how, _, opaque in clients.handlers.came] == wanted
            other = request(779, RequestCode.GET_BROKER_RUNTIME_INFO, b"of another length")
            came = await clients.turn([request(1) + other + request(2), other + request(3)])
            assert came == [("alone", 0, 1), ("alone", 0, 779), ("alone", 0, 2), ("alone", 1, 779), ("alone", 1, 3)]

    asyncio.run(talk())


def test_a_frame_that_is_not_whole_waits_for_its_rest() -> None:
    """What is whole is handed over; the rest comes with the next read."""

    async def talk() -> None:
        async with connected() as clients:
            stream = b"".join(request(n) for n in range(LEAST_TOGETHER))
            came = await clients.turn([stream + request(500)[:9]])
            assert [opaque for _, _, opaque in came] == list(range(LEAST_TOGETHER))
            came = await clients.turn([request(500)[9:] + stream])
            assert [opaque for _, _, opaque in came] == [500, *range(LEAST_TOGETHER)]

    asyncio.run(talk())


def test_a_stream_that_makes_no_sense_behind_them_costs_its_own_connection() -> None:
    """The requests ahead of it were sent, and are handled."""

    async def talk() -> None:
        async with connected() as clients:
            stream = b"".join(request(n) for n in range(LEAST_TOGETHER))
            came = await clients.turn([stream + b"\xff" * 20, stream])
            assert len(came) == 2 * LEAST_TOGETHER
            assert [wire.ended for wire in clients.wires[:2]] == [True, False]

    asyncio.run(talk())


@pytest.mark.parametrize("takes", [True, False], ids=["few", "refused"])
def test_a_header_that_makes_no_sense_costs_its_own_connection(takes: bool) -> None:
    """Though it came together with those of others, which are handled. What its own connection sent behind it is
    not."""

    async def talk() -> None:
        async with connected() as clients:
            clients.handlers.takes = takes
            count = 1 if takes else MANY
            whole = b"".join(request(n) for n in range(count))
            senseless = whole[:17] + b"\x7f" * (len(request(0)) - 18) + whole[len(request(0)) - 1 :]
            came = await clients.turn([whole, request(7) + senseless] + [whole] * 3)
            assert [wire.ended for wire in clients.wires[:5]] == [False, True, False, False, False]
            others = [("alone", client, n) for client in (0, 2, 3, 4) for n in range(count)]
            assert sorted(came) == sorted([*others, ("alone", 1, 7)])

    asyncio.run(talk())


def test_what_is_gathered_is_bounded() -> None:
    """A turn of megabytes is handed over in pieces."""

    async def talk() -> None:
        async with connected() as clients:
            clients.handlers.words.add(int.from_bytes(request(1, body=bytes(8000))[4:8], "big"))
            clients.handlers.came.clear()
            for client in range(CLIENTS):
                clients.send(client, request(1, body=bytes(8000)) * 30)
            assert 500 <= len(clients.handlers.came) < 30 * CLIENTS
            await clients.turns()
            assert len(clients.handlers.came) == 30 * CLIENTS

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("stream", "taken"),
    [
        (b"", 0),
        (request(1)[:7], 0),
        (request(1)[:-1], 0),
        (request(1), 1),
        (request(1) + request(2) + request(3), 3),
        (request(1) + request(2) + request(3)[:20], 0),
        (request(1) + request(2, body=b"longer") + request(3), 3),
        (request(1) + request(2, body=b"longer")[:-1], 0),
        (request(1) + request(2)[:7], 0),
        (request(1) + b"".join(encode_request(RequestCode.SEND_MESSAGE_V2, 1)), 0),
        (request(1) + b"\0\0\0\3" + request(1)[4:], 0),
        (b"".join(encode_request(RequestCode.SEND_MESSAGE_V2, 1)) + request(1), 0),
        (b"\0\0\0\3" + request(1)[4:], 0),  # shorter than its header
        (b"\x7f\xff\xff\xff" + request(1)[4:], 0),  # longer than any frame
    ],
)
def test_only_whole_frames_of_known_headers_are_gathered(stream: bytes, taken: int) -> None:
    """All or none of what has come."""
    receiver = FrameReceiver(memoryview(bytearray(1 << 16)), Budget(1 << 20), 1 << 20)
    receiver.writable()[: len(stream)] = stream
    receiver.received(len(stream))
    words = {int.from_bytes(request(1)[4:8], "big")}
    word, frame_bytes, sizes, frames = receiver.take_whole(words)
    assert len(sizes) == taken
    assert frames == stream[: sum(sizes)]
    assert (word in words) == (len(set(sizes)) == 1)
    assert sizes == [frame_bytes] * taken or not frame_bytes
    assert receiver.partial == (len(frames) < len(stream))

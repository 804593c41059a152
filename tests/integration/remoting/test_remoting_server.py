"""The server, over real sockets, on both event loops."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rmqspark.errors import InvalidArgument, PortInUse
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.encoding import encode_request, encode_response
from rmqspark.remoting.limits import Limits
from rmqspark.remoting.router import Reply, Request, Route, Router, Routes
from rmqspark.remoting.server import RemotingServer
from rmqspark.testing.ports import reserved_port

if TYPE_CHECKING:
    from rmqspark.remoting.request import Connection

pytestmark = pytest.mark.integration

ECHO = RequestCode.SEND_MESSAGE_V2
LARGE = RequestCode.RMQ_BULK_READ
PARK = RequestCode.PULL_MESSAGE


def echo(request: Request[Any]) -> Reply:
    return Reply(body=bytes(request.body))


def routes(parked: list[Request[Any]] | None = None, large: bytes = b"") -> Routes:
    return {
        ECHO: Route(None, echo),
        LARGE: Route(None, lambda request: Reply(body=large)),
        PARK: Route(None, lambda request: None if parked is None else parked.append(request)),
    }


def assert_serves(served: Any, raw_client: Any) -> None:
    """The server still answers somebody who does nothing wrong."""
    client = raw_client(served.address)
    client.request(ECHO, 5, b"hello")
    command, body = client.receive()
    assert (command.opaque, body) == (5, b"hello")


def test_pipelined_answers_keep_their_order(serve: Any, raw_client: Any) -> None:
    """Requests sent without waiting are all answered, in their order."""
    client = raw_client(serve(routes()).address)
    frames = [b"".join(encode_request(ECHO, number, body=b"%d" % number)) for number in range(500)]
    client.socket.sendall(b"".join(frames))
    for number in range(500):
        command, body = client.receive()
        assert (command.opaque, body) == (number, b"%d" % number)


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 8, 9, 60, 100])
def test_requests_cut_anywhere(serve: Any, raw_client: Any, cut: int) -> None:
    """It does not matter where the network divides a request."""
    client = raw_client(serve(routes()).address)
    stream = b"".join(encode_request(ECHO, 1, body=b"a" * 50)) + b"".join(encode_request(ECHO, 2, body=b"b"))
    client.socket.sendall(stream[:cut])
    client.socket.sendall(stream[cut:])
    assert client.receive()[1] == b"a" * 50
    assert client.receive()[1] == b"b"


@pytest.mark.parametrize("size", [100_000, 262_144, 1_000_000, 9_000_000])
def test_big_bodies_both_ways(serve: Any, raw_client: Any, size: int) -> None:
    """Bodies of megabytes arrive and come back as they were, also one after the other."""
    client = raw_client(serve(routes()).address)
    for turn in range(2):
        body = bytes([turn + 1]) * size
        sender = threading.Thread(target=client.request, args=(ECHO, turn, body))
        sender.start()
        command, answered = client.receive()
        sender.join()
        assert command.opaque == turn
        assert answered == body


def test_small_requests_behind_big_ones(serve: Any, raw_client: Any) -> None:
    """A small request right behind a big one is found."""
    client = raw_client(serve(routes()).address)
    stream = b"".join(
        b"".join(encode_request(ECHO, number, body=b"x" * size)) for number, size in enumerate([400_000, 3, 500_000, 7])
    )
    sender = threading.Thread(target=client.socket.sendall, args=(stream,))
    sender.start()
    assert [len(client.receive()[1]) for _ in range(4)] == [400_000, 3, 500_000, 7]
    sender.join()


@pytest.mark.faults
@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 64,
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\x00\x00\xff1234",  # a header longer than its frame
        b"\x00\x00\x00\x08\x07\x00\x00\x041234",  # a header of no known kind
        b"\x00\x00\x00\x08\x00\x00\x00\x041234",  # a header that is no object
        b"\x7f\xff\xff\xff" + b"\x00" * 64,
    ],
)
def test_garbage_ends_its_connection_only(serve: Any, raw_client: Any, garbage: bytes) -> None:
    """Whoever sends garbage is cut off; nobody else notices."""
    served = serve(routes())
    neighbour = raw_client(served.address)
    neighbour.request(ECHO, 1)
    neighbour.receive()
    offender = raw_client(served.address)
    with capture_logs() as logs:
        offender.socket.sendall(garbage)
        assert offender.is_closed_by_server()
    assert [entry["event"] for entry in logs] == ["connection closed"]
    assert logs[0]["reason"]
    neighbour.request(ECHO, 2)
    assert neighbour.receive()[0].opaque == 2


def test_a_crowd_that_is_closed_is_one_line_of_log(serve: Any, raw_client: Any) -> None:
    """A thousand connections that break off do not fill the disk with log; level debug names each."""
    with capture_logs() as logs:
        served = serve(routes())
        for _ in range(20):
            offender = raw_client(served.address)
            offender.socket.sendall(b"\xff" * 8)
            assert offender.is_closed_by_server()
        served.start_closing().result(60)
    told = [entry for entry in logs if entry["log_level"] != "debug"]
    assert [(entry["event"], entry["count"]) for entry in told] == [("connections closed", 20)]
    assert "a frame of -1 bytes" in told[0]["last_reason"]
    assert len(logs) == 21


def test_tls_is_refused_in_words(serve: Any, raw_client: Any) -> None:
    """A client that speaks TLS where it is off is cut off, and the log says how to have it."""
    client = raw_client(serve(routes()).address)
    with capture_logs() as logs:
        client.socket.sendall(bytes.fromhex("16030100c8010000c40303"))
        assert client.is_closed_by_server()
    assert logs[0]["reason"] == "the client speaks TLS, which is off here (tls_server_mode)"


@pytest.mark.faults
def test_many_that_do_not_read_are_bounded_together(serve: Any, raw_client: Any) -> None:
    """However many clients ask and do not read, what waits for them all is bounded; those that waited longest go."""
    limits = Limits(outgoing_high_bytes=2 << 20, max_unsent_bytes=10 << 20)
    served = serve(routes(large=bytes(4 << 20)), limits=limits)
    idlers = []
    for number in range(20):
        idler = raw_client(served.address, receive_buffer=4096)
        for opaque in range(3):
            idler.request(LARGE, opaque)
        idlers.append(idler)
        neighbour = raw_client(served.address)
        neighbour.request(LARGE, number)
        assert len(neighbour.receive()[1]) == 4 << 20
        neighbour.socket.close()
    served.wait_until(lambda: served.server.unsent.total_bytes <= limits.max_unsent_bytes)
    served.wait_until(lambda: served.server.connection_count <= 5)
    assert_serves(served, raw_client)


@pytest.mark.faults
def test_cut_within_a_frame(serve: Any, raw_client: Any) -> None:
    """A client that dies in the middle of a request leaves nothing behind."""
    served = serve(routes())
    client = raw_client(served.address)
    client.socket.sendall(b"".join(encode_request(ECHO, 1, body=b"x" * 1_000_000))[:500_000])
    served.wait_until(lambda: served.server.connection_count == 1)
    client.socket.close()
    served.wait_until(lambda: served.server.connection_count == 0)
    served.run(lambda: served.server.newcomers.take(served.server.limits.max_newcomer_bytes))
    served.run(lambda: served.server.newcomers.give_back(served.server.limits.max_newcomer_bytes))
    assert_serves(served, raw_client)


def test_oneway_is_never_answered(serve: Any, raw_client: Any) -> None:
    """Oneway requests, known and unknown, get no answer."""
    client = raw_client(serve(routes()).address)
    client.request(ECHO, 1, oneway=True)
    client.request(9999, 2, oneway=True)
    client.request(ECHO, 3)
    assert client.receive()[0].opaque == 3


@pytest.mark.faults
@pytest.mark.usefixtures("pauses")
def test_a_slow_reader_is_not_read(serve: Any, raw_client: Any) -> None:
    """A client that takes no answers is no longer listened to, and costs bounded memory; then it gets them all."""
    served = serve(routes(large=bytes(1 << 20)), limits=Limits(outgoing_high_bytes=1 << 20))
    client = raw_client(served.address, receive_buffer=65536)
    asked = 64
    client.socket.sendall(b"".join(b"".join(encode_request(LARGE, number)) for number in range(asked)))
    assert_serves(served, raw_client)
    connection = served.run(lambda: next(iter(served.server._connections.values())))
    served.wait_until(lambda: connection._write_paused)
    assert served.run(lambda: connection._transport.get_write_buffer_size()) <= 3 << 20
    for number in range(asked):
        command, body = client.receive()
        assert (command.opaque, len(body)) == (number, 1 << 20)


@pytest.mark.faults
def test_two_hundred_connections(serve: Any, raw_client: Any) -> None:
    """Two hundred clients at once are all served, and all forgotten when they go."""
    served = serve(routes())
    clients = [raw_client(served.address) for _ in range(200)]
    for turn in range(3):
        for number, client in enumerate(clients):
            client.request(ECHO, number, b"%d" % turn)
        for number, client in enumerate(clients):
            command, body = client.receive()
            assert (command.opaque, body) == (number, b"%d" % turn)
    for client in clients:
        client.socket.close()
    served.wait_until(lambda: served.server.connection_count == 0)


@pytest.mark.faults
def test_connections_are_limited_per_address(serve: Any, raw_client: Any) -> None:
    """One address gets so many connections and no more; when one goes, another may come."""
    served = serve(routes(), limits=Limits(max_connections_per_address=2))
    first, second = raw_client(served.address), raw_client(served.address)
    for client in (first, second):
        client.request(ECHO)
        client.receive()
    with capture_logs() as logs:
        assert raw_client(served.address).is_closed_by_server()
    assert "from this address" in logs[0]["reason"]
    first.socket.close()
    served.wait_until(lambda: served.server.connection_count == 1)
    assert_serves(served, raw_client)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "no whole frame in time"),
        (b"\x00\x00\x01", "no whole frame in time"),
    ],
)
def test_slow_first_frame(serve: Any, raw_client: Any, sent: bytes, reason: str) -> None:
    """A connection that brings no request within its time is closed."""
    served = serve(routes(), limits=Limits(first_frame_timeout_ms=60))
    with capture_logs() as logs:
        client = raw_client(served.address)
        with suppress(ConnectionError):  # a busy machine sends it too late
            client.socket.sendall(sent)
        assert client.is_closed_by_server()
    assert logs[0]["reason"] == reason


@pytest.mark.faults
def test_slow_frame(serve: Any, raw_client: Any) -> None:
    """A request that trickles in is given up after its time, also from a client that was fine before."""
    client = raw_client(serve(routes(), limits=Limits(frame_timeout_ms=60)).address)
    client.request(ECHO)
    client.receive()
    with capture_logs() as logs:
        client.socket.sendall(b"\x00\x00\x01\x00half a frame")
        assert client.is_closed_by_server()
    assert logs[0]["reason"] == "a frame takes too long"


@pytest.mark.faults
def test_idle(serve: Any, raw_client: Any) -> None:
    """A connection that has nothing to say is closed in the end."""
    served = serve(routes(), limits=Limits(idle_timeout_ms=60))
    with capture_logs() as logs, suppress(ConnectionError):  # a busy machine asks too late
        client = raw_client(served.address)
        client.request(ECHO)
        while client.socket.recv(1 << 16):
            pass
    assert logs[0]["reason"] == "idle for too long"


@pytest.mark.faults
def test_incomplete_frames_have_a_budget(serve: Any, raw_client: Any) -> None:
    """Strangers cannot fill the memory with beginnings of long requests."""
    served = serve(routes(), limits=Limits(max_newcomer_bytes=1_000_000))
    client = raw_client(served.address)
    with capture_logs() as logs:
        try:
            client.socket.sendall(b"".join(encode_request(ECHO, 1, body=b"x" * 4_000_000)))
        except ConnectionError:
            pass
        else:
            assert client.is_closed_by_server()
    assert "incomplete frames" in logs[0]["reason"]
    assert_serves(served, raw_client)


def test_too_many_requests_under_way(serve: Any, raw_client: Any) -> None:
    """A client with too many requests waiting is told that the server is busy, and may go on when some are answered."""
    parked: list[Request[Any]] = []
    served = serve(routes(parked), limits=Limits(max_requests_under_way=2))
    client = raw_client(served.address)
    for opaque in range(3):
        client.request(PARK, opaque)
    command, _ = client.receive()
    assert (command.opaque, command.code) == (2, ResponseCode.SYSTEM_BUSY)
    served.run(lambda: parked[0].reply())
    assert client.receive()[0].opaque == 0
    client.request(ECHO, 9)
    assert client.receive()[0].opaque == 9


def test_requests_that_wait_are_kept_up_to_a_bound(serve: Any, raw_client: Any) -> None:
    """One too many of all connections is told so; others are served, and so is the next once there is room."""
    waiting: list[asyncio.Future[None]] = []

    async def wait(request: Request[Any]) -> Reply:
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]
        return Reply(body=bytes(request.body))

    routes = {PARK: Route(None, wait), ECHO: Route(None, echo)}
    served = serve(routes, limits=Limits(max_waiting_bytes=1_000_000))
    clients = [raw_client(served.address) for _ in range(3)]
    for number, client in enumerate(clients[:2]):
        client.request(PARK, number, body=b"x" * 400_000)
    served.wait_until(lambda: len(waiting) == 2)
    clients[2].request(PARK, 2, body=b"x" * 400_000)
    assert clients[2].receive()[0].code == ResponseCode.SYSTEM_BUSY
    assert_serves(served, raw_client)
    served.run(lambda: waiting[0].set_result(None))
    assert len(clients[0].receive()[1]) == 400_000
    clients[2].request(PARK, 3, body=b"x" * 400_000)
    served.wait_until(lambda: len(waiting) == 3)
    served.run(lambda: [each.set_result(None) for each in waiting[1:]])
    assert [client.receive()[0].opaque for client in clients[1:]] == [1, 3]


@pytest.mark.parametrize("joined", [False, True], ids=["one by one", "in one piece"])
def test_too_many_oneway_requests_that_wait(serve: Any, raw_client: Any, joined: bool) -> None:
    """From a client that sends faster than its oneway requests are done nothing more is read until some are; others are
    served meanwhile, and none of its requests is lost."""
    waiting: list[Request[Any]] = []
    done: list[int] = []
    served = serve(routes(waiting), limits=Limits(max_requests_under_way=4))
    client = raw_client(served.address)
    frames = [b"".join(encode_request(PARK, opaque, oneway=True)) for opaque in range(20)]
    frames.append(b"".join(encode_request(ECHO, 99)))
    for piece in [b"".join(frames)] if joined else frames:
        client.socket.sendall(piece)
    served.wait_until(lambda: len(waiting) >= 4)
    assert_serves(served, raw_client)
    assert served.run(lambda: len(waiting)) == 4

    def finish_one() -> bool:
        if waiting:
            request = waiting.pop(0)
            request.reply()
            done.append(request.opaque)
        assert len(waiting) <= 4
        return len(done) == 20

    served.wait_until(finish_one)
    assert done == list(range(20))
    assert client.receive()[0].opaque == 99


def test_oneway_handlers_that_wait_are_counted(serve: Any, raw_client: Any) -> None:
    """Also where a coroutine does the work, and fails: what has ended makes room for what comes."""
    begun: list[int] = []
    ended: list[int] = []

    async def fail_later(request: Request[Any]) -> Reply:
        begun.append(request.opaque)
        assert len(begun) - len(ended) <= 2
        await asyncio.sleep(0)
        ended.append(request.opaque)
        raise InvalidArgument("planned by the test")

    served = serve({PARK: Route(None, fail_later), ECHO: Route(None, echo)}, limits=Limits(max_requests_under_way=2))
    client = raw_client(served.address)
    client.socket.sendall(b"".join(b"".join(encode_request(PARK, opaque, oneway=True)) for opaque in range(50)))
    client.request(ECHO, 99)
    assert client.receive()[0].opaque == 99
    served.wait_until(lambda: ended == list(range(50)))


def test_answers_in_any_order(serve: Any, raw_client: Any) -> None:
    """A request that waits holds up no other of its connection."""
    parked: list[Request[Any]] = []
    served = serve(routes(parked))
    client = raw_client(served.address)
    client.request(PARK, 1)
    client.request(ECHO, 2)
    assert client.receive()[0].opaque == 2
    served.run(lambda: parked[0].reply(remark="at last"))
    command, _ = client.receive()
    assert (command.opaque, command.remark) == (1, "at last")


def test_async_handlers_run_side_by_side(serve: Any, raw_client: Any) -> None:
    """Handlers that wait do so side by side, and their requests are answered as they get done."""
    gate: list[asyncio.Event] = []

    async def wait(request: Request[Any]) -> Reply:
        if not gate:
            gate.append(asyncio.Event())
            await gate[0].wait()
        else:
            gate[0].set()
        return Reply(body=bytes(request.body))

    client = raw_client(serve({ECHO: Route(None, wait)}).address)
    client.request(ECHO, 1, b"first")
    client.request(ECHO, 2, b"second")
    assert dict((command.opaque, body) for command, body in (client.receive(), client.receive())) == {
        1: b"first",
        2: b"second",
    }


def test_the_server_asks_and_the_client_answers(serve: Any, raw_client: Any) -> None:
    """The server may ask its clients, in the name of JAVA as it answers; their answers find the question."""
    seen: list[Connection] = []

    async def ask_back(request: Request[Any]) -> Reply:
        seen.append(request.connection)
        answer = await request.connection.call(RequestCode.GET_CONSUMER_RUNNING_INFO, timeout_ms=60_000)
        return Reply(remark=answer.remark)

    served = serve({ECHO: Route(None, ask_back)})
    client = raw_client(served.address)
    client.request(ECHO, 77)
    question, _ = client.receive()
    assert (question.code, question.language) == (RequestCode.GET_CONSUMER_RUNNING_INFO, "JAVA")
    client.socket.sendall(b"".join(encode_response(question.opaque + 1, 0, remark="nobody asked")))
    client.socket.sendall(b"".join(encode_response(question.opaque, 0, remark="fine")))
    command, _ = client.receive()
    assert (command.opaque, command.remark) == (77, "fine")
    served.run(lambda: seen[0].send_request_oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))
    note, _ = client.receive()
    assert (note.code, note.is_oneway) == (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, True)
    assert note.language == "JAVA"


def test_a_question_to_a_client_that_goes(serve: Any, raw_client: Any) -> None:
    """A question to a client that goes away ends in an error, not in waiting."""
    errors: list[Exception] = []

    async def ask_back(request: Request[Any]) -> Reply:
        try:
            await request.connection.call(RequestCode.GET_CONSUMER_RUNNING_INFO, timeout_ms=60_000)
        except Exception as error:
            errors.append(error)
            raise
        return Reply()

    served = serve({ECHO: Route(None, ask_back)})
    client = raw_client(served.address)
    client.request(ECHO)
    client.receive()
    client.socket.close()
    served.wait_until(lambda: len(errors) == 1)
    assert type(errors[0]).__name__ == "ConnectionLost"


def test_on_close_tells_of_every_connection(serve: Any, raw_client: Any) -> None:
    """Whoever keeps something per connection learns when it ends."""
    gone: list[int] = []
    served = serve(routes(), on_close=lambda connection: gone.append(connection.id))
    client = raw_client(served.address)
    client.request(ECHO)
    client.receive()
    client.socket.close()
    served.wait_until(lambda: len(gone) == 1)


def test_closing_lets_requests_end(serve: Any, raw_client: Any) -> None:
    """A server that shuts down answers what it has begun, sends newcomers away, then closes."""
    parked: list[Request[Any]] = []
    served = serve(routes(parked), limits=Limits(close_timeout_ms=60_000))
    client = raw_client(served.address)
    client.request(PARK, 1)
    served.wait_until(lambda: len(parked) == 1)
    closing = served.start_closing()
    served.wait_until(lambda: served.server.going_away)
    client.request(ECHO, 2)
    command, _ = client.receive()
    assert (command.opaque, command.code) == (2, ResponseCode.GO_AWAY)
    served.run(lambda: parked[0].reply(remark="in time"))
    command, _ = client.receive()
    assert (command.opaque, command.remark) == (1, "in time")
    assert client.is_closed_by_server()
    closing.result(60)


def test_closing_does_not_wait_for_ever(serve: Any, raw_client: Any) -> None:
    """A request that never ends does not keep the server from closing."""
    served = serve(routes([]), limits=Limits(close_timeout_ms=50))
    client = raw_client(served.address)
    client.request(PARK, 1)
    client.request(ECHO, 2)
    client.receive()
    with capture_logs():
        served.start_closing().result(60)
    assert client.is_closed_by_server()


def test_closing_does_not_wait_for_who_takes_nothing(serve: Any, raw_client: Any) -> None:
    """A client that never reads its answer does not keep the server from closing."""
    served = serve(routes(large=bytes(15 << 20)), limits=Limits(close_timeout_ms=50))
    client = raw_client(served.address)
    client.request(LARGE, 1)
    served.wait_until(lambda: any(each.unsent_bytes for each in served.server._connections.values()))
    with capture_logs():
        served.start_closing().result(60)


def test_port_in_use(serve: Any) -> None:
    """A port that is taken is an error that names it and the flag that changes it."""
    served = serve(routes())

    async def start() -> None:
        async with RemotingServer(Router([]), host="127.0.0.1", port=served.port, port_setting="--broker-port"):
            raise AssertionError("two servers on one port")

    with pytest.raises(PortInUse, match=rf"{served.port}.*--broker-port"):
        asyncio.run(start())


def test_a_pair_of_ports(serve: Any, raw_client: Any) -> None:
    """A broker answers on its port and on the one two below, also where both were free choices."""
    served = serve(routes(), port_offsets=(-2,))
    for port in (served.port, served.port - 2):
        client = raw_client(f"127.0.0.1:{port}")
        client.request(ECHO, port)
        assert client.receive()[0].opaque == port


def test_half_a_pair_is_none(serve: Any) -> None:
    """Where the second port is taken, the first is not kept either."""

    async def start(port: int) -> None:
        async with RemotingServer(Router([]), host="127.0.0.1", port=port, port_offsets=(-2,)):
            raise AssertionError("two servers on one port")

    with reserved_port(-2) as port:
        served = serve(routes(), port=port - 2)
        with pytest.raises(PortInUse, match=str(served.port)):
            asyncio.run(start(port))
        with socket.create_server(("127.0.0.1", port)):
            pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org"])
def test_beyond_loopback_only_by_name(host: str) -> None:
    """Without authentication nothing listens to the world unless it is told to in so many words."""
    with pytest.raises(InvalidArgument, match="insecure"):
        RemotingServer(Router([]), host=host, port=0)


def test_insecure_by_name(serve: Any, raw_client: Any) -> None:
    """Who says insecure is served, and warned."""
    with capture_logs() as logs:
        served = serve(routes(), host="0.0.0.0", insecure=True)
    assert logs[0]["log_level"] == "warning"
    client = raw_client(f"127.0.0.1:{served.port}")
    client.request(ECHO)
    client.receive()

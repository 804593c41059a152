"""The client's connection against scripted peers and the real server."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.errors import ConnectionLost, InvalidArgument, NoPermission, RequestTimeout, Unreachable
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.consume import OffsetResponseHeader
from rmqspark.remoting import blocking
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.remoting.limits import Limits
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Request, Route
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.ports import reserved_port
from rmqspark.testing.scripted_peer import (
    ScriptedPeer,
    answer,
    ask,
    cut,
    expect,
    expect_answer,
    send_bytes,
    wait_for,
    wait_for_close,
)

if TYPE_CHECKING:
    from rmqspark.protocol.commands.command import Command

pytestmark = pytest.mark.integration

CODE = RequestCode.GET_MAX_OFFSET
LARGE = 12 << 20  # more than the system's buffers of a connection take


def test_call() -> None:
    """A request is sent with its fields and its answer comes back with its own."""
    with ScriptedPeer([expect(CODE), answer(0, b"body", remark="ok", offset="42"), wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        response = connection.call(CODE, timeout_ms=60_000, extra={"topic": "t"})
        connection.close()
    assert (response.code, response.remark, bytes(response.body)) == (0, "ok", b"body")
    assert response.header(OffsetResponseHeader).offset == 42
    assert peer.requests[0].fields == {"topic": "t"}
    assert peer.requests[0].command.language == "PYTHON"


def test_answers_find_their_requests_in_any_order() -> None:
    """Answers that come in another order than the requests find theirs."""
    script = [expect(CODE), expect(CODE), expect(CODE), *(answer(remark=str(n), to=n) for n in (2, 0, 1))]
    with ScriptedPeer([*script, wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        futures = [connection.submit(CODE, timeout_ms=60_000) for _ in range(3)]
        assert [future.result(60).remark for future in futures] == ["0", "1", "2"]
        connection.close()


@pytest.mark.parametrize("ask_it", [BlockingConnection.call, BlockingConnection.submit])
def test_a_connection_on_which_nothing_comes_is_left(ask_it: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request had no answer, nor anything else came: what is between may have forgotten it without a word."""
    monkeypatch.setattr(blocking, "_SILENT_LOOKS", 2)
    with ScriptedPeer([expect(CODE), expect(CODE), wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        patient = connection.submit(CODE, timeout_ms=60_000)
        with suppress(RequestTimeout):
            ask_it(connection, CODE, timeout_ms=20)
        with pytest.raises(ConnectionLost, match="nothing has come for"):
            patient.result(60)
        assert connection.closed
        connection.close()


def test_a_connection_that_waits_in_silence_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nobody has given up: a broker holds a pull for as long as it was asked to."""
    monkeypatch.setattr(blocking, "_SILENT_LOOKS", 1)
    looked = threading.Event()

    def look(connection: BlockingConnection, now: Any = BlockingConnection._look_for_timeouts) -> None:
        now(connection)
        if connection._looks_without_bytes >= 1:
            looked.set()

    monkeypatch.setattr(BlockingConnection, "_look_for_timeouts", look)
    with ScriptedPeer([expect(CODE), wait_for(looked), answer(remark="late"), wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        assert connection.call(CODE, timeout_ms=60_000).remark == "late"
        connection.close()


def test_an_error_code_becomes_its_error() -> None:
    """The code of a refusal turns into the error it stands for when the caller asks."""
    with ScriptedPeer([expect(CODE), answer(ResponseCode.NO_PERMISSION, remark="no"), wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        with pytest.raises(NoPermission, match="no"):
            connection.call(CODE, timeout_ms=60_000).raise_for_code()
        connection.close()


def test_nobody_there() -> None:
    """Where nobody listens the error names the address."""
    with reserved_port() as port, pytest.raises(Unreachable, match=f"127.0.0.1:{port}") as caught:
        BlockingConnection(f"127.0.0.1:{port}")
    assert caught.value.address == f"127.0.0.1:{port}"


def test_what_cannot_be_a_host_is_unreachable() -> None:
    """An international name that cannot be encoded is an error that names the address."""
    with pytest.raises(Unreachable, match="cannot be the name of a host") as caught:
        BlockingConnection("\u00e9..b:9876")
    assert caught.value.address == "\u00e9..b:9876"


def test_no_address() -> None:
    """What is no address is refused before anything is tried."""
    with pytest.raises(InvalidArgument):
        BlockingConnection("localhost")


def test_no_answer_in_time() -> None:
    """A request without an answer ends after its time; the late answer harms nobody."""
    late = threading.Event()
    script = [expect(CODE), wait_for(late), answer(remark="late"), expect(CODE), answer(remark="prompt")]
    with ScriptedPeer([*script, wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        with pytest.raises(RequestTimeout, match=rf"{peer.address} did not answer GET_MAX_OFFSET \(30\)"):
            connection.call(CODE, timeout_ms=20)
        late.set()
        assert connection.call(CODE, timeout_ms=60_000).remark == "prompt"
        connection.close()


def test_an_answer_that_came_while_the_process_was_stopped_counts() -> None:
    """It is there when the process goes on, though its time is over by then; only what is not there yet is late."""
    clock = ManualClock()
    script = [expect(CODE), expect(CODE), lambda _: clock.advance(seconds=600), answer(remark="there", to=0)]
    with ScriptedPeer([*script, wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address, clock=clock)
        there, late = (connection.submit(CODE, timeout_ms=3_000) for _ in range(2))
        assert there.result(60).remark == "there"
        with pytest.raises(RequestTimeout):
            late.result(60)
        connection.close()


def test_a_future_times_out_by_itself() -> None:
    """A request sent without waiting gets its timeout too."""
    clock = ManualClock()
    with ScriptedPeer([expect(CODE), wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address, clock=clock)
        future = connection.submit(CODE, timeout_ms=100)
        clock.advance(ms=101)
        with pytest.raises(RequestTimeout):
            future.result(60)
        connection.close()


def test_a_future_times_out_while_others_are_answered() -> None:
    """The answers to other requests keep none waiting whose own does not come."""
    clock = ManualClock()
    with ScriptedPeer([expect(CODE), *[expect(CODE), answer()] * 2, wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address, clock=clock)
        lost = connection.submit(CODE, timeout_ms=100)
        clock.advance(ms=2_000)
        for _ in range(2):  # it is looked for before another answer is read, and not when nothing has come for a second
            assert connection.call(CODE, timeout_ms=60_000).code == 0
        with pytest.raises(RequestTimeout):
            lost.result(0)
        connection.close()


def test_a_server_that_takes_nothing_costs_each_request_its_own_time() -> None:
    """One that waits long for a stopped server keeps no other beyond its time, and close ends it."""
    over = threading.Event()
    with ScriptedPeer([wait_for(over)]) as peer, ThreadPoolExecutor(1) as threads:
        connection = BlockingConnection(peer.address)
        patient = threads.submit(connection.call, CODE, None, bytes(LARGE), timeout_ms=60_000)
        while select.select([], [connection._socket], [], 0)[1]:  # until it can send no more
            pass
        for send in (connection.call, connection.submit):
            with pytest.raises(RequestTimeout, match=rf"{peer.address} did not answer GET_MAX_OFFSET \(30\)"):
                send(CODE, timeout_ms=20)
        assert not patient.done()
        connection.close()
        with pytest.raises(ConnectionLost):
            patient.result(60)
        over.set()


def test_a_server_that_stopped_for_a_while_is_not_lost() -> None:
    """A request whose time was over in its middle comes whole, late, and what follows is answered."""
    late = threading.Event()
    script = [wait_for(late), expect(CODE), expect(CODE), answer(remark="prompt")]
    with ScriptedPeer([*script, wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        with pytest.raises(RequestTimeout):
            connection.call(CODE, body=bytes(LARGE), timeout_ms=20)
        late.set()
        assert connection.call(CODE, timeout_ms=60_000).remark == "prompt"
        connection.close()
    assert peer.requests[0].body == bytes(LARGE)


@pytest.mark.faults
@pytest.mark.parametrize(
    "last",
    [cut(), send_bytes(b"\x00\x00\x10\x00half a frame"), send_bytes(b"\xff" * 8), send_bytes(b"\x00\x00\x00\x04]]]]")],
)
def test_every_pending_request_learns_of_the_loss(last: Any) -> None:
    """When the connection dies, all that wait are told, and so is who comes later."""
    with ScriptedPeer([expect(CODE), expect(CODE), last]) as peer:
        connection = BlockingConnection(peer.address)
        futures = [connection.submit(CODE, timeout_ms=60_000) for _ in range(2)]
        for future in futures:
            with pytest.raises(ConnectionLost, match=peer.address):
                future.result(60)
        assert connection.closed
        with pytest.raises(ConnectionLost):
            connection.call(CODE, timeout_ms=60_000)
        connection.close()


def test_closing_ends_the_waiting() -> None:
    """Closing a connection tells those that still wait; closing it twice is no mistake."""
    with ScriptedPeer([expect(CODE), wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        future = connection.submit(CODE, timeout_ms=60_000)
        connection.close()
        connection.close()
        with pytest.raises(ConnectionLost, match="closed"):
            future.result(60)
        assert connection.closed


def test_go_away() -> None:
    """A server that shuts down has its clients open another connection, and still answers what it has."""
    script = [expect(CODE), expect(CODE), answer(ResponseCode.GO_AWAY, to=1), answer(remark="still", to=0)]
    with ScriptedPeer([*script, wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        first, second = (connection.submit(CODE, timeout_ms=60_000) for _ in range(2))
        assert second.result(60).code == ResponseCode.GO_AWAY
        assert connection.closed
        assert first.result(60).remark == "still"
        connection.close()


def test_oneway() -> None:
    """A oneway request goes out marked as such, and nothing waits for it."""
    with ScriptedPeer([expect(CODE, oneway=True)]) as peer:
        connection = BlockingConnection(peer.address)
        connection.send_oneway(CODE, body=b"x")
    assert peer.requests[0].body == b"x"
    connection.close()


def test_requests_of_the_server() -> None:
    """What the server asks reaches the client's handler, and its reply reaches the server."""
    asked: list[tuple[int, bytes]] = []
    noticed: Future[None] = Future()
    answered = threading.Event()

    def on_request(command: Command, body: memoryview) -> Reply | None:
        asked.append((command.code, bytes(body)))
        if command.is_oneway:
            noticed.set_result(None)
            return None
        if body == b"fail":
            raise NoPermission("not for you")
        if body == b"bug":
            raise KeyError("oh")
        return Reply(body=b"fine", remark="here")

    script = [
        ask(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, b"note", oneway=True),
        ask(RequestCode.GET_CONSUMER_RUNNING_INFO, b"?", opaque=9),
        expect_answer(),
        ask(RequestCode.GET_CONSUMER_RUNNING_INFO, b"fail"),
        expect_answer(ResponseCode.NO_PERMISSION),
        ask(RequestCode.GET_CONSUMER_RUNNING_INFO, b"bug"),
        expect_answer(ResponseCode.SYSTEM_ERROR),
        lambda conversation: answered.set(),
        wait_for_close(),
    ]
    with ScriptedPeer(script) as peer:
        connection = BlockingConnection(peer.address, on_request=on_request)
        noticed.result(60)
        assert answered.wait(60)
        connection.close()
    assert [code for code, _ in asked] == [40, 307, 307, 307]
    assert (peer.requests[0].command.opaque, peer.requests[0].body) == (9, b"fine")


def test_requests_of_the_server_that_are_answered_later() -> None:
    """Those behind one that takes its time are answered meanwhile; whoever has gone by then hears nothing."""
    futures: list[Future[Reply]] = [Future() for _ in range(4)]
    waiting = iter(futures)

    def on_request(command: Command, body: memoryview) -> Reply | Future[Reply]:
        return next(waiting) if body == b"slow" else Reply(body=b"quick")

    def settle(conversation: Any) -> None:
        futures[0].set_result(Reply(body=b"at last"))
        futures[1].set_exception(NoPermission("not for you"))
        futures[2].set_result(Reply(body=b"nobody asked"))

    info, closed = RequestCode.GET_CONSUMER_RUNNING_INFO, threading.Event()
    script = [
        ask(info, b"slow", opaque=1),
        ask(info, b"slow", opaque=2),
        ask(info, b"slow", opaque=3, oneway=True),
        ask(info, b"slow", opaque=4),
        ask(info, b"", opaque=5),
        expect_answer(),
        settle,
        expect_answer(),
        expect_answer(ResponseCode.NO_PERMISSION),
        lambda conversation: closed.set(),
        wait_for_close(),
    ]
    with ScriptedPeer(script) as peer:
        connection = BlockingConnection(peer.address, on_request=on_request)
        assert closed.wait(60)
        connection.close()
    futures[3].set_result(Reply())
    answers = [(each.command.opaque, each.body) for each in peer.requests]
    assert answers == [(5, b"quick"), (1, b"at last"), (2, b"")]


def test_requests_of_the_server_without_a_handler() -> None:
    """A client that handles no requests says so; the server does not wait."""
    done = threading.Event()
    script = [ask(RequestCode.GET_CONSUMER_RUNNING_INFO), expect_answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)]
    with ScriptedPeer([*script, lambda conversation: done.set(), wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        assert done.wait(60)
        connection.close()


@pytest.mark.parametrize("size", [1, 65_536, 1_000_000, 8 << 20])
def test_bodies_of_any_size(serve: Any, size: int) -> None:
    """Bodies from one byte to eight megabytes go and come as they are, in one piece or in several."""
    served = serve({CODE: Route(None, lambda request: Reply(body=bytes(request.body)))})
    connection = BlockingConnection(served.address)
    body = os.urandom(1024) * (size // 1024) + b"z" * (size % 1024)
    third = len(body) // 3
    for parts in (body, [body[:third], memoryview(body)[third:], b""]):
        assert bytes(connection.call(CODE, body=parts, timeout_ms=60_000).body) == body
    connection.close()


def test_many_small_parts(serve: Any) -> None:
    """A body of more parts than the system takes at once arrives whole."""
    served = serve({CODE: Route(None, lambda request: Reply(body=bytes(request.body)))})
    connection = BlockingConnection(served.address)
    parts = [b"%06d" % number for number in range(3_000)]
    assert bytes(connection.call(CODE, body=parts, timeout_ms=60_000).body) == b"".join(parts)
    connection.close()


@pytest.mark.faults
def test_threads_share_a_connection(serve: Any) -> None:
    """Many threads at once, small and large: every one gets the answer to its own question."""
    served = serve({CODE: Route(None, lambda request: Reply(body=bytes(request.body)))})
    connection = BlockingConnection(served.address)

    def ask_many(number: int) -> None:
        for turn in range(20):
            body = b"%d/%d;" % (number, turn) * (1 if number % 2 else 30_000)
            assert connection.call(CODE, body=body, timeout_ms=60_000).body == body

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(ask_many, number) for number in range(8)]:
            done.result(60)
    connection.close()


@pytest.mark.faults
def test_the_server_closes_under_load(serve: Any) -> None:
    """When the server goes while requests are under way, each ends: answered, sent away or lost."""
    parked: list[Request[Any]] = []
    served = serve({CODE: Route(None, lambda request: parked.append(request))}, limits=Limits(close_timeout_ms=100))
    connection = BlockingConnection(served.address)
    futures = [connection.submit(CODE, timeout_ms=60_000) for _ in range(50)]
    served.wait_until(lambda: len(parked) == 50)
    for request in parked[:25]:
        served.run(request.reply)
    closing = served.start_closing()
    assert [future.result(60).code for future in futures[:25]] == [0] * 25
    for future in futures[25:]:
        with pytest.raises(ConnectionLost):
            future.result(60)
    closing.result(60)
    connection.close()


def test_a_forked_process_finds_the_connection_closed() -> None:
    """A worker forked with an open connection leaves it to its parent and opens its own."""
    with ScriptedPeer([expect(CODE), answer(remark="parent"), wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        connection._pid += 1  # as the child sees it
        assert connection.closed
        with pytest.raises(ConnectionLost, match="another process"):
            connection.call(CODE, timeout_ms=1_000)
        connection._pid -= 1
        assert connection.call(CODE, timeout_ms=60_000).remark == "parent"
        connection.close()


def test_importing_it_is_light() -> None:
    """A Spark task that talks to a broker loads no event loop, no logging library, no NumPy."""
    check = (
        "import sys, rmqspark.remoting.blocking;"
        "print([m for m in ('asyncio', 'structlog', 'numpy', 'uvloop', 'pyarrow') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

"""A server's connection to another server."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.errors import Busy, ConnectionLost, InvalidArgument, RequestTimeout, Unreachable
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.consume import ConsumerGroupRequestHeader
from rmqspark.remoting import connection as connection_module
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.remoting.pending import PendingCalls
from rmqspark.testing.ports import reserved_port
from rmqspark.testing.scripted_peer import (
    ScriptedPeer,
    answer,
    ask,
    cut,
    expect,
    expect_answer,
    send_bytes,
    wait_for_close,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rmqspark.remoting.response import Response

pytestmark = pytest.mark.integration

CODE = RequestCode.REGISTER_BROKER


def converse(peer: ScriptedPeer, talk: Callable[[AsyncConnection], Awaitable[Any]]) -> Any:
    """Opens a connection to the peer, talks, closes it."""

    async def main() -> Any:
        connection = await AsyncConnection.open(peer.address)
        try:
            return await talk(connection)
        finally:
            await connection.close()

    return asyncio.run(main())


def test_call() -> None:
    """A request finds its answer."""
    with ScriptedPeer([expect(CODE), answer(remark="ok"), wait_for_close()]) as peer:
        response = converse(peer, lambda connection: connection.call(CODE, body=b"x", timeout_ms=60_000))
    assert response.remark == "ok"
    assert peer.requests[0].body == b"x"


def test_a_connection_on_which_nothing_comes_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the blocking one: after a request without an answer, if nothing else came for a while."""
    monkeypatch.setattr(connection_module, "_SILENT_S", 0.0)

    async def talk(connection: AsyncConnection) -> None:
        with pytest.raises(RequestTimeout):
            await connection.call(CODE, timeout_ms=20)
        assert connection.closed
        await connection.wait_closed()

    with ScriptedPeer([expect(CODE), wait_for_close()]) as peer:
        converse(peer, talk)


def test_answers_in_any_order() -> None:
    """Several requests at once each find their own answer."""

    async def talk(connection: AsyncConnection) -> list[str | None]:
        calls = [connection.call(CODE, timeout_ms=60_000) for _ in range(3)]
        return [response.remark for response in await asyncio.gather(*calls)]

    script = [expect(CODE), expect(CODE), expect(CODE), *(answer(remark=str(n), to=n) for n in (1, 2, 0))]
    with ScriptedPeer([*script, wait_for_close()]) as peer:
        assert converse(peer, talk) == ["0", "1", "2"]


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".local", "\u00e9..b", "a\0b"])
def test_what_cannot_be_a_host_is_unreachable(host: str) -> None:
    """A name that cannot be encoded, as any broker may register one, is an error that names the address."""
    with pytest.raises(Unreachable, match="cannot be the name of a host") as caught:
        asyncio.run(AsyncConnection.open(f"{host}:9876"))
    assert caught.value.address == f"{host}:9876"


def test_no_answer_in_time() -> None:
    """A request without an answer ends after its time."""
    with ScriptedPeer([expect(CODE), wait_for_close()]) as peer:
        story = rf"{peer.address} did not answer REGISTER_BROKER \(103\)"
        with pytest.raises(RequestTimeout, match=story):
            converse(peer, lambda connection: connection.call(CODE, timeout_ms=20))


@pytest.mark.faults
@pytest.mark.parametrize("last", [cut(), send_bytes(b"\xff" * 8), send_bytes(b"\x00\x00\x00\x04]]]]")])
def test_loss(last: Any) -> None:
    """A connection that dies ends what waits, and what comes later."""

    async def talk(connection: AsyncConnection) -> None:
        with pytest.raises(ConnectionLost):
            await connection.call(CODE, timeout_ms=60_000)
        await connection.wait_closed()
        assert connection.closed
        with pytest.raises(ConnectionLost):
            await connection.call(CODE, timeout_ms=1_000)
        with pytest.raises(ConnectionLost):
            connection.send_oneway(CODE)

    with ScriptedPeer([expect(CODE), last]) as peer:
        converse(peer, talk)


def test_oneway() -> None:
    """A oneway request goes out marked as such."""

    async def talk(connection: AsyncConnection) -> None:
        connection.send_oneway(CODE, body=b"note")

    with ScriptedPeer([expect(CODE, oneway=True)]) as peer:
        converse(peer, talk)
    assert peer.requests[0].body == b"note"


def test_requests_of_the_other_side() -> None:
    """What the other server asks is refused in words; oneway requests are ignored."""

    async def talk(connection: AsyncConnection) -> Any:
        return await connection.call(CODE, timeout_ms=60_000)

    script = [
        ask(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, oneway=True),
        ask(RequestCode.GET_BROKER_CONFIG),
        expect(CODE),
        expect_answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        answer(to=0),
        wait_for_close(),
    ]
    with ScriptedPeer(script) as peer:
        assert converse(peer, talk).code == 0


def test_nobody_there() -> None:
    """Where nobody listens the error names the address."""
    with reserved_port() as port, pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
        asyncio.run(AsyncConnection.open(f"127.0.0.1:{port}"))


def test_calls_under_way_are_limited() -> None:
    """No more than so many requests wait at a time."""

    async def main() -> None:
        calls, sent = PendingCalls("peer", 2), list[int]()
        waiting = [asyncio.create_task(calls.call(sent.append, CODE, 60_000)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await calls.call(sent.append, CODE, 60_000)
        assert sent == [1, 2]
        calls.fail()
        for each in waiting:
            with pytest.raises(ConnectionLost):
                await each

    asyncio.run(main())


def test_a_request_that_cannot_be_sent_keeps_no_place() -> None:
    """However often it is tried: others are sent on the same connection."""

    async def talk(connection: AsyncConnection) -> Response:
        for _ in range(connection_module._MAX_CALLS_UNDER_WAY):
            with pytest.raises(InvalidArgument):
                await connection.call(CODE, ConsumerGroupRequestHeader("\ud800"), timeout_ms=60_000)
        return await connection.call(CODE, timeout_ms=60_000)

    with ScriptedPeer([expect(CODE), answer(), wait_for_close()]) as peer:
        assert converse(peer, talk).code == 0


@pytest.mark.faults
def test_a_connection_ends_though_the_other_side_takes_nothing() -> None:
    """What it was sent is dropped in the end: a broker that stops does not wait for a name server that hangs."""

    async def main(address: str) -> None:
        connection = await AsyncConnection.open(address)
        for _ in range(16):
            connection.send_oneway(CODE, body=bytes(1 << 20))
        await asyncio.wait_for(connection.close(timeout_ms=20), 30)
        assert connection.closed
        await connection.wait_closed()

    with socket.create_server(("127.0.0.1", 0)) as deaf:
        asyncio.run(main(f"127.0.0.1:{deaf.getsockname()[1]}"))

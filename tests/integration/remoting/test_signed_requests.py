"""Both connections sign what they ask, over real sockets."""

from __future__ import annotations

import asyncio
import hmac
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.errors import InvalidArgument, NoPermission
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.headers.consume import GetMaxOffsetRequestHeader
from rmqspark.protocol.signature import signature
from rmqspark.remoting.access import OPEN, Access, Credentials
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Request, Route
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, ask, expect, expect_answer, wait_for_close

if TYPE_CHECKING:
    from rmqspark.testing.scripted_peer import Conversation

pytestmark = pytest.mark.integration

CODE = RequestCode.GET_MAX_OFFSET
ECHO = RequestCode.SEND_MESSAGE_V2
SIGNED = Access(Credentials("RocketMQ", "12345678"))
HEADER = GetMaxOffsetRequestHeader("TopicTest", 3)


def test_the_bytes_of_a_signed_request() -> None:
    """They are those of the unsigned one with two fields more; nothing else changes."""
    fields = {"topic": "TopicTest", "queueId": "3", "AccessKey": "RocketMQ"}
    extra = {"AccessKey": "RocketMQ", "Signature": signature(fields, b"Hello", "12345678")}
    seen: list[bytes] = []

    def take(conversation: Conversation) -> None:
        wanted = b"".join(encode_request(CODE, 1, None, b"Hello", extra=fields | extra))
        while len(b"".join(seen)) < len(wanted):
            seen.append(conversation.socket.recv(1 << 16))
        assert b"".join(seen) == wanted

    with ScriptedPeer([take, wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address, access=SIGNED)
        connection.submit(CODE, HEADER, [b"He", memoryview(b"llo")], timeout_ms=60_000)
        connection.close()


def test_requests_are_signed_and_answers_are_not() -> None:
    """Calls and oneway requests alike; what the server asks is answered as RocketMQ's client does, without a word of
    who answers."""
    done = threading.Event()
    script = [expect(CODE), answer(), expect(CODE, oneway=True), ask(CODE), expect_answer(), lambda _: done.set()]
    with ScriptedPeer([*script, wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address, access=SIGNED, on_request=lambda command, body: Reply())
        connection.call(CODE, HEADER, timeout_ms=60_000)
        connection.send_oneway(CODE, HEADER)
        assert done.wait(60)
        connection.close()
    called, oneway, answered = peer.requests
    assert called.fields == oneway.fields
    assert called.fields["Signature"] == signature(called.fields, b"", "12345678")
    assert answered.fields == {}


def test_an_open_connection_says_nothing() -> None:
    """Without credentials a request has its own fields, and no more."""
    with ScriptedPeer([expect(CODE), answer(), wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address, access=OPEN)
        connection.call(CODE, HEADER, timeout_ms=60_000)
        connection.close()
    assert peer.requests[0].fields == {"topic": "TopicTest", "queueId": "3"}


def test_between_servers() -> None:
    """A broker signs what it asks its name servers, oneway too."""

    async def talk(address: str) -> None:
        connection = await AsyncConnection.open(address, access=SIGNED)
        await connection.call(CODE, HEADER, b"Hello", timeout_ms=60_000)
        connection.send_oneway(CODE, HEADER, b"Hello")
        await connection.close()

    with ScriptedPeer([expect(CODE), answer(), expect(CODE, oneway=True), wait_for_close()]) as peer:
        asyncio.run(talk(peer.address))
    assert [each.fields["AccessKey"] for each in peer.requests] == ["RocketMQ", "RocketMQ"]
    for each in peer.requests:
        assert each.fields["Signature"] == signature(each.fields, b"Hello", "12345678")


def checking(request: Request[Any]) -> Reply:
    """Answers as RocketMQ does: who asks must be known, and must have signed just this."""
    said = request.fields
    right = signature(said, bytes(request.body), "12345678")
    if not said.get("AccessKey"):
        return Reply(code=ResponseCode.NO_PERMISSION, remark="username cannot be null.")
    if said["AccessKey"] != "RocketMQ":
        return Reply(code=ResponseCode.NO_PERMISSION, remark=f"User:{said['AccessKey']} is not found.")
    if not hmac.compare_digest(said["Signature"], right):
        return Reply(code=ResponseCode.NO_PERMISSION, remark="check signature failed.")
    return Reply(body=bytes(request.body))


@pytest.mark.parametrize(
    ("access", "story"),
    [
        (OPEN, "username cannot be null. It wants to know who asks. Say it with RMQ_ACCESS_KEY and RMQ_SECRET_KEY"),
        (Access(Credentials("RocketMQ", "wrong")), "check signature failed. The secret key is not this user's."),
        (Access(Credentials("other", "12345678")), "User:other is not found. The access key names no user"),
    ],
)
def test_a_server_that_checks(serve: Any, access: Access, story: str) -> None:
    """Whoever is not known, or signed with another key, is told what to set and where."""
    connection = BlockingConnection(serve({ECHO: Route(None, checking)}).address, access=access)
    answered = connection.call(ECHO, body=b"x", timeout_ms=60_000)
    with pytest.raises(NoPermission) as refused:
        answered.raise_for_code()
    assert str(refused.value).startswith(story)
    assert "accessKey and secretKey of Spark" in refused.value.hint
    connection.close()


def test_many_threads_and_large_bodies(serve: Any) -> None:
    """Each request has its own signature, however many are under way and in however many pieces their bodies are."""
    connection = BlockingConnection(serve({ECHO: Route(None, checking)}).address, access=SIGNED)
    bodies = [[b"%d" % number * 7_000, b"", bytearray(b"x" * number)] for number in range(40)]

    def call(body: list[bytes]) -> bool:
        answered = connection.call(ECHO, body=body, timeout_ms=60_000, extra={"n": str(len(body))}).raise_for_code()
        return bytes(answered.body) == b"".join(body)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(call, bodies))
    connection.close()


def test_a_field_that_is_no_unicode_says_so_without_a_secret() -> None:
    """What was typed is named; the keys that would have signed it are not."""
    with ScriptedPeer([wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address, access=Access(Credentials("ak", "s3cret", "t0ken")))
        with pytest.raises(InvalidArgument, match="is not valid Unicode") as refused:
            connection.call(CODE, timeout_ms=60_000, extra={"key": "caf\udce9"})
        connection.close()
    assert not any(secret in str(refused.value) for secret in ("s3cret", "t0ken"))

"""From a request to its answer, without a socket."""

from __future__ import annotations

import asyncio
from errno import EIO
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from structlog.testing import capture_logs

from rmqspark.errors import HeaderError, TopicNotFound
from rmqspark.protocol.access_classes import ACCESS
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.command import Buffer, Command, RawCommand, decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request, encode_response
from rmqspark.protocol.commands.frame import MAX_FRAME_BYTES
from rmqspark.protocol.headers.txn import TxnPrepareRequestHeader
from rmqspark.remoting.receive import Budget
from rmqspark.remoting.reply import Reply, reply_after
from rmqspark.remoting.router import Route, Router

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from rmqspark.remoting.request import Request, Result
    from rmqspark.remoting.response import Response

CODE = RequestCode.GET_MAX_OFFSET


class Header(msgspec.Struct):
    topic: str
    queueId: int = 0


class Recorder:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.id = 1
        self.peer = ("10.0.0.9", 4711)
        self.under_way = 0
        self.closed = False
        self.sent: list[RawCommand] = []
        self.delivered: list[Response] = []

    def send(self, buffers: Sequence[Buffer]) -> None:
        self.sent.append(split_frame(b"".join(buffers)[4:]))

    def deliver(self, response: Response) -> None:
        self.delivered.append(response)

    def send_request_oneway(self, *args: Any) -> None:
        raise AssertionError("not used here")

    async def call(self, *args: Any, **kwargs: Any) -> Response:
        raise AssertionError("not used here")

    def close(self, reason: str) -> None:
        raise AssertionError("not used here")

    @property
    def answer(self) -> Command:
        assert len(self.sent) == 1
        return decode_command(self.sent[0])


def raw_request(body: bytes = b"", *, code: int = CODE, oneway: bool = False, **fields: str) -> RawCommand:
    """A request in memory that may be overwritten, as a receive buffer is."""
    buffers = encode_request(code, 7, body=body, oneway=oneway, extra=fields)
    return split_frame(memoryview(bytearray(b"".join(buffers)))[4:])


def route(handle: Any, header: type[msgspec.Struct] | None = Header) -> Router:
    return Router([{CODE: Route(header, handle)}])


def taking(code: int, *, takes: bool) -> tuple[Router, list[tuple[str, bytes]]]:
    """A router whose route may take requests before they are handled, and what it was offered."""
    offered: list[tuple[str, bytes]] = []

    def take(envelope: Any, raw: RawCommand, connection: Any) -> bool:
        offered.append((envelope.extFields.topic, bytes(raw.body)))
        return takes

    return Router([{RequestCode(code): Route(Header, lambda request: Reply(remark="handled"), take)}]), offered


@pytest.mark.parametrize(
    "code", [RequestCode.SEND_MESSAGE, CODE, RequestCode.RMQ_BULK_SEND], ids=["short", "usual", "long"]
)
@pytest.mark.parametrize("takes", [True, False])
def test_what_a_route_takes_is_not_handled(code: RequestCode, takes: bool) -> None:
    """A request is answered by one of the two ways a route may have: what the first leaves, the second answers."""
    router, offered = taking(code, takes=takes)
    connection = Recorder()
    assert router.dispatch(raw_request(b"body", code=code, topic="t"), connection) is None
    assert offered == [("t", b"body")]
    assert [decode_command(raw).remark for raw in connection.sent] == ([] if takes else ["handled"])


def test_a_request_that_could_not_be_taken_is_answered() -> None:
    """What fails on the short way is told as what fails in a handler is; the connection lives on."""

    def take(envelope: Any, raw: RawCommand, connection: Any) -> bool:
        raise MemoryError("none left")

    connection = Recorder()
    router = Router([{CODE: Route(Header, lambda request: Reply(), take)}])
    assert router.dispatch(raw_request(topic="t"), connection) is None
    assert (connection.answer.code, connection.answer.opaque) == (ResponseCode.SYSTEM_ERROR, 7)
    assert "MemoryError: none left" in connection.answer.remark


def test_only_requests_that_want_an_answer_are_taken() -> None:
    """The short way needs not know how not to answer."""
    router, offered = taking(CODE, takes=True)
    connection = Recorder()
    router.dispatch(raw_request(oneway=True, topic="t"), connection)
    router.dispatch(split_frame(b"".join(encode_response(7, 0, Header("t")))[4:]), connection)
    assert not offered


def test_a_reply_answers_its_request() -> None:
    """An answer carries the number of its request, the header and the body the handler gave."""
    connection = Recorder()
    router = route(lambda request: Reply(Header("t", 3), b"body", remark="ok"))
    assert router.dispatch(raw_request(topic="t"), connection) is None
    answer = connection.answer
    assert (answer.opaque, answer.code, answer.remark, answer.is_response) == (7, 0, "ok", True)
    assert answer.fields == {"topic": "t", "queueId": "3"}
    assert bytes(connection.sent[0].body) == b"body"


def test_the_answer_has_the_encoding_of_the_request() -> None:
    """Whoever asks with a binary header is answered with one."""
    connection = Recorder()
    frame = b"".join(encode_request(CODE, 7, Header("t"), serialize="ROCKETMQ"))
    route(lambda request: Reply()).dispatch(split_frame(frame[4:]), connection)
    assert connection.sent[0].serialize_type == 1


def test_errors_become_codes() -> None:
    """What a handler raises reaches the client as the code and text of that error."""

    def handle(request: Request[Header]) -> Reply:
        raise TopicNotFound(request.header.topic)

    connection = Recorder()
    route(handle).dispatch(raw_request(topic="orders"), connection)
    assert connection.answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "orders" in (connection.answer.remark or "")


class Noted:
    """A stopwatch that keeps what it is told of results."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    def now_ms(self) -> int:
        return 0

    def answered(self, code: int, response_code: int, began_ms: int, *, waited: bool, result: Result) -> None:
        self.results.append(result)


def test_a_bug_is_logged_once_and_answered() -> None:
    """A bug in a handler is written down with its story, and counted as one, apart from what is the client's fault;
    the client gets SYSTEM_ERROR, not silence."""

    def handle(request: Request[Header]) -> Reply:
        raise TopicNotFound("t") if request.header.topic == "wrong" else KeyError("surprise")

    connection, noted = Recorder(), Noted()
    router = Router([{CODE: Route(Header, handle)}], stopwatch=noted)
    with capture_logs() as logs:
        router.dispatch(raw_request(topic="t"), connection)
    assert connection.answer.code == ResponseCode.SYSTEM_ERROR
    assert [entry["log_level"] for entry in logs] == ["error"]
    router.dispatch(raw_request(topic="wrong"), Recorder())
    assert noted.results == ["process_request_failed", "success"]


def test_what_the_system_refuses_is_told_in_a_line() -> None:
    """A disk that cannot be read, say, is no bug: each request that meets it says so, and where it was makes no
    difference. It has failed all the same."""

    def handle(request: Request[Header]) -> Reply:
        raise OSError(EIO, "Input/output error")

    connection, noted = Recorder(), Noted()
    router = Router([{CODE: Route(Header, handle)}], stopwatch=noted)
    with capture_logs() as logs:
        router.dispatch(raw_request(topic="t"), connection)
    assert connection.answer.code == ResponseCode.SYSTEM_ERROR
    assert [(line["reason"], "exc_info" in line) for line in logs] == [("[Errno 5] Input/output error", False)]
    assert noted.results == ["process_request_failed"]


@pytest.mark.parametrize(
    ("code", "answer"),
    [(CODE, ResponseCode.SYSTEM_ERROR), (RequestCode.RMQ_TXN_PREPARE, ResponseCode.INVALID_PARAMETER)],
    ids=["RocketMQ's", "ours"],
)
def test_a_field_that_cannot_be_read(code: RequestCode, answer: ResponseCode) -> None:
    """RocketMQ's requests are answered as RocketMQ answers them; who sends one of ours is told that it is wrong."""
    connection = Recorder()
    router = Router([{code: Route(TxnPrepareRequestHeader, lambda request: Reply())}])
    fields = {"transactionalId": "T", "run": "r", "version": str(2**63), "partition": "0", "attempt": "a"}
    router.dispatch(raw_request(code=code, **fields), connection)
    assert connection.answer.code == answer
    assert "9223372036854775807" in (connection.answer.remark or "")


def test_unknown_codes_are_answered() -> None:
    """A request nobody knows is answered, never dropped: its client would wait."""
    connection = Recorder()
    route(lambda request: Reply()).dispatch(raw_request(code=9999), connection)
    assert connection.answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert connection.answer.remark == "request type 9999 not supported"


def test_a_missing_field_is_named() -> None:
    """A request that lacks a field it needs is told which."""
    connection = Recorder()
    route(lambda request: Reply()).dispatch(raw_request(queueId="1"), connection)
    assert connection.answer.code == ResponseCode.SYSTEM_ERROR
    assert "topic" in (connection.answer.remark or "")


def test_an_unreadable_header_is_for_the_connection() -> None:
    """A header that is no header at all is not answered: the connection ends."""
    with pytest.raises(HeaderError):
        route(lambda request: Reply()).dispatch(split_frame(b"\x00\x00\x00\x04]]]]"), Recorder())


@pytest.mark.parametrize("topic", ["t", ""])
def test_oneway_is_never_answered(topic: str) -> None:
    """A oneway request gets no answer, not even to an error."""

    def handle(request: Request[Header]) -> Reply:
        if not request.header.topic:
            raise TopicNotFound("")
        request.reply()
        return Reply()

    connection = Recorder()
    route(handle).dispatch(raw_request(topic=topic, oneway=True), connection)
    assert connection.sent == []
    assert connection.under_way == 0


def answered_with(reply: Reply) -> Command:
    """The answer where a handler gives this at once; it must be the same where it gives it later."""

    async def later(request: Request[Header]) -> Reply:
        return reply

    at_once, afterwards = Recorder(), Recorder()
    assert route(lambda request: reply).dispatch(raw_request(topic="t"), at_once) is None
    run(route(later).dispatch(raw_request(topic="t"), afterwards))
    assert at_once.answer == afterwards.answer
    assert afterwards.under_way == 0
    return at_once.answer


def test_an_answer_that_no_client_would_take_is_told_of() -> None:
    """Longer than a frame it would cost the connection, and with it all that others wait for on it."""
    answer = answered_with(Reply(body=[bytes(MAX_FRAME_BYTES // 2)] * 2))
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "16777216" in (answer.remark or "")


def test_an_answer_that_cannot_be_put_into_bytes_is_a_bug_that_is_answered() -> None:
    """Whoever asked would wait for nothing."""
    with capture_logs() as logs:
        answer = answered_with(Reply(remark="half a pair: \ud800"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert [line["event"] for line in logs] == ["a handler failed"] * 2


def test_only_the_first_answer_counts() -> None:
    """A request is answered once, whatever its handler does."""

    def handle(request: Request[Header]) -> Reply:
        request.reply(code=5)
        return Reply(code=6)

    connection = Recorder()
    route(handle).dispatch(raw_request(topic="t"), connection)
    assert connection.answer.code == 5


def test_parked_requests_are_counted_until_answered() -> None:
    """A request that waits counts as under way until it has its answer, once."""
    parked: list[Request[Header]] = []
    connection = Recorder()
    route(lambda request: parked.append(request)).dispatch(raw_request(topic="t"), connection)
    assert (connection.under_way, connection.sent) == (1, [])
    parked[0].reply()
    parked[0].reply()
    assert connection.under_way == 0
    assert connection.answer.code == 0


def test_the_body_is_taken_back_when_the_handler_returns() -> None:
    """Bytes of one client can never turn up in the message of another: a kept body is an error, not a surprise."""
    parked: list[Request[Header]] = []
    route(lambda request: parked.append(request)).dispatch(raw_request(b"secret", topic="t"), Recorder())
    with pytest.raises(ValueError, match="released"):
        bytes(parked[0].body)
    with pytest.raises(ValueError, match="released"):
        parked[0].fields  # noqa: B018 - the question is the test


def test_async_handlers_keep_body_and_fields() -> None:
    """A handler that waits finds its request unchanged afterwards, whatever was received meanwhile."""
    raw = raw_request(b"body", topic="t", other="x")
    memory = raw.body.obj

    async def handle(request: Request[Header]) -> Reply:
        await asyncio.sleep(0)
        return Reply(body=bytes(request.body), extra=request.fields)

    connection = Recorder()
    rest = route(handle).dispatch(raw, connection)
    assert isinstance(memory, bytearray)
    memory[:] = bytes(len(memory))  # the next read
    run(rest)
    assert bytes(connection.sent[0].body) == b"body"
    assert connection.answer.fields == {"topic": "t", "other": "x"}
    assert connection.under_way == 0


def test_requests_that_wait_have_so_much_room_together() -> None:
    """Each is kept until its handler has gone on, in up to 16 MiB: who sends thousands must not fill the memory."""

    async def handle(request: Request[Header]) -> Reply:
        await asyncio.sleep(0)
        return Reply(body=bytes(request.body[:1]))

    router = route(handle)
    router.waiting = Budget(10_000, "requests that wait")
    connections = [Recorder() for _ in range(4)]
    rests = [router.dispatch(raw_request(bytes(4_000), topic="t"), connection) for connection in connections[:3]]
    assert rests[2] is None
    assert connections[2].answer.code == ResponseCode.SYSTEM_BUSY
    assert "requests that wait" in (connections[2].answer.remark or "")
    assert [connection.under_way for connection in connections] == [1, 1, 0, 0]
    run(rests[0])
    run(router.dispatch(raw_request(bytes(4_000), topic="t"), connections[3]))
    run(rests[1])
    assert [connection.answer.code for connection in connections] == [0, 0, ResponseCode.SYSTEM_BUSY, 0]
    assert router.waiting._left == 10_000


def test_what_is_carried_out_takes_no_room() -> None:
    """Were it refused, who asked for it would have it done once more."""
    done: list[bytes] = []

    def handle(request: Request[Header]) -> Any:
        done.append(bytes(request.body))
        return reply_after(lambda: asyncio.sleep(0), Reply(remark="kept"))

    router, connection = route(handle), Recorder()
    router.waiting = Budget(0)
    rest = router.dispatch(raw_request(b"body", topic="t"), connection)
    assert connection.under_way == 1
    run(rest)
    assert (done, connection.answer.code, connection.answer.remark) == ([b"body"], 0, "kept")
    assert (connection.under_way, router.waiting._left) == (0, 0)


def test_async_errors_become_codes() -> None:
    """An error after waiting is answered as one before."""

    async def handle(request: Request[Header]) -> Reply:
        await asyncio.sleep(0)
        raise TopicNotFound("t")

    connection = Recorder()
    run(route(handle).dispatch(raw_request(topic="t"), connection))
    assert connection.answer.code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("code", [0, int(CODE), 17])
def test_answers_of_the_client_are_delivered(code: int) -> None:
    """An answer of the client to a request of ours is told from a request, also where their codes are the same."""
    connection = Recorder()
    frame = b"".join(encode_response(3, code, Header("t"), b"body"))
    route(lambda request: Reply()).dispatch(split_frame(bytearray(frame)[4:]), connection)
    assert connection.sent == []
    assert (connection.delivered[0].opaque, bytes(connection.delivered[0].body)) == (3, b"body")


def test_truncated_codes_reach_their_handler() -> None:
    """A POP request in a binary header, whose code does not fit, is handled all the same."""
    router = Router([{RequestCode.POP_MESSAGE: Route(None, lambda request: Reply(remark="pop"))}])
    connection = Recorder()
    router.dispatch(raw_request(code=RequestCode.POP_MESSAGE & 0xFFFF), connection)
    assert connection.answer.remark == "pop"


def test_a_code_with_two_handlers_does_not_start() -> None:
    """Two handlers for one request are a mistake that shows at the start."""
    routes = {CODE: Route(None, lambda request: Reply())}
    with pytest.raises(ValueError, match="two handlers"):
        Router([routes, routes])


def test_a_code_without_access_does_not_start() -> None:
    """A request without a class of access does not start the server."""
    unclassed: Any = 12345
    assert unclassed not in ACCESS
    with pytest.raises(ValueError, match="no class of access"):
        Router([{unclassed: Route(None, lambda request: Reply())}])


def run(rest: Coroutine[Any, Any, None] | None) -> None:
    assert rest is not None
    asyncio.run(rest)

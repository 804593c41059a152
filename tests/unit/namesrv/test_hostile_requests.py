"""Requests that nobody in their right mind would send to a name server."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rmqspark.errors import DecodeError
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.server import NameServer
from rmqspark.protocol.bodies.route import RegisterBrokerBody, TopicConfig, TopicConfigTable, TopicRouteData
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.commands.command import Buffer
    from rmqspark.remoting.response import Response

pytestmark = pytest.mark.property

FIELDS = (
    "acceptStandardJsonOnly", "bodyCrc32", "brokerAddr", "brokerId", "brokerName", "cluster", "clusterName",
    "compressed", "enableActingMaster", "haServerAddr", "heartbeatTimeoutMillis", "key", "namespace", "topic", "value",
)  # fmt: skip
CODES = [code for code in RequestCode if code in range(100, 110) or code in range(205, 225) or code in range(304, 328)]
BODIES = (
    RegisterBrokerBody(TopicConfigTable({name: TopicConfig(name) for name in "tu"})).encode(),
    TopicRouteData().encode(),
    b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":null}},"filterServerList":[1]}',
    b"[" * 5_000,
    b'{"queueDatas":[{"perm":99999999999999999999}]}',
)

values = st.one_of(
    st.sampled_from(
        ["", "true", "0", "-1", "1", "9" * 30, "10.0.0.1:10911", "[::1]:1", "a", "t", "../../etc", "\0\n\x1b"]
    ),
    st.text(max_size=20),
)
fields = st.dictionaries(st.sampled_from(FIELDS), values)
bodies = st.one_of(st.sampled_from(BODIES), st.binary(max_size=60))
requests = st.tuples(st.sampled_from(CODES), fields, bodies, st.sampled_from([0, 37, 413, 479]))


class Recorder:
    """A connection that counts what is sent."""

    id = 1
    peer = ("10.6.6.6", 1)
    closed = False

    def __init__(self) -> None:
        self.under_way = 0
        self.answers: list[int] = []

    def send(self, buffers: Sequence[Buffer]) -> None:
        self.answers.append(decode_command(split_frame(b"".join(buffers)[4:])).code)

    def send_request_oneway(self, *args: Any) -> None: ...

    async def call(self, *args: Any, **kwargs: Any) -> Response:
        raise AssertionError("the name server asks nobody")

    def deliver(self, response: Response) -> None: ...

    def close(self, reason: str) -> None: ...


@given(st.lists(requests, min_size=1, max_size=8))
def test_any_fields_any_body(history: list[tuple[RequestCode, dict[str, str], bytes, int]]) -> None:
    """Whatever the fields and bodies of requests say, each is answered once and none finds a bug."""
    router = NameServer(NamesrvConfig(), clock=ManualClock())._server.router
    connection = Recorder()
    with capture_logs() as logs:
        for code, given_fields, body, version in history:
            frame = b"".join(encode_request(code, 1, body=body, extra=given_fields))
            frame = frame.replace(b'"version":479', b'"version":%-3d' % version)
            router.dispatch(split_frame(bytearray(frame)[4:]), connection)
    assert [entry for entry in logs if entry["event"] == "a handler failed"] == []
    assert len(connection.answers) == len(history)


@given(requests, st.data())
def test_any_damaged_frame(request_made: tuple[RequestCode, dict[str, str], bytes, int], data: st.DataObject) -> None:
    """A frame with bytes changed at random is answered or refused, and finds no bug either."""
    code, given_fields, body, _ = request_made
    serialize = data.draw(st.sampled_from(["JSON", "ROCKETMQ"]))
    frame = bytearray(b"".join(encode_request(code, 1, body=body, extra=given_fields, serialize=serialize))[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    router = NameServer(NamesrvConfig(), clock=ManualClock())._server.router
    with capture_logs() as logs, contextlib.suppress(DecodeError):
        router.dispatch(split_frame(frame), Recorder())
    assert [entry for entry in logs if entry["event"] == "a handler failed"] == []

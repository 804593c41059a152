"""RocketMQ's request and reply: a producer asks, a consumer answers, and the answer is the producer's alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from ours import read
from py4j.protocol import Py4JJavaError
from rocketmq import wait_for

from rmqspark.client.admin import AdminClient

if TYPE_CHECKING:
    from jvm import Jvm
    from ours import Up

pytestmark = [pytest.mark.java, pytest.mark.integration]
PATIENCE_MS = 60_000
REPLIES = "DefaultCluster_REPLY_TOPIC"


@pytest.fixture(params=["ours", "stock"])
def namesrv(request: pytest.FixtureRequest) -> str:
    """Either broker's name server: the tests are as true of RocketMQ's."""
    if request.param == "stock":
        return str(request.getfixturevalue("stock"))
    ours: Up = request.getfixturevalue("ours")
    return ours.namesrv


def questions(namesrv: str, topic: str) -> str:
    """The topic, made before who waits for questions looks for it."""
    with AdminClient(namesrv) as admin:
        admin.create_topic(topic, 1)
    return topic


def message_of(jvm: Jvm, topic: str, body: bytes) -> Any:
    return jvm.rocketmq.common.message.Message(topic, "", "", body)


def reply_to(jvm: Jvm, question: Any, body: bytes) -> Any:
    return jvm.rocketmq.client.utils.MessageUtil.createReplyMessage(question, body)


@pytest.mark.parametrize("body", [b"42", b"the same again and again " * 1000], ids=["small", "compressed"])
def test_a_request_is_answered(jvm: Jvm, namesrv: str, body: bytes) -> None:
    """The one who asked has the reply as it was sent, also if its sender compressed it, and it is in the log."""
    topic = questions(namesrv, f"questions-{len(body)}")
    kept = len(read(namesrv, REPLIES))
    with (
        jvm.producer(namesrv, "asking") as asking,
        jvm.producer(namesrv, "replying") as replying,
        jvm.push_consumer(namesrv, topic, topic) as received,
        ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(asking.request, message_of(jvm, topic, b"what?"), PATIENCE_MS)
        wait_for(lambda: received, "the question has arrived")
        receipt = replying.send(reply_to(jvm, received[0], body))
        replied = answer.result()
    assert (replied.getBody(), replied.getTopic()) == (body, REPLIES)
    assert replied.getProperty("CORRELATION_ID") == received[0].getProperty("CORRELATION_ID")
    assert [message.offset_msg_id for message in read(namesrv, REPLIES)[kept:]] == [receipt.getOffsetMsgId()]


def test_who_replies_to_nobody_learns_of_it(jvm: Jvm, namesrv: str) -> None:
    """The producer that asked has ended."""
    topic = questions(namesrv, "questions-late")
    with jvm.producer(namesrv, "replying") as replying, jvm.push_consumer(namesrv, topic, topic) as received:
        with (
            jvm.producer(namesrv, "asking") as asking,
            pytest.raises(Py4JJavaError, match="wait reply message timeout"),
        ):
            asking.request(message_of(jvm, topic, b"anybody?"), 1000)
        wait_for(lambda: received, "the question has arrived")
        with pytest.raises(Py4JJavaError, match="push reply message fail, channel of <.*> not found"):
            replying.send(reply_to(jvm, received[0], b"too late"))

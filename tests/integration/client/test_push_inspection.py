"""What operators ask of push consumers, through a broker that passes it on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message, PushConsumer
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import Busy, RmqError, ServerFault
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.admin import ConsumeMessageDirectlyResult, ConsumerRunningInfo, ConsumerStatusBody
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.consume import (
    ConsumeMessageDirectlyRequestHeader,
    ConsumerStatusRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from rmqspark.protocol.names import retry_topic

from .push_talk import PATIENCE_S, QUICK, Listener, fail, send, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark import Producer
    from rmqspark.remoting.response import Response
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration


class Operator:
    """Asks the broker about a group."""

    def __init__(self, client: ClusterClient) -> None:
        self._broker = client.broker("broker-a")

    def ask(self, code: RequestCode, header: Any) -> Response:
        return self._broker.call(code, header, timeout_ms=PATIENCE_S * 1000)

    def running_info(self, group: str, client_id: str, *, jstack: bool = False) -> ConsumerRunningInfo:
        header = GetConsumerRunningInfoRequestHeader(group, client_id, jstack)
        return ConsumerRunningInfo.decode(self.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, header).body)

    def status(self, group: str, topic: str, client_id: str | None = None) -> dict[str, dict[MessageQueue, int]]:
        header = ConsumerStatusRequestHeader(topic, group, client_id)
        body = self.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header).body
        return ConsumerStatusBody.decode(body).consumerTable or {}

    def consume(self, group: str, client_id: str, msg_id: str) -> ConsumeMessageDirectlyResult:
        header = ConsumeMessageDirectlyRequestHeader(group, client_id, msg_id)
        return ConsumeMessageDirectlyResult.decode(self.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header).body)


@pytest.fixture
def operator(mq: LocalCluster) -> Iterator[Operator]:
    with ClusterClient(mq.namesrv) as client:
        yield Operator(client)


def client_id(consumer: PushConsumer) -> str:
    return consumer._cluster.client_id


@pytest.mark.parametrize("ordered", [False, True])
def test_a_consumer_tells_what_it_is_and_holds(
    mq: LocalCluster, topic: str, producer: Producer, operator: Operator, ordered: bool
) -> None:
    """Its settings, subscriptions, queues and figures; of one in order, what the listener has is told apart."""
    go_on = threading.Event()
    heard = Listener(lambda message: go_on.wait(PATIENCE_S) if message.body != b"0" else None)
    group = f"told-{ordered}"
    with PushConsumer(mq.namesrv, group, listener=heard, config=QUICK, ordered=ordered, consume_threads=1) as consumer:
        consumer.subscribe(topic, "paid || shipped")
        for number in range(6):
            producer.send(Message(topic, b"%d" % number, tags="paid"), queue=0)
        heard.wait(2)
        queue = MessageQueue(topic, "broker-a", 0)
        wait_until(
            lambda: (
                operator.running_info(group, client_id(consumer)).mqTable[queue].cachedMsgCount == (4 if ordered else 5)
            ),
            "all has been pulled",
        )
        info = operator.running_info(group, client_id(consumer))
        go_on.set()
    held = info.mqTable[queue]
    assert [each for each in info.mqTable if each.topic == topic] == [queue._replace(queue_id=n) for n in range(4)]
    assert (held.commitOffset, held.cachedMsgMaxOffset, held.droped) == (1, 5, False)
    assert (held.cachedMsgMinOffset, held.transactionMsgMinOffset) == ((2, 1) if ordered else (1, 0))
    assert (held.transactionMsgCount, held.locked) == ((1, True) if ordered else (0, False))
    assert held.lastPullTimestamp >= held.lastConsumeTimestamp - 60_000 > 0
    assert [(each.topic, each.subString) for each in info.subscriptionSet] == [
        (retry_topic(group), "*"),
        (topic, "paid || shipped"),
    ]
    figures = info.statusTable[topic]
    assert figures.pullTPS > figures.consumeOKTPS > 0
    assert figures.consumeFailedMsgs == 0
    assert info.jstack is None
    own = {name: info.properties[name] for name in info.properties if name.startswith("PROP_")}
    assert own.pop("PROP_CONSUMER_START_TIMESTAMP").isdigit()
    assert own == {
        "PROP_NAMESERVER_ADDR": f"{mq.namesrv};",
        "PROP_THREADPOOL_CORE_SIZE": "1",
        "PROP_CONSUMEORDERLY": str(ordered).lower(),
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CLIENT_VERSION": "V5_3_3",
    }
    assert (info.properties["consumerGroup"], info.properties["pullBatchSize"]) == (group, "32")


def test_a_consumer_shows_its_threads_when_asked(mq: LocalCluster, topic: str, operator: Operator) -> None:
    """As RocketMQ's with `jstack`."""
    with PushConsumer(mq.namesrv, "threads", listener=Listener()) as consumer:
        consumer.subscribe(topic)
        stacks = operator.running_info("threads", client_id(consumer), jstack=True).jstack
    assert stacks is not None
    assert "rmqspark-consume-0" in stacks
    assert "get(" in stacks or "_work(" in stacks


def test_a_broker_collects_how_far_members_are(
    mq: LocalCluster, topic: str, producer: Producer, operator: Operator
) -> None:
    """Of all, or of one, by the name of the client."""
    heard = Listener()
    with (
        PushConsumer(mq.namesrv, "far", listener=heard, config=QUICK) as first,
        PushConsumer(mq.namesrv, "far", listener=heard, config=QUICK) as second,
    ):
        first.subscribe(topic)
        second.subscribe(topic)
        wait_until(lambda: sum(len(each) for each in operator.status("far", topic).values()) == 4, "all is divided")
        send(producer, topic, 8)
        heard.wait(8)
        wait_until(
            lambda: [sorted(each.values()) for each in operator.status("far", topic).values()] == [[2, 2], [2, 2]],
            "all is consumed",
        )
        assert set(operator.status("far", topic)) == {client_id(first), client_id(second)}
        assert set(operator.status("far", topic, client_id(second))) == {client_id(second)}
        assert operator.status("far", "another") == {client_id(first): {}, client_id(second): {}}


def test_a_message_is_consumed_directly(mq: LocalCluster, topic: str, producer: Producer, operator: Operator) -> None:
    """Whatever offset the group has: the operator hears what the listener makes of it, and nothing else comes of it."""
    heard = Listener(lambda message: fail(message) if message.body == b"bad" else None)
    good = producer.send(Message(topic, b"good", keys=["k"]), queue=1)
    bad = producer.send(Message(topic, b"bad"), queue=1)
    with PushConsumer(mq.namesrv, "direct", listener=heard, config=QUICK) as consumer:
        consumer.subscribe(topic)
        done = operator.consume("direct", client_id(consumer), good.offset_msg_id)
        assert (done.consumeResult, done.order, done.autoCommit, done.remark) == ("CR_SUCCESS", False, True, None)
        failed = operator.consume("direct", client_id(consumer), bad.offset_msg_id)
        assert (failed.consumeResult, failed.remark) == ("CR_THROW_EXCEPTION", "RuntimeError, no bad today")
    assert [(each.body, each.keys, each.queue) for each in heard.messages] == [
        (b"good", ["k"], good.queue),
        (b"bad", [], bad.queue),
    ]


def test_one_message_at_a_time_is_consumed_directly(
    mq: LocalCluster, topic: str, producer: Producer, operator: Operator
) -> None:
    """So that operators take no threads of a consumer, however often they ask."""
    go_on = threading.Event()
    heard = Listener(lambda message: go_on.wait(PATIENCE_S))
    sent = producer.send(Message(topic, b"x"), queue=1)
    with PushConsumer(mq.namesrv, "one-direct", listener=heard) as consumer:
        consumer.subscribe(topic)
        results: list[ConsumeMessageDirectlyResult] = []

        def ask() -> None:
            results.append(operator.consume("one-direct", client_id(consumer), sent.offset_msg_id))

        first = threading.Thread(target=ask)
        first.start()
        heard.wait(1)
        with pytest.raises(Busy, match="another message directly"):
            operator.consume("one-direct", client_id(consumer), sent.offset_msg_id)
        go_on.set()
        first.join(PATIENCE_S)
    assert [each.consumeResult for each in results] == ["CR_SUCCESS"]


def test_who_is_not_there_is_not_asked(mq: LocalCluster, topic: str, operator: Operator) -> None:
    """In RocketMQ's words."""

    def told(code: RequestCode, header: Any) -> tuple[type[RmqError], str]:
        with pytest.raises(RmqError) as caught:
            operator.ask(code, header)
        return type(caught.value), caught.value.message

    nobody = ServerFault, "The Consumer <nobody> <client> not online"
    assert (
        told(RequestCode.GET_CONSUMER_RUNNING_INFO, GetConsumerRunningInfoRequestHeader("nobody", "client")) == nobody
    )
    status = ConsumerStatusRequestHeader(topic, "nobody")
    assert told(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, status) == (
        ServerFault,
        "No Any Consumer online in the consumer group: [nobody]",
    )
    unknown = ConsumeMessageDirectlyRequestHeader("nobody", "client", "7F00000100002A9F" + f"{1 << 40:016X}")
    assert told(RequestCode.CONSUME_MESSAGE_DIRECTLY, unknown)[0] is ServerFault


def test_a_consumer_that_answers_late_is_given_up(
    mq: LocalCluster, topic: str, producer: Producer, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator is told that it took too long."""
    monkeypatch.setattr("rmqspark.broker.handlers.consumer_calls.CALL_TIMEOUT_MS", 50)
    go_on = threading.Event()
    sent = producer.send(Message(topic, b"x"), queue=1)
    with PushConsumer(mq.namesrv, "late", listener=Listener(lambda message: go_on.wait(PATIENCE_S))) as consumer:
        consumer.subscribe(topic)
        with pytest.raises(ServerFault, match="Timeout") as caught:
            operator.consume("late", client_id(consumer), sent.offset_msg_id)
        assert caught.value.code == ResponseCode.CONSUME_MSG_TIMEOUT
        go_on.set()

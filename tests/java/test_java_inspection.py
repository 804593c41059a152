"""mqadmin looks into consumers: ours on both brokers, RocketMQ's on ours."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest
from rocketmq import wait_for

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.client.push_consumer import PushConsumer
from rmqspark.model import Message

if TYPE_CHECKING:
    from jvm import Jvm
    from ours import Up

    from rmqspark.model import ReceivedMessage, SendReceipt

pytestmark = [pytest.mark.java, pytest.mark.integration]


def make_topic(namesrv: str, topic: str, count: int = 5) -> SendReceipt:
    """A topic of one queue with so many messages; the receipt of the last."""
    with AdminClient(namesrv) as admin:
        admin.create_topic(topic, queues=1)
    with Producer(namesrv) as producer:
        return [producer.send(Message(topic, b"%d" % n, tags="paid")) for n in range(count)][-1]


def client_ids(jvm: Jvm, namesrv: str, group: str) -> list[str]:
    said = jvm.mqadmin("consumerConnection", "-n", namesrv, "-g", group)
    found = re.findall(r"^(\S+@\S+) ", said, re.MULTILINE)
    assert found, said
    return found


def running_info(jvm: Jvm, namesrv: str, group: str) -> str:
    """What consumerStatus prints of the group's only member."""
    (client_id,) = client_ids(jvm, namesrv, group)
    said = jvm.mqadmin("consumerStatus", "-n", namesrv, "-g", group, "-i", client_id)
    assert "#Consumer Properties#" in said, said
    return said


def properties(said: str) -> dict[str, str]:
    return {name: value.strip() for name, value in re.findall(r"^(\w+) *: (.*)$", said, re.MULTILINE)}


@pytest.mark.parametrize("brokers", ["ours", "theirs"])
def test_mqadmin_sees_into_our_consumer(ours: Up, stock: str, jvm: Jvm, brokers: str) -> None:
    """Its settings, what it subscribes to, and how far it is, whoever passes the question on."""
    namesrv, group = ours.namesrv if brokers == "ours" else stock, f"seen-{brokers}"
    make_topic(namesrv, group)
    heard: list[bytes] = []
    with PushConsumer(
        namesrv, group, listener=lambda message: heard.append(message.body), consume_from="earliest"
    ) as consumer:
        consumer.subscribe(group, "paid")
        wait_for(lambda: len(heard) == 5, "all is consumed")
        offset_line = re.compile(rf"^{group} +broker-a +0 +5 *$", re.MULTILINE)
        wait_for(lambda: offset_line.search(running_info(jvm, namesrv, group)), "mqadmin shows how far it is")
        said = running_info(jvm, namesrv, group)
        said_of_all = jvm.mqadmin("consumerConnection", "-n", namesrv, "-g", group)
    shown = properties(said)
    assert shown["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert (shown["PROP_CONSUMEORDERLY"], shown["consumerGroup"], shown["pullBatchSize"]) == ("false", group, "32")
    assert re.search(rf"Topic: {group} +ClassFilter: false +SubExpression: paid", said)
    assert re.search(rf"^{group} +paid *$", said_of_all, re.MULTILINE)


@pytest.mark.parametrize("brokers", ["ours", "theirs"])
def test_mqadmin_has_our_consumer_consume_a_message(ours: Up, stock: str, jvm: Jvm, brokers: str) -> None:
    """Once more, with what its listener makes of it, an error too."""
    namesrv, topic = ours.namesrv if brokers == "ours" else stock, f"directly-{brokers}"
    receipt = make_topic(namesrv, topic)
    heard = threading.Event()
    failing = threading.Event()

    def listen(message: ReceivedMessage) -> None:
        if failing.is_set():
            raise ValueError("not again")
        if message.body == b"4":
            heard.set()

    with PushConsumer(namesrv, topic, listener=listen, consume_from="earliest") as consumer:
        consumer.subscribe(topic)
        assert heard.wait(60)
        (client_id,) = client_ids(jvm, namesrv, topic)
        with jvm.admin(namesrv) as admin:

            def directly() -> tuple[str, str | None]:
                done = admin.consumeMessageDirectly(topic, client_id, topic, receipt.offset_msg_id)
                return str(done.getConsumeResult()), done.getRemark()

            assert directly() == ("CR_SUCCESS", None)
            failing.set()
            assert directly() == ("CR_THROW_EXCEPTION", "ValueError, not again")


def test_our_broker_passes_on_what_a_java_consumer_tells(ours: Up, jvm: Jvm) -> None:
    """The same that mqadmin shows of it on a stock broker, and how far it is."""
    receipt = make_topic(ours.namesrv, "java-told")
    with jvm.push_consumer(ours.namesrv, "java-told", "java-told", "paid") as received:
        wait_for(lambda: len(received) == 5, "all is consumed")
        shown = properties(running_info(jvm, ours.namesrv, "java-told"))
        assert shown["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert shown["consumerGroup"] == "java-told"
        (client_id,) = client_ids(jvm, ours.namesrv, "java-told")
        with jvm.admin(ours.namesrv) as admin:
            done = admin.consumeMessageDirectly("java-told", client_id, "java-told", receipt.offset_msg_id)
            assert str(done.getConsumeResult()) == "CR_SUCCESS"
            told = admin.getConsumeStatus("java-told", "java-told", "")
            assert list(told.keySet()) == [client_id]
        assert len(received) == 6

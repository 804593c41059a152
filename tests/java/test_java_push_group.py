"""Our push consumer and RocketMQ's in one group: they see the same members and queues, and divide them alike."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from ours import read
from rocketmq import wait_for

from rmqspark import AdminClient, Message, Producer, PushConsumer
from rmqspark.client.pushing.config import PushConfig
from rmqspark.protocol.names import dead_letter_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jvm import Jvm

    from rmqspark.model import ReceivedMessage

pytestmark = [pytest.mark.java, pytest.mark.integration]

QUEUES = 4
A_TIME = 40  # messages
QUICK = PushConfig(rebalance_interval=1_000)


class Shop:
    """A topic, and numbers that are sent to it, as many to each queue."""

    def __init__(self, namesrv: str, topic: str) -> None:
        self.namesrv, self.topic, self.sent = namesrv, topic, 0
        with AdminClient(namesrv) as admin:
            admin.create_topic(topic, queues=QUEUES)

    def send(self) -> set[int]:
        with Producer(self.namesrv) as producer:
            for number in range(self.sent, self.sent + A_TIME):
                producer.send(Message(self.topic, b"%d" % number), queue=number % QUEUES)
        self.sent += A_TIME
        return set(range(self.sent))


@contextmanager
def consumer(shop: Shop, **options: Any) -> Iterator[tuple[PushConsumer, list[ReceivedMessage]]]:
    """Ours, and what it was given."""
    messages: list[ReceivedMessage] = []
    listener = options.pop("listener", None)

    def listen(message: ReceivedMessage) -> None:
        messages.append(message)
        if listener is not None:
            listener(message)

    group = options.pop("group", shop.topic)
    with PushConsumer(shop.namesrv, group, listener=listen, consume_from="earliest", config=QUICK, **options) as ours:
        ours.subscribe(shop.topic)
        yield ours, messages


def held(ours: PushConsumer, shop: Shop) -> int:
    return sum(queue.topic == shop.topic for queue in ours.assignment)


def numbers(messages: list[ReceivedMessage]) -> set[int]:
    return {int(message.body) for message in messages}


def java_numbers(received: list[Any]) -> set[int]:
    return {int(bytes(message.getBody())) for message in list(received)}


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("where", ["ours", "stock"])
def test_ours_and_rocketmqs_share_a_group(request: pytest.FixtureRequest, jvm: Jvm, where: str, orderly: bool) -> None:
    """On our broker and on RocketMQ's: half of the queues each, and all of them for the one that stays."""
    cluster = request.getfixturevalue(where)
    shop = Shop(cluster if where == "stock" else cluster.namesrv, f"pushed-{'orderly' if orderly else 'concurrent'}")
    with consumer(shop, ordered=orderly) as (ours, messages):
        with jvm.push_consumer(shop.namesrv, shop.topic, shop.topic, orderly=orderly) as received:
            wait_for(lambda: held(ours, shop) == QUEUES // 2, "ours has half of the queues")
            everything = shop.send()
            wait_for(lambda: numbers(messages) | java_numbers(received) == everything, "all are consumed")
            java_queues = {message.getQueueId() for message in list(received)}
            our_queues = {message.queue.queue_id for message in messages}
            assert len(java_queues) == len(our_queues) == QUEUES // 2
            assert java_queues.isdisjoint(our_queues)
        wait_for(lambda: held(ours, shop) == QUEUES, "ours has all queues")
        everything = shop.send()
        wait_for(lambda: numbers(messages) | java_numbers(received) == everything, "all are consumed")
        with jvm.push_consumer(shop.namesrv, shop.topic, shop.topic, orderly=orderly) as later:
            wait_for(lambda: held(ours, shop) == QUEUES // 2, "ours gives half of the queues away")
            everything = shop.send()
            wait_for(
                lambda: numbers(messages) | java_numbers(received) | java_numbers(later) == everything,
                "all are consumed",
            )
    with jvm.push_consumer(shop.namesrv, shop.topic, shop.topic, orderly=orderly) as last:
        everything = shop.send()
        wait_for(lambda: java_numbers(last) >= everything - set(range(shop.sent - A_TIME)), "RocketMQ's goes on")
        assert len(java_numbers(last)) == A_TIME, "what ours had consumed is committed"


@pytest.mark.parametrize("ordered", [False, True])
def test_rocketmqs_broker_takes_back_what_failed(stock: str, ordered: bool) -> None:
    """And has it among the dead letters when it has come often enough."""

    def fail(message: ReceivedMessage) -> None:
        raise RuntimeError("not today")

    shop = Shop(stock, f"failing-{'in-order' if ordered else 'any'}")
    with Producer(stock) as producer:
        sent = producer.send(Message(shop.topic, b"7", tags="t", keys=["k"]), queue=0)
    with consumer(shop, listener=fail, ordered=ordered, max_reconsume_times=1) as (_, messages):
        wait_for(lambda: dead_letters(stock, shop.topic), "it is a dead letter", 90)
    (dead,) = dead_letters(stock, shop.topic)
    assert [message.reconsume_times for message in messages] == [0, 1]
    assert {(message.topic, message.msg_id) for message in messages} == {(shop.topic, sent.msg_id)}
    assert (dead.body, dead.tags, dead.keys, dead.msg_id) == (b"7", "t", ["k"], sent.msg_id)
    assert dead.properties["RETRY_TOPIC"] == shop.topic


def dead_letters(namesrv: str, group: str) -> list[ReceivedMessage]:
    topic = dead_letter_topic(group)
    with AdminClient(namesrv) as admin:
        return read(namesrv, topic) if topic in admin.topics() else []

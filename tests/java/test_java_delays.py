"""Delayed messages and retries with parts of RocketMQ: its clients on our broker, one store for both."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from ours import name_server, read, up
from rocketmq import wait_for
from stored import raw_records, without_places

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message
from rmqspark.protocol.names import SCHEDULE_TOPIC, dead_letter_topic
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jvm import Jvm
    from ours import Up
    from rocketmq import RocketMQ
    from stored import Stored

pytestmark = [pytest.mark.java, pytest.mark.integration]

QUICK = " ".join(["1s"] * 18)


@contextmanager
def quick_up(directory: Path) -> Iterator[Up]:
    """Our broker with a second for every level."""
    with patch.dict(os.environ, RMQ_MESSAGE_DELAY_LEVEL=QUICK), up(directory) as running:
        yield running


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with quick_up(tmp_path_factory.mktemp("shop")) as running:
        yield running


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A name server of ours, with which stock brokers register."""
    with name_server(tmp_path_factory.mktemp("names")) as address:
        yield address


def parked_for(store: Path, topic: str) -> list[Stored]:
    """The messages of level 1 that wait, or waited, for a topic; the times in their queue entries left aside."""
    return [
        without_places(raw, 0)
        for raw, _ in raw_records(store, SCHEDULE_TOPIC)
        if decode_record(raw).property_map()["REAL_TOPIC"] == topic
    ]


def test_both_brokers_delay_the_same(ours: Up, stock: str, stock_store: Path, jvm: Jvm) -> None:
    """What waits, and what comes after a second, is the same to the byte but for times, places and hosts."""
    topic = "delayed-by-both"
    for namesrv in (ours.namesrv, stock):
        with AdminClient(namesrv) as admin:
            admin.create_topic(topic, queues=1)
        with jvm.producer(namesrv, "delaying") as producer:
            message = jvm.rocketmq.common.message.Message(topic, "TagA", "k1", 7, b"later", True)
            message.setDelayTimeLevel(1)
            producer.send(message)
    for namesrv in (ours.namesrv, stock):
        wait_for(lambda namesrv=namesrv: read(namesrv, topic), "the message has come")
    for store in (ours.store, stock_store):
        wait_for(lambda store=store: raw_records(store, topic), "its queue entry is written")
    mine, theirs = ([without_places(*raw) for raw in raw_records(store, topic)] for store in (ours.store, stock_store))
    assert mine == theirs
    assert parked_for(ours.store, topic) == parked_for(stock_store, topic)


def test_a_java_consumer_gets_a_delayed_message_in_time(shop: Up, jvm: Jvm) -> None:
    """Not before its second is over, and under the topic it was sent to."""
    with Producer(shop.namesrv) as producer:
        producer.send(Message("orders", b"first"))
        sent = time.monotonic()
        producer.send(Message("orders", b"later", delay_level=5))
    with jvm.push_consumer(shop.namesrv, "in-time", "orders") as received:
        wait_for(lambda: len(received) == 2, "both have come")
        assert time.monotonic() - sent >= 1
        by_body = {bytes(message.getBody()): message for message in received}  # a late consumer gets both at once
        assert by_body.keys() == {b"first", b"later"}
        assert {message.getTopic() for message in received} == {"orders"}
        assert by_body[b"later"].getStoreTimestamp() - by_body[b"first"].getStoreTimestamp() >= 1000


def test_a_java_consumer_that_fails_gets_the_message_again(shop: Up, jvm: Jvm) -> None:
    """From our broker, with how often it was consumed, and under its own topic and id."""
    with Producer(shop.namesrv) as producer:
        sent = producer.send(Message("work", b"twice in vain", tags="TagA", keys=["k1"]))
    with jvm.push_consumer(shop.namesrv, "failing", "work", "TagA", failures=2) as received:
        wait_for(lambda: len(received) == 3, "it has come three times")
        assert [message.getReconsumeTimes() for message in received] == [0, 1, 2]
        assert {message.getTopic() for message in received} == {"work"}
        assert {message.getMsgId() for message in received} == {sent.msg_id}
    assert dead_letters(shop.namesrv, "failing") == []


def test_what_a_java_consumer_never_consumes_is_a_dead_letter(shop: Up, jvm: Jvm) -> None:
    """After as many times as it says; anybody can read it then."""
    with Producer(shop.namesrv) as producer:
        sent = producer.send(Message("bad", b"never", tags="TagA"))
    with jvm.push_consumer(shop.namesrv, "hopeless", "bad", failures=100, max_reconsume_times=2) as received:
        wait_for(lambda: len(received) == 3, "it has come three times")
        wait_for(lambda: dead_letters(shop.namesrv, "hopeless"), "it is a dead letter")
    (dead,) = dead_letters(shop.namesrv, "hopeless")
    assert (dead.body, dead.tags, dead.msg_id, dead.reconsume_times) == (b"never", "TagA", sent.msg_id, 3)
    assert dead.properties["RETRY_TOPIC"] == "bad"


def test_a_java_consumer_gets_its_dead_letter_again(shop: Up, jvm: Jvm) -> None:
    """From its retry topic under the topic it was in, with id and tag, and as many tries before it as at first."""
    with Producer(shop.namesrv) as producer:
        sent = producer.send(Message("mended", b"at last", tags="TagA"))
    with jvm.push_consumer(shop.namesrv, "recovering", "mended", "TagA", failures=100, max_reconsume_times=0):
        wait_for(lambda: dead_letters(shop.namesrv, "recovering"), "it is a dead letter")
    with AdminClient(shop.namesrv) as admin:
        assert admin.resend_dead_letters("recovering").count == 1
    with jvm.push_consumer(shop.namesrv, "recovering", "mended", "TagA") as received:
        wait_for(lambda: received, "it has come again")
        (again,) = received
        assert (again.getTopic(), again.getMsgId(), again.getTags()) == ("mended", sent.msg_id, "TagA")
        assert (bytes(again.getBody()), again.getReconsumeTimes()) == (b"at last", 0)


def dead_letters(namesrv: str, group: str) -> list[Any]:
    topic = dead_letter_topic(group)
    with AdminClient(namesrv) as admin:
        return read(namesrv, topic) if topic in admin.topics() else []


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_rocketmq_delivers_what_was_delayed_with_us(end: str, names: str, rocketmq: RocketMQ, tmp_path: Path) -> None:
    """What waits in our store waits in it for the stock broker, too; and what that has delivered we do not."""
    with up(tmp_path) as first:
        with AdminClient(first.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        with Producer(first.namesrv) as producer:
            producer.send(Message("orders", b"quick", delay_level=1))
            wait_for(lambda: read(first.namesrv, "orders"), "the first has come")
            producer.send(Message("orders", b"slow", delay_level=2))
        if end == "killed":
            first.kill()
    with rocketmq.broker(first.store, names):
        wait_for(lambda: b"slow" in bodies(names), "the stock broker has delivered it")
        delivered = bodies(names)
    assert set(delivered) == {b"quick", b"slow"}
    if end == "stopped":
        assert delivered == [b"quick", b"slow"]
    with up(tmp_path) as second:
        with Producer(second.namesrv) as producer:
            producer.send(Message("orders", b"last", delay_level=2))
        wait_for(lambda: b"last" in bodies(second.namesrv), "ours goes on")
        assert bodies(second.namesrv) == [*delivered, b"last"]


def test_we_deliver_what_was_delayed_with_rocketmq(names: str, rocketmq: RocketMQ, tmp_path: Path) -> None:
    """Once: how far the stock broker came it says in delayOffset.json."""
    with rocketmq.broker(tmp_path / "broker-a", names):
        with AdminClient(names) as admin:
            admin.create_topic("orders", queues=1)
        with Producer(names) as producer:
            producer.send(Message("orders", b"quick", delay_level=1))
            wait_for(lambda: read(names, "orders"), "the first has come")
            producer.send(Message("orders", b"slow", delay_level=3))
    with up(tmp_path) as running:
        wait_for(lambda: b"slow" in bodies(running.namesrv), "ours has delivered it")
        assert bodies(running.namesrv) == [b"quick", b"slow"]


def bodies(namesrv: str) -> list[bytes]:
    return [message.body for message in read(namesrv, "orders")]

"""One store, two brokers: what ours wrote RocketMQ's opens, and the other way round, in order or after a crash.

Last, what both write of the same messages is compared byte by byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ours import name_server, read, up
from rocketmq import wait_for
from stored import stored

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jvm import Jvm
    from ours import Up
    from pyspark.sql import SparkSession
    from rocketmq import RocketMQ

    from rmqspark.model import MessageQueue, ReceivedMessage

pytestmark = [pytest.mark.java, pytest.mark.integration]
TOPIC = "shared"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A name server of ours, with which stock brokers register."""
    with name_server(tmp_path_factory.mktemp("names")) as address:
        yield address


def create_topic(namesrv: str) -> None:
    with AdminClient(namesrv) as admin:
        admin.create_topic(TOPIC, queues=2)


def fill(namesrv: str, writer: str) -> None:
    """Ten messages one by one and twenty in a batch, with a key of their own, one that all have, tag and property."""
    messages = [
        Message(TOPIC, b"%d" % n, tags=f"t{n % 3}", keys=[f"{writer}-{n}", writer], properties={"n": str(n)})
        for n in range(30)
    ]
    with Producer(namesrv) as producer:
        for message in messages[:10]:
            producer.send(message)
        producer.send_batch(messages[10:])


def fill_with_spark(spark: SparkSession, namesrv: str) -> None:
    """Thirty more in bulks of records, as only our broker takes them, with keys and tags like the others."""
    columns = ("CAST(id AS STRING) body", "concat('t', id % 3) tags", "array(concat('spark-', id), 'spark') keys")
    rows = spark.range(30).selectExpr(*columns)
    rows.write.format("rmq").option("namesrv", namesrv).option("topic", TOPIC).mode("append").save()


def assert_found_by_key(namesrv: str, messages: list[ReceivedMessage]) -> None:
    """Each message is found by its own key, and its writer's key finds all the writer's."""
    with AdminClient(namesrv) as admin:
        last = messages[-1].keys[0]
        wait_for(lambda: admin.query(TOPIC, last), "the index has the last message")
        for message in messages:
            own, writer = message.keys
            assert [found.offset_msg_id for found in admin.query(TOPIC, own)] == [message.offset_msg_id]
            assert len(admin.query(TOPIC, writer)) == 30


def committed(namesrv: str, group: str) -> dict[MessageQueue, int | None]:
    with AdminClient(namesrv) as admin:
        return {queue.queue: queue.committed for queue in admin.group(group).queues if queue.queue.topic == TOPIC}


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_rocketmq_goes_on_with_our_store(
    end: str, names: str, rocketmq: RocketMQ, rmq_spark: SparkSession, tmp_path: Path
) -> None:
    """Messages, offsets, index and groups are there for the stock broker, and for ours what it wrote meanwhile."""
    with up(tmp_path) as first:
        create_topic(first.namesrv)
        fill(first.namesrv, "ours")
        fill_with_spark(rmq_spark, first.namesrv)
        written = read(first.namesrv, TOPIC, group="readers")
        progress = committed(first.namesrv, "readers")
        if end == "killed":
            first.kill()
    assert len(written) == 60

    with rocketmq.broker(first.store, names) as stock:
        assert read(names, TOPIC) == written
        assert_found_by_key(names, written)
        if end == "stopped":  # offsets are written every few seconds
            assert committed(names, "readers") == progress
        fill(names, "theirs")
        more = read(names, TOPIC)
        assert [message for message in more if message.keys[1] != "theirs"] == written
        if end == "killed":
            stock.kill()

    with up(tmp_path) as second:
        assert read(second.namesrv, TOPIC) == more
        assert_found_by_key(second.namesrv, more)
        fill(second.namesrv, "again")
        assert len(read(second.namesrv, TOPIC)) == 120


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_we_go_on_with_rocketmqs_store(end: str, names: str, rocketmq: RocketMQ, jvm: Jvm, tmp_path: Path) -> None:
    """A store that RocketMQ began is served by our broker, and found again by RocketMQ's tools."""
    store = tmp_path / "broker-a"
    with rocketmq.broker(store, names) as stock:
        create_topic(names)
        fill(names, "theirs")
        written = read(names, TOPIC, group="readers")
        progress = committed(names, "readers")
        if end == "killed":
            stock.kill()
    assert len(written) == 30

    with up(tmp_path) as running:
        assert read(running.namesrv, TOPIC) == written
        assert_found_by_key(running.namesrv, written)
        if end == "stopped":
            assert committed(running.namesrv, "readers") == progress
        fill(running.namesrv, "ours")
        more = read(running.namesrv, TOPIC)
        assert len(more) == 60
        assert_found_by_key(running.namesrv, more)
        said = jvm.mqadmin("queryMsgByKey", "-n", running.namesrv, "-t", TOPIC, "-k", written[0].keys[0])
        assert written[0].msg_id in said


def send_with_java(jvm: Jvm, namesrv: str, topic: str) -> None:
    """Messages of every shape that RocketMQ's producer gives them."""
    new = jvm.rocketmq.common.message.Message
    with jvm.producer(namesrv, "same") as producer:
        plain = new(topic, b"plain")
        dressed = new(topic, "TagA", "k1 k2", 7, b"dressed", True)
        dressed.putUserProperty("colour", "grün")
        compressed = new(topic, "TagB", "k3", b"again and again " * 500)
        for message in (plain, dressed, compressed):
            producer.send(message)
        producer.send([batched(new, topic, number) for number in range(3)])


def batched(new: Any, topic: str, number: int) -> Any:
    message = new(topic, f"T{number}", f"batch-{number}", b"%d" % number)
    message.putUserProperty("n", str(number))
    return message


def send_with_ours(namesrv: str, topic: str) -> None:
    """Messages of every shape that our producer gives them."""
    with Producer(namesrv, "same") as producer:
        producer.send(Message(topic, b"plain"))
        producer.send(Message(topic, b"dressed", "TagA", ["k1", "k2"], {"colour": "grün"}, flag=7))
        producer.send(Message(topic, b"again and again " * 500, "TagB", wait_stored=False))
        producer.send_batch([Message(topic, b"%d" % n, f"T{n}", [f"batch-{n}"], {"n": str(n)}) for n in range(3)])


@pytest.mark.parametrize("client", ["java", "ours"])
def test_both_brokers_write_the_same(client: str, ours: Up, stock: str, stock_store: Path, jvm: Jvm) -> None:
    """The same messages of the same client are the same bytes in both logs, but for times, places and hosts."""
    topic = f"same-by-{client}"
    for namesrv in (ours.namesrv, stock):
        with AdminClient(namesrv) as admin:
            admin.create_topic(topic, queues=1)
        if client == "java":
            send_with_java(jvm, namesrv, topic)
        else:
            send_with_ours(namesrv, topic)
    wait_for(lambda: len(read(stock, topic)) == 6, "the stock broker has written its consume queue")
    wait_for(lambda: len(stored(ours.store, topic)) == 6, "ours has written its own, which it does once a second")
    assert stored(ours.store, topic) == stored(stock_store, topic)

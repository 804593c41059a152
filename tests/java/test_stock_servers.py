"""Our clients and command line on a stock name server and broker, which know nothing of our bulk requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ours import broker, read, rmq
from rocketmq import wait_for

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import GroupNotFound, InvalidArgument, MessageNotFound, TopicNotFound
from rmqspark.model import Message, SendStatus

if TYPE_CHECKING:
    from pathlib import Path

    from jvm import Jvm
    from rocketmq import RocketMQ

    from rmqspark.model import MessageQueue, ReceivedMessage, SendReceipt

pytestmark = [pytest.mark.java, pytest.mark.integration]


def create_topic(namesrv: str, topic: str, queues: int = 4) -> None:
    with AdminClient(namesrv) as admin:
        admin.create_topic(topic, queues=queues)


def place(message: SendReceipt | ReceivedMessage) -> tuple[str, MessageQueue, int, str]:
    return message.msg_id, message.queue, message.queue_offset, message.offset_msg_id


def test_topics_are_administered(stock: str) -> None:
    """A topic is created, seen, changed and deleted on a stock broker as on ours."""
    with AdminClient(stock) as admin:
        admin.create_topic("administered", queues=3)
        assert "administered" in admin.topics()
        assert [queue.queue_id for queue in admin.queues("administered")] == [0, 1, 2]
        with pytest.raises(InvalidArgument, match="exists already"):
            admin.create_topic("administered", queues=3)
        admin.update_topic("administered", perm="r", write_queues=2)
        described = admin.topic("administered").brokers[0]
        assert (described.read_queues, described.write_queues, described.perm) == (3, 2, "r")
        admin.delete_topic("administered")
        with pytest.raises(TopicNotFound):
            admin.topic("administered")


def test_the_broker_describes_itself(stock: str) -> None:
    """Cluster, settings and figures of a stock broker are read like ours."""
    with AdminClient(stock) as admin:
        (broker,) = admin.brokers()
        assert (broker.name, broker.cluster) == ("broker-a", "DefaultCluster")
        assert admin.broker_config("broker-a")["brokerName"] == "broker-a"
        assert "commitLogMaxOffset" in admin.broker_runtime("broker-a")


def test_what_is_sent_is_read(stock: str) -> None:
    """Single, batched and asynchronous sends come back as they were sent, from the places their receipts name."""
    create_topic(stock, "round-trip")
    single = [Message("round-trip", b"%d" % n, tags="a", keys=[f"k{n}"], properties={"n": str(n)}) for n in range(20)]
    batch = [Message("round-trip", b"batch %d" % n, tags="b", properties={"é": "日本"}) for n in range(20)]
    with Producer(stock) as producer:
        receipts = [producer.send(message) for message in single]
        receipts += producer.send_batch(batch)
        receipts += [future.result(10) for future in [producer.send_async(message) for message in single]]
    assert {receipt.status for receipt in receipts} == {SendStatus.OK}
    found = {message.msg_id: message for message in read(stock, "round-trip")}
    assert len(found) == 60
    for receipt, message in zip(receipts, [*single, *batch, *single], strict=True):
        stored = found[receipt.msg_id]
        assert place(stored) == place(receipt)
        assert (stored.body, stored.tags, stored.keys) == (message.body, message.tags, list(message.keys))
        assert message.properties.items() <= stored.properties.items()


def test_a_oneway_send_arrives(stock: str) -> None:
    """A stock broker stores what asks for no answer."""
    create_topic(stock, "oneway")
    with Producer(stock) as producer:
        producer.send_oneway(Message("oneway", b"no answer"))
        wait_for(lambda: read(stock, "oneway"), "the message is there")


def test_a_topic_is_created_by_sending(stock: str) -> None:
    """A stock broker creates an unknown topic for our producer, with RocketMQ's four queues."""
    with Producer(stock) as producer:
        producer.send(Message("made-by-sending", b"first"))
    with AdminClient(stock) as admin:
        assert len(admin.queues("made-by-sending")) == 4


def test_a_large_backlog_is_read_with_stock_pulls(stock: str) -> None:
    """Thousands of messages, more than a pull answers at once, come once each and in order."""
    create_topic(stock, "backlog", queues=2)
    with Producer(stock) as producer:
        for first in range(0, 5000, 500):
            batch = [Message("backlog", b"%08d" % n) for n in range(first, first + 500)]
            producer.send_batch(batch, queue=first // 500 % 2)
    messages = read(stock, "backlog")
    assert sorted(int(message.body) for message in messages) == list(range(5000))
    for queue_id in (0, 1):
        numbers = [int(message.body) for message in messages if message.queue.queue_id == queue_id]
        assert numbers == sorted(numbers)


def test_tags_are_filtered(stock: str) -> None:
    """A stock broker filters by the tags' hashes, we by the tags themselves: "Aa" and "BB" have one hash."""
    create_topic(stock, "tagged")
    with Producer(stock) as producer:
        for tags in ("Aa", "BB", "paid", None) * 5:
            producer.send(Message("tagged", b"x", tags=tags))
    assert [message.tags for message in read(stock, "tagged", "Aa")] == ["Aa"] * 5
    assert {message.tags for message in read(stock, "tagged", "BB || paid")} == {"BB", "paid"}


def test_offsets_are_found_by_time(stock: str) -> None:
    """A queue is entered where a moment is."""
    create_topic(stock, "timed", queues=1)
    with Producer(stock) as producer, PullConsumer(stock) as consumer:
        for number in range(3):
            producer.send(Message("timed", b"%d" % number))
        (queue,) = consumer.queues("timed")
        first, *_, last = read(stock, "timed")
        assert consumer.offset_by_time(queue, first.store_timestamp_ms) == 0
        assert consumer.offset_by_time(queue, last.store_timestamp_ms + 1) == 3


def test_a_groups_progress_is_kept_there(stock: str, jvm: Jvm) -> None:
    """What our consumer commits a stock broker keeps: our next consumer goes on there, and Java's tools show it."""
    create_topic(stock, "progress", queues=1)
    with Producer(stock) as producer:
        producer.send_batch([Message("progress", b"%d" % n) for n in range(7)])
        assert len(read(stock, "progress", group="readers")) == 7
        producer.send(Message("progress", b"7"))
    assert [message.body for message in read(stock, "progress", group="readers")] == [b"7"]
    with AdminClient(stock) as admin:
        assert "readers" in admin.groups()
        assert [(queue.committed, queue.lag) for queue in admin.group("readers").queues] == [(8, 0)]
        with jvm.admin(stock) as theirs:
            queue = jvm.rocketmq.common.message.MessageQueue("progress", "broker-a", 0)
            assert theirs.examineConsumeStats("readers", "progress").getOffsetTable()[queue].getConsumerOffset() == 8
        admin.delete_group("readers")
        with pytest.raises(GroupNotFound):
            admin.group("readers")


def test_single_messages_are_found(stock: str) -> None:
    """By either id and by key, through a stock broker's index."""
    create_topic(stock, "findable")
    with Producer(stock) as producer, AdminClient(stock) as admin:
        receipt = producer.send(Message("findable", b"here", keys=["needle"]))
        wait_for(lambda: admin.query("findable", "needle"), "the index has it")
        by_offset, by_unique = admin.message(receipt.offset_msg_id), admin.message(receipt.msg_id, "findable")
        (by_key,) = admin.query("findable", "needle")
        assert place(by_offset) == place(by_unique) == place(by_key) == place(receipt)
        assert by_offset.body == b"here"
        assert admin.query("findable", "haystack") == []
        with pytest.raises(MessageNotFound):
            admin.message("0" * 32, "findable")


def test_the_command_line_works(stock: str, tmp_path: Path) -> None:
    """topic, send, consume, group and message do on a stock cluster what they do on ours."""
    rmq(stock, "topic", "create", "cli", "--queues", "2")
    described = json.loads(rmq(stock, "topic", "describe", "cli", "--json"))
    assert len(described["queues"]) == 2
    assert "cli" in rmq(stock, "topic", "list")
    sent = rmq(stock, "send", "cli", "one", "two", "--tag", "t", "--key", "k")
    assert sent
    assert sorted(rmq(stock, "consume", "cli").splitlines()) == ["one", "two"]
    rows = [json.loads(line) for line in rmq(stock, "consume", "cli", "--group", "cli-readers", "--json").splitlines()]
    assert {(row["body"], row["tags"]) for row in rows} == {("one", "t"), ("two", "t")}
    group = json.loads(rmq(stock, "group", "describe", "cli-readers", "--json"))
    assert (group["lag"], group["topics"]) == (0, ["cli"])
    found = json.loads(rmq(stock, "message", "get", rows[0]["msgId"], "--topic", "cli", "--json"))
    assert found["body"] == rows[0]["body"]
    rmq(stock, "topic", "delete", "cli", "--yes")
    assert "cli" not in rmq(stock, "topic", "list").split()


def test_our_broker_joins_a_stock_name_server(rocketmq: RocketMQ, jvm: Jvm, tmp_path: Path) -> None:
    """A stock name server leads Java's clients to our broker, and forgets the broker when it has stopped."""
    with rocketmq.name_server() as namesrv, AdminClient(namesrv) as admin:
        with broker(tmp_path, namesrv, "visitor"), jvm.producer(namesrv) as producer:
            admin.create_topic("visited", queues=1)
            producer.send(jvm.rocketmq.common.message.Message("visited", b"from Java"))
            (message,) = read(namesrv, "visited")
            assert (message.body, message.queue.broker_name) == (b"from Java", "visitor")
        assert admin.brokers() == []

"""Producers against the real broker."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rmqspark import AdminClient, Message, Producer
from rmqspark.broker.config import BrokerConfig
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.sending.selection import queue_for_shard
from rmqspark.clock import SystemClock
from rmqspark.errors import (
    AlreadyClosed,
    InvalidArgument,
    InvalidMessage,
    InvalidName,
    NoPermission,
    NotRecallable,
    RmqError,
    TopicNotFound,
)
from rmqspark.protocol.bodies.admin import ProducerConnection
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import GetProducerConnectionListRequestHeader
from rmqspark.protocol.recall_handle import RecallHandle
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from rmqspark.model import ReceivedMessage
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration


def everything(mq: LocalCluster, topic: str) -> list[ReceivedMessage]:
    with PullConsumer(mq.namesrv) as consumer, ClusterClient(mq.namesrv) as client:
        queues = consumer.queues(topic)
        ends = {q: client.broker(q.broker_name).max_offset(topic, q.queue_id) for q in queues}
        consumer.assign(queues)
        consumer.seek_to_beginning()
        messages = []
        while any(consumer.position(queue) < end for queue, end in ends.items()):
            messages += consumer.poll(1_000)
    return messages


def test_what_is_sent_is_what_is_read(mq: LocalCluster, topic: str) -> None:
    """Body, tags, keys, properties and flag arrive unchanged, small or compressed, under the receipt's ids."""
    sent = [
        Message(topic, b"small", tags="a", keys=["1", "2"], properties={"shop": "7"}, flag=3),
        Message(topic, b"large" * 100_000),
    ]
    with Producer(mq.namesrv) as producer:
        receipts = [producer.send(message, queue=1) for message in sent]
    small, large = everything(mq, topic)
    assert (small.body, small.tags, small.keys, small.flag) == (b"small", "a", ["1", "2"], 3)
    assert small.properties["shop"] == "7"
    assert large.body == b"large" * 100_000
    for message, receipt in zip((small, large), receipts, strict=True):
        assert (message.msg_id, message.offset_msg_id) == (receipt.msg_id, receipt.offset_msg_id)
        assert (message.queue, message.queue_offset) == (receipt.queue, receipt.queue_offset)
        assert 0 < message.born_timestamp_ms <= message.store_timestamp_ms + 1


def test_messages_are_spread_over_the_queues(mq: LocalCluster, topic: str) -> None:
    """Forty messages put ten into each of four queues."""
    with Producer(mq.namesrv) as producer:
        queues = Counter(producer.send(Message(topic, b"x")).queue.queue_id for _ in range(40))
    assert queues == {0: 10, 1: 10, 2: 10, 3: 10}


def test_a_shard_keeps_its_order(mq: LocalCluster, topic: str) -> None:
    """All messages of a shard are in one queue, in the order in which they were sent, the asynchronous ones too."""
    with Producer(mq.namesrv) as producer:
        futures = [producer.send_async(Message(topic, b"%d" % n), shard="customer-7") for n in range(200)]
        offsets = [future.result(60).queue_offset for future in futures]
        queue = futures[0].result().queue
    assert offsets == list(range(200))
    messages = everything(mq, topic)
    assert [int(message.body) for message in messages] == list(range(200))
    assert messages[0].properties["__SHARDINGKEY"] == "customer-7"
    with ClusterClient(mq.namesrv) as client:
        assert queue == queue_for_shard("customer-7", client.publish_queues(topic))


def test_a_batch_is_stored_together(mq: LocalCluster, topic: str) -> None:
    """A batch lies in one queue at consecutive offsets, and each of its messages has its own id."""
    with Producer(mq.namesrv) as producer:
        receipts = producer.send_batch([Message(topic, b"%d" % n, tags="t") for n in range(100)])
    assert [receipt.queue_offset for receipt in receipts] == list(range(100))
    messages = everything(mq, topic)
    assert [message.msg_id for message in messages] == [receipt.msg_id for receipt in receipts]
    assert [message.offset_msg_id for message in messages] == [receipt.offset_msg_id for receipt in receipts]
    assert len({message.msg_id for message in messages}) == 100
    assert {message.tags for message in messages} == {"t"}


def test_oneway_messages_arrive(mq: LocalCluster, topic: str) -> None:
    """What was sent without an answer is there; closing the producer loses none of it."""
    with Producer(mq.namesrv) as producer:
        for number in range(50):
            producer.send_oneway(Message(topic, b"%d" % number))
        producer.send(Message(topic, b"last"), queue=0)
    bodies = Counter(message.body for message in everything(mq, topic))
    assert bodies == Counter([b"last", *(b"%d" % number for number in range(50))])


def test_threads_share_a_producer(mq: LocalCluster, topic: str) -> None:
    """Eight threads send through one producer; nothing is lost and every id is its own."""
    with Producer(mq.namesrv) as producer:

        def send() -> None:
            for _ in range(50):
                producer.send(Message(topic, b"x"))

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({message.msg_id for message in everything(mq, topic)}) == 400


def test_a_body_of_exactly_four_megabytes_is_taken(mq: LocalCluster, topic: str) -> None:
    """4 MiB is the limit, and one byte more is refused before it is sent."""
    with Producer(mq.namesrv) as producer:
        producer.send(Message(topic, bytes(4 << 20)))
        with pytest.raises(InvalidMessage, match="4194305"):
            producer.send(Message(topic, bytes((4 << 20) + 1)))
    assert len(everything(mq, topic)[0].body) == 4 << 20


def test_an_unknown_topic_is_created_on_loopback(mq: LocalCluster, admin: AdminClient) -> None:
    """On one's own machine a topic comes into being with its first message, with four queues."""
    with Producer(mq.namesrv) as producer:
        producer.send(Message("made-by-sending", b"x"))
        producer.send(Message("made-by-sending", b"y"))
    assert len(admin.queues("made-by-sending")) == 4


def test_without_auto_creation_a_missing_topic_is_named() -> None:
    """Where topics are not created by themselves, the error says how to create one."""
    with (
        cluster(broker_config=BrokerConfig(auto_create_topic_enable=False)) as mq,
        Producer(mq.namesrv) as producer,
        pytest.raises(TopicNotFound, match="rmq topic create nowhere"),
    ):
        producer.send(Message("nowhere", b"x"))


def connected_producers(client: ClusterClient, group: str) -> list[str]:
    """The languages of the group's producers that broker-a knows of."""
    header = GetProducerConnectionListRequestHeader(group)
    try:
        response = client.broker("broker-a").call(RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
    except RmqError:
        return []
    return [connection.language for connection in ProducerConnection.decode(response.body).connectionSet]


def test_a_producer_is_seen_and_says_good_bye(mq: LocalCluster, topic: str) -> None:
    """RocketMQ's tools list a producer while it is open, and no longer."""
    with ClusterClient(mq.namesrv) as client:
        with Producer(mq.namesrv, group="visible") as producer:
            producer.send(Message(topic, b"x"))
            while not (seen := connected_producers(client, "visible")):  # the heartbeat is sent in the background
                producer.send(Message(topic, b"x"))
            assert seen == ["PYTHON"]
        assert connected_producers(client, "visible") == []


def test_a_closed_producer_says_so(mq: LocalCluster, topic: str) -> None:
    """close waits for asynchronous sends; afterwards every call says that the producer is closed."""
    producer = Producer(mq.namesrv)
    futures = [producer.send_async(Message(topic, b"x")) for _ in range(20)]
    producer.close()
    producer.close()
    assert all(future.done() and future.exception() is None for future in futures)
    for call in (producer.send, producer.send_async, producer.send_oneway):
        with pytest.raises(AlreadyClosed):
            call(Message(topic, b"x"))
    with pytest.raises(AlreadyClosed):
        producer.send_batch([Message(topic, b"x")])


def test_sending_goes_on_when_one_of_two_brokers_stops() -> None:
    """A producer that may choose the queue loses nothing when a broker goes, and uses it again when it is back."""
    with cluster(brokers=2) as mq, AdminClient(mq.namesrv) as admin, Producer(mq.namesrv) as producer:
        admin.create_topic("orders", queues=2)
        assert {producer.send(Message("orders", b"x")).queue.broker_name for _ in range(4)} == {"broker-a", "broker-b"}
        mq.stop_broker("broker-a")
        assert {producer.send(Message("orders", b"x")).queue.broker_name for _ in range(4)} == {"broker-b"}
        mq.start_broker("broker-a")
        admin.queues("orders")
        assert producer.send(Message("orders", b"x"), queue=admin.queues("orders")[0]).queue.broker_name == "broker-a"


def test_a_timed_message_can_be_taken_back(mq: LocalCluster, topic: str) -> None:
    """By the handle of its receipt, which those have that are delivered at a time; of others of that time nothing is
    taken."""
    time_ms = SystemClock().now_ms() + 2_000
    with Producer(mq.namesrv) as producer:
        assert producer.send(Message(topic, b"at once"), queue=0).recall_handle == ""
        receipt = producer.send(Message(topic, b"recalled", deliver_time_ms=time_ms), queue=0)
        later = producer.send_async(Message(topic, b"wanted", deliver_time_ms=time_ms), queue=0).result()
        assert later.recall_handle
        assert producer.recall(topic, receipt.recall_handle) == receipt.msg_id
    with PullConsumer(mq.namesrv) as consumer:
        consumer.assign([receipt.queue])
        consumer.seek_to_beginning()
        bodies = [message.body for message in consumer.poll(60_000)]
        bodies += [message.body for message in consumer.poll(60_000)]
    assert bodies == [b"at once", b"wanted"]


def test_what_cannot_be_recalled_is_told(mq: LocalCluster, topic: str, admin: AdminClient) -> None:
    """With what would be right; a topic that is not there is said not to be."""
    soon_ms = SystemClock().now_ms() + 60_000
    with Producer(mq.namesrv) as producer:
        handle = producer.send(Message(topic, b"x", deliver_time_ms=soon_ms)).recall_handle
        admin.create_topic(f"{topic}-other")
        with pytest.raises(NotRecallable, match=r"'gone' is no recall handle\. A receipt of a timed message has one\."):
            producer.recall(topic, "gone")
        with pytest.raises(NotRecallable, match="topic not match"):
            producer.recall(f"{topic}-other", handle)
        with pytest.raises(NotRecallable, match="timestamp invalid"):
            producer.recall(topic, RecallHandle.decode(handle)._replace(time_ms="5").encode())
        with pytest.raises(TopicNotFound):
            producer.recall(f"{topic}-gone", handle)
        with pytest.raises(InvalidName, match="Name the topic it was sent to"):
            producer.recall(f"%RETRY%{topic}", handle)
        with pytest.raises(InvalidArgument, match="recall_handle is b'x'"):
            producer.recall(topic, b"x")  # type: ignore[arg-type]


@pytest.mark.parametrize("shard", [None, "s"])
def test_a_topic_that_may_be_written_to_again(mq: LocalCluster, topic: str, shard: str | None) -> None:
    """Who was refused hears of it with the next send, as RocketMQ's producers do, and not half a minute later."""
    with AdminClient(mq.namesrv) as admin, Producer(mq.namesrv) as producer:
        admin.update_topic(topic, perm="r")
        with pytest.raises(NoPermission, match="No queue of topic"):
            producer.send(Message(topic, b"x"), shard=shard)
        admin.update_topic(topic, perm="rw")
        producer.send(Message(topic, b"x"), shard=shard)
        admin.update_topic(topic, perm="r")
        producer._cluster.expire_route(topic)
        with pytest.raises(NoPermission, match="No queue of topic"):
            producer.send_async(Message(topic, b"x"), shard=shard)
        admin.update_topic(topic, perm="rw")
        producer.send_async(Message(topic, b"x"), shard=shard).result()
    assert len(everything(mq, topic)) == 2

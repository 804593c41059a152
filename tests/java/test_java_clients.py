"""RocketMQ's own producers and consumers on our broker: what one side sends, the other has, to the byte."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from ours import read, rmq
from py4j.protocol import Py4JJavaError
from rocketmq import wait_for

from rmqspark.client.producer import Producer
from rmqspark.model import Message

if TYPE_CHECKING:
    from jvm import Jvm
    from ours import Up
    from rocketmq import RocketMQ


pytestmark = [pytest.mark.java, pytest.mark.integration]
SENT_BY_QUICKSTART = 1000
SENT_BY_BENCHMARK = 2000


def lag(namesrv: str, group: str, topic: str) -> int | None:
    """What `rmq group describe` says that a group has still to read of a topic."""
    queues = json.loads(rmq(namesrv, "group", "describe", group, "--json"))["queues"]
    lags = [queue["lag"] for queue in queues if queue["topic"] == topic]
    return None if None in lags else sum(lags)


@pytest.fixture(scope="module")
def quickstart(ours: Up, rocketmq: RocketMQ) -> str:
    """The topic of RocketMQ's quickstart, which its producer has filled."""
    said = rocketmq.run("example.quickstart.Producer", namesrv=ours.namesrv)
    assert said.count("sendStatus=SEND_OK") == SENT_BY_QUICKSTART
    return "TopicTest"


def test_the_quickstart_producer_sends_to_us(ours: Up, quickstart: str) -> None:
    """RocketMQ's first steps work on our broker: a topic nobody made, a thousand messages, none lost or changed."""
    messages = read(ours.namesrv, quickstart)
    assert {message.body.decode() for message in messages} == {f"Hello RocketMQ {n}" for n in range(SENT_BY_QUICKSTART)}
    assert len(messages) == SENT_BY_QUICKSTART
    assert {message.tags for message in messages} == {"TagA"}
    assert len({message.queue for message in messages}) == 4


def test_the_quickstart_consumer_reads_from_us(ours: Up, rocketmq: RocketMQ, quickstart: str) -> None:
    """A push consumer gets every message and commits: `rmq group describe` sees its member, then no lag."""
    group = "please_rename_unique_group_name_4"
    with rocketmq.running("example.quickstart.Consumer", namesrv=ours.namesrv) as consumer:
        wait_for(lambda: consumer.printed().count("Receive New Messages") >= SENT_BY_QUICKSTART, "all have arrived")
        wait_for(lambda: lag(ours.namesrv, group, quickstart) == 0, "the group has committed")
        members = json.loads(rmq(ours.namesrv, "group", "describe", group, "--json"))["members"]
        assert [member["language"] for member in members] == ["JAVA"]
    bodies = [bytes(map(int, found.split(", "))) for found in re.findall(r"body=\[([\d, ]+)\]", consumer.printed())]
    assert Counter(bodies) == Counter(f"Hello RocketMQ {n}".encode() for n in range(SENT_BY_QUICKSTART))


def test_the_benchmark_runs_on_us(ours: Up, rocketmq: RocketMQ) -> None:
    """RocketMQ's benchmark, whose headers are binary, produces with keys and tags, and consumes to the end."""
    settings = ["-t", "bench", "-w", "4", "-s", "100", "-k", "true", "-l", "3", "-q", str(SENT_BY_BENCHMARK)]
    rocketmq.run("example.benchmark.Producer", "-n", ours.namesrv, *settings)
    messages = read(ours.namesrv, "bench")
    assert len(messages) == SENT_BY_BENCHMARK
    assert {len(message.body) for message in messages} == {100}
    assert all(message.keys and message.tags for message in messages)
    with rocketmq.running("example.benchmark.Consumer", "-n", ours.namesrv, "-t", "bench", "-g", "bench-readers"):
        wait_for(lambda: "bench-readers" in rmq(ours.namesrv, "group", "list"), "the consumer has connected")
        wait_for(lambda: lag(ours.namesrv, "bench-readers", "bench") == 0, "the consumer has read and committed all")


def test_batches_of_the_benchmark_arrive_whole(ours: Up, rocketmq: RocketMQ) -> None:
    """RocketMQ's batch benchmark sends many messages in a request; each is a message of its own with us."""
    settings = ["-t", "bench-batches", "-w", "2", "-s", "64", "-b", "20", "-l", "2"]
    with rocketmq.running("example.benchmark.BatchProducer", "-n", ours.namesrv, *settings):
        wait_for(lambda: "bench-batches" in rmq(ours.namesrv, "topic", "list"), "the topic was created")
        wait_for(lambda: len(read(ours.namesrv, "bench-batches")) >= 200, "batches have arrived")
    messages = read(ours.namesrv, "bench-batches")
    assert {len(message.body) for message in messages} == {64}
    assert len(messages) % 20 == 0
    for batch in (messages[at : at + 20] for at in range(0, len(messages), 20)):
        assert len({(message.queue, message.store_timestamp_ms) for message in batch}) == 1


def test_a_small_batch_keeps_what_each_message_has(ours: Up, jvm: Jvm) -> None:
    """The messages of SimpleBatchProducer's one request have their own keys and follow each other in one queue."""
    said = jvm.main("example.batch.SimpleBatchProducer", namesrv=ours.namesrv)
    messages = read(ours.namesrv, "BatchTest")
    assert [(message.keys, message.body) for message in messages] == [
        ([f"OrderID00{n + 1}"], f"Hello world {n}".encode()) for n in range(3)
    ]
    assert [message.queue_offset - messages[0].queue_offset for message in messages] == [0, 1, 2]
    found = re.search(r" msgId=([^ ]+),", said)
    assert found, said
    assert [message.msg_id for message in messages] == found[1].split(",")


def test_asynchronous_sends_arrive(ours: Up, jvm: Jvm) -> None:
    """All hundred messages of AsyncProducer are there, whichever way their answers came."""
    jvm.main("example.simple.AsyncProducer", namesrv=ours.namesrv)
    messages = read(ours.namesrv, "Jodie_topic_1023")
    assert Counter((message.body, *message.keys) for message in messages) == {(b"Hello world", "OrderID188"): 100}


def test_oneway_sends_arrive(ours: Up, jvm: Jvm) -> None:
    """A send that waits for no answer is stored all the same."""
    with jvm.producer(ours.namesrv) as producer:
        producer.send(message_of(jvm, "oneway", b"0"))
        for number in range(1, 10):
            producer.sendOneway(message_of(jvm, "oneway", b"%d" % number))
        wait_for(lambda: len(read(ours.namesrv, "oneway")) == 10, "all have arrived")
    assert {message.body for message in read(ours.namesrv, "oneway")} == {b"%d" % number for number in range(10)}


def test_tags_are_filtered_for_both(ours: Up, jvm: Jvm) -> None:
    """`TagA || TagC` gives a Java consumer and ours the same forty of the sixty messages."""
    jvm.main("example.filter.TagFilterProducer", namesrv=ours.namesrv)
    assert len(read(ours.namesrv, "TagFilterTest")) == 60
    wanted = {message.msg_id for message in read(ours.namesrv, "TagFilterTest", tags="TagA || TagC")}
    assert len(wanted) == 40
    with jvm.push_consumer(ours.namesrv, "tag-readers", "TagFilterTest", "TagA || TagC") as received:
        wait_for(lambda: len(received) >= 40, "the Java consumer has them")
        assert {message.getMsgId() for message in received} == wanted
        assert {message.getTags() for message in received} == {"TagA", "TagC"}


def test_sql_is_filtered_for_both(ours: Up, jvm: Jvm) -> None:
    """MessageSelector.bySql gives a Java consumer the messages that ours gets, those it waits for too; a mistake in the
    expression is refused at its start."""
    jvm.main("example.filter.SqlFilterProducer", namesrv=ours.namesrv)
    sql = "(TAGS is not null and TAGS in ('TagA', 'TagB')) and (a is not null and a between 0 and 3)"
    wanted = {message.msg_id for message in read(ours.namesrv, "SqlFilterTest", sql=sql)}
    assert wanted
    assert len(wanted) < len(read(ours.namesrv, "SqlFilterTest"))
    with jvm.push_consumer(ours.namesrv, "sql-readers", "SqlFilterTest", sql=sql) as received:
        wait_for(lambda: len(received) >= len(wanted), "the Java consumer has them")
        assert {message.getMsgId() for message in received} == wanted
        with Producer(ours.namesrv) as producer:
            for a in ("4", "2"):
                late = producer.send(Message("SqlFilterTest", b"late", tags="TagA", properties={"a": a}))
        wait_for(lambda: len(received) > len(wanted), "the Java consumer has the late one")
        assert {message.getMsgId() for message in received} == {*wanted, late.msg_id}
    with (
        pytest.raises(Py4JJavaError, match="a condition is needed here"),
        jvm.push_consumer(ours.namesrv, "sql-mistaken", "SqlFilterTest", sql="5"),
    ):
        pass


def test_order_is_kept_within_a_queue(ours: Up, jvm: Jvm) -> None:
    """RocketMQ's ordered example: our queues hold its messages in the order sent, and its consumer locks and reads."""
    jvm.main("example.ordermessage.Producer", namesrv=ours.namesrv)
    stored = defaultdict(list)
    for message in read(ours.namesrv, "TopicTestjjj"):
        stored[message.queue.queue_id].append(int(message.keys[0].removeprefix("KEY")))
    assert sum(map(len, stored.values())) == 100
    assert all(numbers == sorted(numbers) for numbers in stored.values())
    with jvm.push_consumer(ours.namesrv, "in-order", "TopicTestjjj", orderly=True) as received:
        wait_for(lambda: len(received) >= 100, "the Java consumer has them")
        read_in_order = defaultdict(list)
        for message in received:
            read_in_order[message.getQueueId()].append(int(message.getKeys().removeprefix("KEY")))
    assert read_in_order == stored


@pytest.mark.parametrize("orderly", [False, True])
def test_what_fails_is_delivered_again(orderly: bool, ours: Up, jvm: Jvm) -> None:
    """A Java consumer that fails gets the message again, and its group has no lag then."""
    topic = f"failing-{orderly}"
    with Producer(ours.namesrv) as producer:
        producer.send(Message(topic, b"once more"))
    with jvm.push_consumer(ours.namesrv, topic, topic, orderly=orderly, failures=1) as received:
        wait_for(lambda: len(received) >= 2, "the message has come again")
        assert {message.getBody() for message in received} == {b"once more"}
        wait_for(lambda: lag(ours.namesrv, topic, topic) == 0, "it is done with")


@pytest.mark.parametrize("compression", ["ZLIB", "LZ4", "ZSTD"])
def test_compressed_bodies_are_read_by_both(compression: str, ours: Up, jvm: Jvm) -> None:
    """A body that Java compressed, in any of its ways, we unpack, and Java unpacks one that we compressed."""
    topic, body = f"compressed-{compression}", b"the same again and again " * 1000
    with jvm.producer(ours.namesrv) as java_producer:
        java_producer.setCompressType(getattr(jvm.rocketmq.common.compression.CompressionType, compression))
        java_producer.send(message_of(jvm, topic, body))
    with Producer(ours.namesrv) as producer:
        producer.send(Message(topic, body))
    assert [message.body for message in read(ours.namesrv, topic)] == [body, body]
    with jvm.push_consumer(ours.namesrv, f"readers-{compression}", topic) as received:
        wait_for(lambda: len(received) >= 2, "the Java consumer has both")
        assert [message.getBody() for message in received] == [body, body]
        assert all(message.getStoreSize() < 1000 for message in received)


def test_what_we_send_java_reads(ours: Up, jvm: Jvm) -> None:
    """Tags, keys, properties, flag and body of our messages, single and in batches, are what a Java consumer gets."""
    sent = [
        Message(
            "to-java",
            bytes([n]) * n,
            tags=f"t{n % 3}",
            keys=[f"k{n}", "all"],
            properties={"n": str(n), "é": "日本"},
            flag=n,
        )
        for n in range(1, 31)
    ]
    with Producer(ours.namesrv) as producer:
        for message in sent[:10]:
            producer.send(message)
        producer.send_batch(sent[10:])
    with jvm.push_consumer(ours.namesrv, "java-readers", "to-java") as received:
        wait_for(lambda: len(received) >= 30, "the Java consumer has them")
        seen = sorted(map(facts_of, received), key=lambda facts: int(facts["n"]))
    assert seen == [
        {
            "body": message.body,
            "tags": message.tags,
            "keys": " ".join(message.keys),
            "flag": message.flag,
            **message.properties,
        }
        for message in sent
    ]


def message_of(jvm: Jvm, topic: str, body: bytes) -> Any:
    return jvm.rocketmq.common.message.Message(topic, "", "", body)


def facts_of(message: Any) -> dict[str, Any]:
    """What a Java consumer can know of a message that we sent."""
    return {
        "body": message.getBody(),
        "tags": message.getTags(),
        "keys": message.getKeys(),
        "flag": message.getFlag(),
        "n": message.getUserProperty("n"),
        "é": message.getUserProperty("é"),
    }

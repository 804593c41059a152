"""Topics read and written by batch queries of a real Spark."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Row

from rmqspark.client.producer import Producer
from rmqspark.clock import SystemClock
from rmqspark.model import Message
from rmqspark.source.values.schema import default_schema

if TYPE_CHECKING:
    from conftest import Topic
    from pyspark.sql import SparkSession

    from rmqspark.client.admin import AdminClient
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.spark


def test_every_column_there_and_back(topic: Topic, rmq_spark: SparkSession) -> None:
    """What is written in any column comes back, under its own type."""
    rows = [
        Row(body=b"\x00\xff", tags="paid", keys=["a", "b"], shardingKey="s", properties={"region": "eu"}),
        Row(body=b"plain", tags=None, keys=None, shardingKey=None, properties=None),
    ]
    schema = "body binary, tags string, keys array<string>, shardingKey string, properties map<string,string>"
    topic.write(rmq_spark.createDataFrame(rows, schema))
    full, plain = sorted(topic.read().collect(), key=lambda row: bytes(row.body))
    assert (bytes(full.body), full.tags, full.keys) == (b"\x00\xff", "paid", "a b")
    assert full.properties["region"] == "eu"
    assert full.properties["__SHARDINGKEY"] == "s"
    assert full.topic == topic.name
    assert full.brokerName == "broker-a"
    assert full.bornTimestamp <= full.storeTimestamp
    before = [row for row in (plain,) if row.queueId == full.queueId and row.queueOffset < full.queueOffset]
    assert (full.reconsumeTimes, full.flag, full.queueOffset) == (0, 0, len(before))
    assert (bytes(plain.body), plain.tags, plain.keys) == (b"plain", None, None)
    assert len({full.msgId, plain.msgId}) == 2


def test_rows_that_are_to_wait(topic: Topic, rmq_spark: SparkSession) -> None:
    """By level or by time, at least once and exactly once: each comes when its time has come."""
    rows = rmq_spark.sql("select 'level' body, 1 delayLevel, null deliverTime union all select 'at once', null, null")
    topic.write(rows.selectExpr("body", "delayLevel", "cast(deliverTime as timestamp) deliverTime"))
    timed = rmq_spark.sql("select 'time' body, now() + interval 2 seconds deliverTime")
    topic.write(timed, transactionalId=topic.name, transactionVersion=1)
    while topic.read().count() < 3:
        SystemClock().sleep_ms(100)
    assert sorted(topic.bodies()) == ["at once", "level", "time"]
    waited = "bigint(storeTimestamp) - bigint(bornTimestamp) >= if(body = 'at once', 0, 1) as has_waited"
    assert {row.has_waited for row in topic.read().selectExpr(waited).collect()} == {True}


def test_both_names_of_the_format(topic: Topic, rmq_spark: SparkSession) -> None:
    """Spark finds the source as rmq and as rocketmq without being told where it is."""
    topic.send("a")
    reader = rmq_spark.read.format("rocketmq").option("nameServer", topic.namesrv).option("subscribe", topic.name)
    assert reader.load().count() == 1


def test_a_write_in_a_thread(topic: Topic, rmq_spark: SparkSession) -> None:
    """Spark finds the sink where the thread has made a frame from Python's values, as docs/spark.md says."""
    frame = rmq_spark.sql("select 'a' body")

    def write() -> None:
        rmq_spark.createDataFrame([], "nothing int")
        topic.write(frame)

    with ThreadPoolExecutor() as pool:
        pool.submit(write).result()
    assert topic.bodies() == ["a"]


def test_each_column_alone(topic: Topic) -> None:
    """A schema that names one column gives it, whichever it is, as the full read does."""
    topic.send("a", tags="t", keys=["k"])
    everything = topic.read().collect()[0].asDict()
    for field in default_schema():
        rows = topic.read(f"{field.name} {field.dataType.simpleString()}").collect()
        assert rows == [Row(**{field.name: everything[field.name]})]


def test_many_rows_reach_all_queues_once(topic: Topic, rmq_spark: SparkSession) -> None:
    """A large write arrives complete, spread over the queues, each queue without a gap."""
    count = 50_000
    topic.write(rmq_spark.range(count).selectExpr("cast(id as string) body"))
    found = topic.read("body binary, queueId int, queueOffset bigint").selectExpr(
        "cast(cast(body as string) as bigint) id", "queueId", "queueOffset"
    )
    assert found.distinct().count() == found.select("id").distinct().count() == count
    for row in found.groupBy("queueId").agg({"queueOffset": "max", "id": "count"}).collect():
        assert row["max(queueOffset)"] + 1 == row["count(id)"]


def test_a_sharding_key_keeps_its_rows_together_and_in_order(topic: Topic, rmq_spark: SparkSession) -> None:
    """All rows of a key are in one queue, the one where a producer puts that key, in the order written."""
    rows = rmq_spark.range(3_000).selectExpr("cast(id as string) value", "concat('k', id % 5) shardingKey")
    topic.write(rows.coalesce(1))
    with Producer(topic.namesrv) as producer:
        sent = {
            f"k{key}": producer.send(Message(topic.name, b"last"), shard=f"k{key}").queue.queue_id for key in range(5)
        }
    found = topic.read().filter("body != cast('last' as binary)").collect()
    by_key: dict[str, list[tuple[int, int]]] = {}
    for row in sorted(found, key=lambda row: (row.queueId, row.queueOffset)):
        assert row.queueId == sent[row.properties["__SHARDINGKEY"]]
        by_key.setdefault(row.properties["__SHARDINGKEY"], []).append(int(bytes(row.body)))
    assert all(values == sorted(values) and len(values) == 600 for values in by_key.values())


def test_a_column_chooses_queue_and_topic(topic: Topic, other: Topic, rmq_spark: SparkSession) -> None:
    """partitioner=column and a topic column send each row where it says."""
    rows = rmq_spark.createDataFrame(
        [("a", topic.name, 2), ("b", other.name, 1), ("c", topic.name, 0)], "body string, topic string, queueId int"
    )
    rows.write.format("rmq").option("namesrv", topic.namesrv).option("partitioner", "column").mode("append").save()
    assert sorted((bytes(row.body), row.queueId) for row in topic.read().collect()) == [(b"a", 2), (b"c", 0)]
    assert [(bytes(row.body), row.queueId) for row in other.read().collect()] == [(b"b", 1)]


def test_what_was_read_can_be_written_as_it_is(topic: Topic, other: Topic) -> None:
    """load() goes straight to the sink; tags, keys and properties survive the copy."""
    topic.send("a", tags="t", keys=["k"])
    other.write(topic.read())
    copy = other.read().collect()[0]
    assert (bytes(copy.body), copy.tags, copy.keys) == (b"a", "t", "k")


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_compression(topic: Topic, rmq_spark: SparkSession, kind: str) -> None:
    """Compressed bodies come back as they were."""
    topic.write(rmq_spark.range(20).selectExpr("repeat(cast(id as string), 5000) body"), compression=kind)
    rows = topic.read("body binary").collect()
    assert sorted(bytes(row.body).decode() for row in rows) == sorted(str(number) * 5000 for number in range(20))


def test_tags_are_filtered(topic: Topic) -> None:
    """Only messages with one of the tags come back."""
    for tag in ("paid", "shipped", "void"):
        topic.send(tag, tags=tag)
    rows = topic.read("body binary", tags="paid || shipped").collect()
    assert sorted(bytes(row.body) for row in rows) == [b"paid", b"shipped"]


def test_sql_is_filtered(topic: Topic, rmq_spark: SparkSession) -> None:
    """Only messages that the condition accepts come back, read as a batch or as a stream, split or not."""
    prices = rmq_spark.range(300).selectExpr(
        "cast(id as string) body", "map('price', cast(id as string), 'region', if(id % 2 = 0, 'EU', 'US')) properties"
    )
    topic.write(prices)
    sql = "price >= 280 AND region = 'EU' OR price IN ('7')"
    found = topic.read("body binary", sql=sql, maxRecordsPerPartition=40)
    assert found.rdd.getNumPartitions() > 3
    assert sorted(int(row.body) for row in found.collect()) == [7, *range(280, 300, 2)]


def test_offsets_bound_a_batch(topic: Topic, rmq_spark: SparkSession) -> None:
    """startingOffsets and endingOffsets read exactly the offsets between them."""
    rows = rmq_spark.range(10).selectExpr("cast(id as string) body", "0 queueId")
    topic.write(rows.coalesce(1), partitioner="column")
    start = {topic.name: {"broker-a": {"0": 2, "1": -2, "2": -1}}}
    end = {topic.name: {"broker-a": {"0": 5, "1": -1, "2": -1}}}
    found = topic.read(startingOffsets=json.dumps(start), endingOffsets=json.dumps(end))
    assert sorted(bytes(row.body) for row in found.collect()) == [b"2", b"3", b"4"]
    end[topic.name]["broker-a"]["0"] = 11
    story = f"endingOffsets names offset 11 of queue {topic.name}/broker-a/0, which ends at 10"
    with pytest.raises(Exception, match=story):
        topic.read(endingOffsets=json.dumps(end)).collect()


def test_timestamps_bound_a_batch(topic: Topic) -> None:
    """startingTimestamp and endingTimestamp read what was stored between them."""
    topic.send("early")
    middle_ms = int(topic.read().collect()[0].storeTimestamp.timestamp() * 1000) + 1
    topic.send("late")
    late = topic.read(startingTimestamp=middle_ms, startingOffsetsByTimestampStrategy="latest")
    assert [bytes(row.body) for row in late.collect()] == [b"late"]
    assert [bytes(row.body) for row in topic.read(endingTimestamp=middle_ms).collect()] == [b"early"]


def test_assigned_queues_only(topic: Topic, rmq_spark: SparkSession) -> None:
    """assign reads the queues it names and no others."""
    rows = rmq_spark.range(9).selectExpr("cast(id as string) body", "cast(id % 3 as int) queueId")
    topic.write(rows, partitioner="column")
    assigned = json.dumps({topic.name: {"broker-a": [1]}})
    reader = rmq_spark.read.format("rmq").option("namesrv", topic.namesrv).option("assign", assigned)
    assert sorted(bytes(row.body) for row in reader.load().collect()) == [b"1", b"4", b"7"]


def test_large_queues_are_split(topic: Topic, rmq_spark: SparkSession) -> None:
    """maxRecordsPerPartition gives a long queue to several tasks, and nothing is read twice."""
    rows = rmq_spark.range(100).selectExpr("cast(id as string) body", "0 queueId")
    topic.write(rows.coalesce(1), partitioner="column")
    frame = topic.read("body binary", maxRecordsPerPartition=30)
    assert frame.rdd.getNumPartitions() == 4
    assert sorted(int(bytes(row.body)) for row in frame.collect()) == list(range(100))


def test_an_empty_topic_and_an_empty_frame(topic: Topic, rmq_spark: SparkSession) -> None:
    """Nothing written and nothing read are both fine."""
    topic.write(rmq_spark.range(0).selectExpr("cast(id as string) body"))
    assert topic.read().count() == 0


def test_a_topic_is_created_when_asked_for(topic: Topic, rmq_spark: SparkSession, admin: AdminClient) -> None:
    """autoCreateTopic makes the topic with as many queues as said."""
    name = f"{topic.name}-new"
    writer = rmq_spark.range(100).selectExpr("cast(id as string) body").write.format("rmq")
    options = {"namesrv": topic.namesrv, "topic": name, "autoCreateTopic": True, "queues": 5}
    writer.options(**options).mode("append").save()
    assert len(admin.queues(name)) == 5
    assert rmq_spark.read.format("rmq").option("namesrv", topic.namesrv).load(name).count() == 100


def test_messages_of_a_plain_producer(topic: Topic, mq: LocalCluster) -> None:
    """A message sent by a plain producer is read like any other."""
    with Producer(mq.namesrv) as producer:
        receipt = producer.send(Message(topic.name, b"single", tags="t", keys=["k"], properties={"a": "1"}))
    row = topic.read().collect()[0]
    assert (bytes(row.body), row.tags, row.keys, row.msgId) == (b"single", "t", "k", receipt.msg_id)
    assert row.properties["a"] == "1"

"""What a user sees of a mistake, through Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Topic
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_mistyped_option_fails_at_load(rmq_spark: SparkSession) -> None:
    """The error comes when the query is written, and names the option that was meant."""
    with pytest.raises(Exception, match="no option 'subcribe'. Did you mean 'subscribe'"):
        rmq_spark.read.format("rmq").option("subcribe", "t").load()


def test_a_read_of_nothing_fails_at_load(rmq_spark: SparkSession) -> None:
    """Batch or stream, where no option says what to read, the error does not wait for the first action."""
    with pytest.raises(Exception, match=r'No topic to read. Name one: .option\("subscribe", "orders"\)'):
        rmq_spark.read.format("rmq").load()
    with pytest.raises(Exception, match="No topic to read"):
        rmq_spark.readStream.format("rmq").option("startingOffsets", "earliest").load()


def test_an_address_that_is_none_fails_at_load(rmq_spark: SparkSession) -> None:
    """A name server without a port, or a list with Kafka's commas, is known to be none before one is asked."""
    for address in ("queue.example", "one:9876,two:9876"):
        with pytest.raises(Exception, match=f"namesrv '{address}' is not an address.*separate several with semicolons"):
            rmq_spark.readStream.format("rmq").option("namesrv", address).load("t")


def test_a_name_that_no_topic_may_have_fails_at_load(rmq_spark: SparkSession) -> None:
    """The error names option, name and rule before a server is asked."""
    with pytest.raises(Exception, match="'path' cannot be 'a/b': The topic name 'a/b' has characters.*Use 1 to 127"):
        rmq_spark.read.format("rmq").load("a/b")


def test_options_that_contradict_each_other_or_are_out_of_range(rmq_spark: SparkSession) -> None:
    """The error comes when the query is written, and says which option, which value, and what is accepted."""
    reader = rmq_spark.readStream.format("rmq")
    with pytest.raises(Exception, match="Options 'subscribe' and 'subscribePattern' exclude each other"):
        reader.option("subscribePattern", "t.*").load("t")
    with pytest.raises(Exception, match="Option 'maxOffsetsPerTrigger' cannot be '0': a whole number, 1 or more"):
        rmq_spark.readStream.format("rmq").option("maxOffsetsPerTrigger", "0").load("t")
    rows = rmq_spark.range(1).selectExpr("cast(id as string) body").write.format("rmq").mode("append")
    with pytest.raises(Exception, match="'queues'.* cannot be '-1': a whole number, 1 to 65536"):
        rows.option("topic", "t").option("autoCreateTopic", "true").option("queues", "-1").save()


@pytest.mark.parametrize(
    ("option", "reading", "writing"),
    [
        ("kafka.bootstrap.servers", r'Use option\("namesrv", "host:9876"\)', r'Use option\("namesrv", "host:9876"\)'),
        ("includeHeaders", "column properties, a map", "Write a column properties, a map"),
        ("secretKey", "'secretKey' needs 'accessKey'", "'secretKey' needs 'accessKey'"),
    ],
)
def test_options_of_kafka_users_and_half_of_a_pair(
    rmq_spark: SparkSession, option: str, reading: str, writing: str
) -> None:
    """Each is an error before any job, with ours as the hint, and none of their values is shown."""
    rows = rmq_spark.range(1).selectExpr("cast(id as string) body").write.format("rmq").mode("append")
    with pytest.raises(Exception, match=reading) as unread:
        rmq_spark.readStream.format("rmq").option(option, "s3cret").load("t")
    with pytest.raises(Exception, match=writing) as unwritten:
        rows.option("topic", "t").option(option, "s3cret").save()
    assert "s3cret" not in f"{unread.value}{unwritten.value}"


def test_a_mistake_in_a_condition_fails_at_load(rmq_spark: SparkSession) -> None:
    """Before any job, and with the character at which it goes wrong."""
    with pytest.raises(Exception, match="Option 'sql' cannot be.*wrong at character 8: the expression ends too early"):
        rmq_spark.readStream.format("rmq").option("sql", "price >").load("t")


def test_a_stream_names_a_mistyped_option_too(rmq_spark: SparkSession, tmp_path: Path) -> None:
    """With a schema of the user's own nobody looks at the options before the query starts; then the error is ours."""
    stream = rmq_spark.readStream.format("rmq").schema("body binary").option("subcribe", "t").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match="no option 'subcribe'. Did you mean 'subscribe'") as failure:
        query.awaitTermination(60)
    assert "UnboundLocalError" not in str(failure.value)


def test_a_column_that_is_not_there(topic: Topic) -> None:
    """A schema that the source cannot give names the column."""
    with pytest.raises(Exception, match="The rmq source has no column 'price'"):
        topic.read("price double").count()


def test_a_topic_that_does_not_exist(topic: Topic, rmq_spark: SparkSession) -> None:
    """Reading or writing an unknown topic says how to create it."""
    frame = rmq_spark.read.format("rmq").option("namesrv", topic.namesrv)
    with pytest.raises(Exception, match="Topic 'nowhere' does not exist. Create it with: rmq topic create nowhere"):
        frame.load("nowhere").count()
    rows = rmq_spark.range(1).selectExpr("cast(id as string) body").write.format("rmq").mode("append")
    with pytest.raises(Exception, match="Topic 'nowhere' does not exist.*autoCreateTopic=true"):
        rows.option("namesrv", topic.namesrv).option("topic", "nowhere").save()


def test_no_servers(rmq_spark: SparkSession) -> None:
    """Where nobody listens the error names the address, and how to start a queue or name another."""
    story = "No name server answers at 127.0.0.1:1 .*Start one with: rmq up, or say where yours is"
    reader = rmq_spark.read.format("rmq").option("namesrv", "127.0.0.1:1").option("fetchOffset.retryIntervalMs", "1")
    with pytest.raises(Exception, match=story):
        reader.load("t").count()
    rows = rmq_spark.range(1).selectExpr("cast(id as string) body").write.format("rmq").mode("append")
    with pytest.raises(Exception, match=story):
        rows.option("namesrv", "127.0.0.1:1").option("topic", "t").save()


def test_bodies_that_cannot_be_sent(topic: Topic, rmq_spark: SparkSession) -> None:
    """A null body names its column, and its row so that it can be looked at; an exactly-once batch write says what it
    needs."""
    numbers = rmq_spark.range(0, 60_000, 1, 3).selectExpr("id", "if(id = 35000, null, cast(id as string)) body")
    rows = numbers.select("body")
    story = r"Row (\d+) of this task's input \(partition (\d+)\) cannot be sent: column 'body' is null"
    with pytest.raises(Exception, match=story) as failure:
        topic.write(rows, batchBytes="64k")
    row, partition = map(int, re.search(story, str(failure.value)).groups())
    (found,) = numbers.where(f"spark_partition_id() = {partition}").offset(row).limit(1).collect()
    assert (found.id, found.body) == (35_000, None)
    with pytest.raises(Exception, match="column 'queueId' is 3; topic .* has queues 0 to 2"):
        topic.write(numbers.selectExpr("'a' body", "cast(id / 12000 as int) queueId"), partitioner="column")
    with pytest.raises(Exception, match="An exactly-once batch write needs 'transactionalId'"):
        topic.write(rows, deliveryGuarantee="exactly-once")


def test_delays_that_no_broker_keeps(topic: Topic, rmq_spark: SparkSession) -> None:
    """A row that no broker could hold back ends the query; nothing of its batch is there."""
    rows = rmq_spark.sql("select 'a' body, 19 delayLevel")
    with pytest.raises(Exception, match="column 'delayLevel' is not from 0 to 18"):
        topic.write(rows)
    with pytest.raises(Exception, match="A message waits 259200 seconds at most"):
        topic.write(
            rows.selectExpr("body", "now() + interval 4 days deliverTime"), transactionalId="d", transactionVersion=1
        )
    assert topic.bodies() == []


def test_overwriting(topic: Topic, rmq_spark: SparkSession) -> None:
    """A topic cannot be overwritten."""
    writer = rmq_spark.range(1).selectExpr("cast(id as string) body").write.format("rmq")
    with pytest.raises(Exception, match="cannot be overwritten"):
        writer.option("namesrv", topic.namesrv).option("topic", topic.name).mode("overwrite").save()

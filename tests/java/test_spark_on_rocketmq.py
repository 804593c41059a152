"""Spark beside RocketMQ: on a stock cluster as on ours, and what it writes to ours in bulk read by Java."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from ours import read
from pyspark.errors import StreamingQueryException
from rocketmq import wait_for

from rmqspark.client.admin import AdminClient

if TYPE_CHECKING:
    from pathlib import Path

    from jvm import Jvm
    from ours import Up
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.java, pytest.mark.integration]  # not spark: those run where there is no RocketMQ
ROWS = 900
COLUMNS = (
    "concat('row ', id) body",
    "IF(id % 3 = 0, NULL, concat('t', id % 3)) tags",
    "array(concat('k', id)) keys",
    "map('n', CAST(id AS STRING)) properties",
)


def write(spark: SparkSession, namesrv: str, topic: str) -> None:
    """`ROWS` rows into a new topic of four queues."""
    with AdminClient(namesrv) as admin:
        admin.create_topic(topic, queues=4)
    rows = spark.range(ROWS).selectExpr(*COLUMNS)
    rows.write.format("rmq").option("namesrv", namesrv).option("topic", topic).mode("append").save()


def expected(row: int) -> tuple[str, str | None, str, str]:
    return f"row {row}", f"t{row % 3}" if row % 3 else None, f"k{row}", str(row)


def facts(frame: DataFrame) -> set[tuple[str | None, ...]]:
    return set(frame.selectExpr("CAST(body AS STRING)", "tags", "keys", "properties['n']").collect())


def test_spark_works_on_a_stock_cluster(stock: str, rmq_spark: SparkSession, tmp_path: Path) -> None:
    """A stock cluster takes Spark's rows and gives them back, to a batch query, a filtered one and a stream."""
    write(rmq_spark, stock, "stock-rows")
    everything = {expected(row) for row in range(ROWS)}
    reader = rmq_spark.read.format("rmq").option("namesrv", stock)
    assert reader.load("stock-rows").count() == ROWS
    assert facts(reader.load("stock-rows")) == everything
    assert facts(reader.option("tags", "t1").load("stock-rows")) == {row for row in everything if row[1] == "t1"}

    stream = rmq_spark.readStream.format("rmq").option("namesrv", stock).option("startingOffsets", "earliest")
    query = (
        stream.load("stock-rows")
        .writeStream.format("memory")
        .queryName("stock_rows")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert facts(rmq_spark.table("stock_rows")) == everything


def test_a_stream_writes_to_a_stock_cluster_at_least_once(stock: str, rmq_spark: SparkSession, tmp_path: Path) -> None:
    """Not exactly once, which such brokers cannot keep: the error says why, and the way out, which then works."""
    write(rmq_spark, stock, "stock-source")
    with AdminClient(stock) as admin:
        admin.create_topic("stock-copies", queues=2)

    def run(**options: str) -> None:
        stream = rmq_spark.readStream.format("rmq").options(namesrv=stock, startingOffsets="earliest")
        writer = stream.load("stock-source").writeStream.format("rmq").options(namesrv=stock, **options)
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        assert writer.start("stock-copies").awaitTermination(60)

    story = "(?s)knows no transactions of whole batches.*would be written again.*deliveryGuarantee=at-least-once"
    with pytest.raises(StreamingQueryException, match=story):
        run()
    copies = rmq_spark.read.format("rmq").option("namesrv", stock)
    assert copies.load("stock-copies").count() == 0
    run(deliveryGuarantee="at-least-once")
    assert facts(copies.load("stock-copies")) == {expected(row) for row in range(ROWS)}
    assert copies.load("stock-copies").count() == ROWS


def test_java_reads_what_spark_wrote_in_bulk(ours: Up, jvm: Jvm, rmq_spark: SparkSession) -> None:
    """To a Java consumer the rows of Spark's bulk sends are messages like any others, filtered and found by key too."""
    write(rmq_spark, ours.namesrv, "bulk-rows")
    wanted = Counter(expected(row) for row in range(ROWS) if row % 3)
    with jvm.push_consumer(ours.namesrv, "bulk-readers", "bulk-rows", "t1 || t2") as received:
        wait_for(lambda: len(received) >= wanted.total(), "the Java consumer has them")
        seen = Counter(
            (bytes(m.getBody()).decode(), m.getTags(), m.getKeys(), m.getUserProperty("n")) for m in received[:100]
        )
        assert len(received) == wanted.total()
    assert seen <= wanted
    with jvm.admin(ours.namesrv) as admin:
        (found,) = admin.queryMessage("bulk-rows", "k7", 64, 0, 1 << 62).getMessageList()
    assert bytes(found.getBody()) == b"row 7"
    assert len({message.msg_id for message in read(ours.namesrv, "bulk-rows")}) == ROWS

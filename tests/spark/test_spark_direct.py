"""readMode=direct with a real Spark: the same rows, from the broker's own files."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Batches, Topic
    from pyspark.sql import SparkSession

    from rmqspark.testing import LocalCluster

    Run = Callable[[Any], Batches]

pytestmark = pytest.mark.spark


def test_a_batch_reads_the_same_either_way(topic: Topic, rmq_spark: SparkSession) -> None:
    """All columns of all messages; few messages in three queues are one task's work, not three's."""
    frame = rmq_spark.range(3000).selectExpr(
        "cast(id as string) body", "if(id % 3 = 0, 'third', null) tags", "concat('k', id) keys",
        "map('n', cast(id as string)) properties",
    )  # fmt: skip
    topic.write(frame)
    by_broker, direct = topic.read(), topic.read(readMode="direct")
    assert direct.rdd.getNumPartitions() == 1
    assert by_broker.rdd.getNumPartitions() == 3
    in_order = ["queueId", "queueOffset"]
    assert direct.orderBy(*in_order).collect() == by_broker.orderBy(*in_order).collect()
    assert topic.read("body binary", readMode="direct", tags="third").count() == 1000
    assert topic.read("body binary", readMode="direct", minPartitions=4).count() == 3000
    chosen = topic.read("body binary", readMode="direct", sql="n BETWEEN 10 AND 29 AND TAGS = 'third'").collect()
    assert sorted(bytes(row.body) for row in chosen) == [b"12", b"15", b"18", b"21", b"24", b"27"]


def test_a_stream_reads_each_message_once(topic: Topic, run: Run) -> None:
    """Micro-batches over restarts, what is still in the broker's memory included."""
    topic.send("a", "b", "c")
    assert run(topic.stream(startingOffsets="earliest", readMode="direct")).bodies == ["a", "b", "c"]
    topic.send(*(f"d{number}" for number in range(5)))
    batches = run(topic.stream(startingOffsets="earliest", readMode="direct", maxOffsetsPerTrigger=2))
    assert batches.bodies == [f"d{number}" for number in range(5)]
    assert max(batches.sizes) <= 2


def test_a_store_is_read_without_a_broker(rmq_spark: SparkSession, tmp_path: Path) -> None:
    """What brokers have left in a folder, each under its name; the files stay as they are."""
    with cluster(brokers=2) as mq:
        rows = rmq_spark.range(1000).selectExpr("cast(id as string) body", "map('n', cast(id as string)) properties")
        writer = rows.write.format("rmq")
        writer.option("namesrv", mq.namesrv).option("autoCreateTopic", "true").mode("append").save("kept")
        for name in mq.brokers:
            mq.stop_broker(name)
            shutil.copytree(mq.store_dir(name), tmp_path / name)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    frame = rmq_spark.read.format("rmq").option("store", str(tmp_path)).option("minPartitions", 4).load()
    assert {int(row.body) for row in frame.select("body").collect()} == set(range(1000))
    assert {row.brokerName for row in frame.select("brokerName").distinct().collect()} == {"broker-a", "broker-b"}
    assert frame.rdd.getNumPartitions() >= 4
    assert rmq_spark.read.format("rmq").option("store", str(tmp_path)).option("sql", "n > 994").load().count() == 5
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


def test_a_store_that_is_not_the_brokers_is_not_read(rmq_spark: SparkSession, tmp_path: Path) -> None:
    """Where the path leads to other files, here to another store that has the topic, messages come from the broker."""

    def write(mq: LocalCluster, first: int) -> None:
        rows = rmq_spark.range(first, first + 100).selectExpr("cast(id as string) body").coalesce(1)
        writer = rows.write.format("rmq").option("namesrv", mq.namesrv).option("autoCreateTopic", "true")
        writer.option("queues", 1).mode("append").save("orders")

    with cluster() as elsewhere:
        write(elsewhere, 1_000)
        elsewhere.stop_broker("broker-a")
        shutil.copytree(elsewhere.store_dir(), tmp_path / "other")
    with cluster() as mq:
        write(mq, 0)
        with in_the_place_of(mq.store_dir(), tmp_path / "other"):
            reader = rmq_spark.read.format("rmq").option("namesrv", mq.namesrv).option("readMode", "direct")
            assert {int(row.body) for row in reader.load("orders").select("body").collect()} == set(range(100))


@contextmanager
def in_the_place_of(store: Path, other: Path) -> Iterator[None]:
    """The path of a store leads to another one; whoever has its files open still has them. The two change places in one
    step each way, for the broker goes on writing files by their names."""
    kept, another = store.with_name("kept"), store.with_name("another")
    shutil.copytree(other, another)
    store.rename(kept)
    another.rename(store)
    try:
        yield
    finally:
        store.rename(another)
        kept.rename(store)

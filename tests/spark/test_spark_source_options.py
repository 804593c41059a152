"""What single options of the source do to a stream, with a real Spark."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from rmqspark.client.cluster.cluster_client import ClusterClient

from .checkpoints import offset_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Batches, Topic
    from pyspark.sql import DataFrame, SparkSession

    from rmqspark.client.admin import AdminClient

    Run = Callable[[Any], Batches]

pytestmark = pytest.mark.spark


def committed(topic: Topic, group: str) -> list[int | None]:
    """By queue."""
    with ClusterClient(topic.namesrv) as client:
        broker = client.broker("broker-a")
        return [broker.query_offset(group, topic.name, queue_id) for queue_id in range(3)]


def test_available_now_ends_where_the_topic_did_when_it_began(topic: Topic, tmp_path: Path) -> None:
    """Trigger.AvailableNow pins its end once: what is sent while it runs is the next run's."""
    topic.send("a", "b", "c", "d")
    read: list[str] = []

    def on_batch(batch: DataFrame, number: int) -> None:
        read.extend(bytes(row.body).decode() for row in batch.collect())
        topic.send(f"late {number}")

    def run_once() -> None:
        frame = topic.stream("body binary", startingOffsets="earliest", maxOffsetsPerTrigger=3)
        writer = frame.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(tmp_path))
        assert writer.trigger(availableNow=True).start().awaitTermination(200)

    run_once()
    assert sorted(read) == ["a", "b", "c", "d"]
    late = len(topic.bodies()) - 4
    assert late >= 2
    run_once()
    assert len(read) == 4 + late


def test_none_of_a_thousand_queues_starves(topic: Topic, run: Run, admin: AdminClient, rmq_spark: SparkSession) -> None:
    """With more queues than messages in a micro-batch each has its turn, beside one that has most of the messages; rows
    and bytes are bounded at the same time."""
    admin.update_topic(topic.name, queues=1_000)
    rows = rmq_spark.range(2_000).selectExpr("cast(id as string) body", "cast(greatest(id - 1000, 0) as int) queueId")
    topic.write(rows.coalesce(1), partitioner="column")
    limits = {
        "maxOffsetsPerTrigger": 600,
        "maxBytesPerTrigger": "1m",
        "minOffsetsPerTrigger": 2,
        "maxTriggerDelay": "1h",
        "readMode": "direct",  # one task a batch instead of hundreds
    }
    batches = run(topic.stream("body binary, queueId int", startingOffsets="earliest", **limits))
    assert sorted(map(int, batches.bodies)) == list(range(2_000))
    assert max(batches.sizes) <= 600
    assert {row.queueId for rows in batches.rows[:2] for row in rows} == set(range(1_000))


def test_a_start_some_time_ago(topic: Topic, run: Run) -> None:
    """startingTimestamp=-10m reads what came in the last ten minutes, and what comes while the query is away."""
    topic.send("a", "b", "c")
    frame = topic.stream(startingTimestamp="-10m", startingOffsetsByTimestampStrategy="latest")
    assert run(frame).bodies == ["a", "b", "c"]
    topic.send("d")
    assert run(frame).bodies == ["d"]


def test_a_group_is_told_or_not_and_may_change(topic: Topic, run: Run, tmp_path: Path) -> None:
    """commitOffsets=false commits nothing; under another group the checkpoint goes on, and that one is told."""
    topic.send("a", "b", "c")
    assert len(run(topic.stream(startingOffsets="earliest", group="silent", commitOffsets=False)).bodies) == 3
    assert committed(topic, "silent") == [None, None, None]
    topic.send("d")
    assert run(topic.stream(group="told")).bodies == ["d"]
    assert sum(offset or 0 for offset in committed(topic, "told")) == 4
    assert offset_of(tmp_path / "checkpoint").group == "told"


def test_queues_are_split_over_more_tasks(topic: Topic, rmq_spark: SparkSession) -> None:
    """minPartitions gives a topic of three queues to six tasks, and nothing is read twice."""
    rows = rmq_spark.range(600).selectExpr("cast(id as string) body", "cast(id % 3 as int) queueId")
    topic.write(rows, partitioner="column", batchBytes="64k")
    frame = topic.read("body binary", minPartitions=6)
    assert frame.rdd.getNumPartitions() == 6
    assert sorted(int(bytes(row.body)) for row in frame.collect()) == list(range(600))


def test_a_stream_of_named_queues_in_pieces(topic: Topic, run: Run, rmq_spark: SparkSession) -> None:
    """assign, startingOffsets for each queue, minPartitions and maxRecordsPerPartition mean in a stream what they mean
    in a batch: exactly those queues, from exactly there, in tasks that are no larger."""
    rows = rmq_spark.range(60).selectExpr("cast(id as string) body", "cast(id % 3 as int) queueId")
    topic.write(rows.coalesce(1), partitioner="column")
    reader = rmq_spark.readStream.format("rmq").schema("body binary").option("namesrvAddr", topic.namesrv)
    reader.option("assign", json.dumps({topic.name: {"broker-a": [0, 2]}}))
    reader.option("startingOffsets", json.dumps({topic.name: {"broker-a": {"0": 5, "2": -2}}}))
    reader.option("minPartitions", 4).option("maxRecordsPerPartition", 7)
    batches = run(reader.load().selectExpr("body", "spark_partition_id() task"))
    assert sorted(map(int, batches.bodies)) == sorted([*range(15, 60, 3), *range(2, 60, 3)])
    in_tasks = Counter(row.task for row in batches.rows[0])
    assert len(in_tasks) >= 4
    assert max(in_tasks.values()) <= 7


def test_a_topic_made_anew_with_fewer_queues(topic: Topic, run: Run, admin: AdminClient) -> None:
    """The queues that it has no longer are lost data; should they come back they are read from their first message."""
    topic.send("a", "b", "c")
    run(topic.stream(startingOffsets="earliest"))
    admin.delete_topic(topic.name)
    admin.create_topic(topic.name, queues=1)
    topic.send("d")
    with pytest.raises(StreamingQueryException, match="its topic was deleted or made anew.* 2 more queues"):
        run(topic.stream())
    assert run(topic.stream(failOnDataLoss=False)).bodies == ["d"]
    admin.update_topic(topic.name, queues=3)
    topic.write(topic.spark.createDataFrame([("e", 2)], "body string, queueId int"), partitioner="column")
    assert run(topic.stream()).bodies == ["e"]

"""Topics read and written by streaming queries of a real Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from .checkpoints import offset_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Batches, Topic
    from pyspark.sql import SparkSession

    from rmqspark.client.admin import AdminClient

    Run = Callable[[Any], Batches]

pytestmark = pytest.mark.spark


def test_a_restart_goes_on_where_the_checkpoint_is(topic: Topic, run: Run, tmp_path: Path) -> None:
    """Each message is read once over two runs, and the group drawn at the start stays."""
    topic.send("a", "b")
    assert run(topic.stream(startingOffsets="earliest")).bodies == ["a", "b"]
    group = offset_of(tmp_path / "checkpoint").group
    topic.send("c")
    assert run(topic.stream(startingOffsets="earliest")).bodies == ["c"]
    assert offset_of(tmp_path / "checkpoint").group == group
    assert run(topic.stream(startingOffsets="earliest")).bodies == []


def test_a_limit_makes_small_batches(topic: Topic, run: Run, rmq_spark: SparkSession) -> None:
    """maxOffsetsPerTrigger bounds each micro-batch, also under Trigger.AvailableNow, and everything is read."""
    topic.write(rmq_spark.range(100).selectExpr("cast(id as string) body"))
    batches = run(topic.stream("body binary", startingOffsets="earliest", maxOffsetsPerTrigger=40))
    assert max(batches.sizes) <= 40
    assert batches.bodies == sorted(map(str, range(100)))


def test_a_stream_of_what_a_condition_accepts(topic: Topic, run: Run, rmq_spark: SparkSession) -> None:
    """sql chooses messages in each micro-batch; a limit counts those that are passed over too."""
    topic.write(rmq_spark.range(60).selectExpr("cast(id as string) body", "map('n', cast(id as string)) properties"))
    batches = run(topic.stream("body binary", startingOffsets="earliest", sql="n > 49", maxOffsetsPerTrigger=20))
    assert batches.bodies == sorted(map(str, range(50, 60)))


def test_a_stream_from_topic_to_topic(topic: Topic, other: Topic, tmp_path: Path) -> None:
    """A query that stays up copies what comes while it runs; new queues of the topic are read too."""
    query = (
        topic.stream("body binary, tags string", tags="keep")
        .writeStream.format("rmq")
        .option("namesrv", other.namesrv)
        .option("topic", other.name)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .queryName("copy")
        .start()
    )
    try:
        query.processAllAvailable()
        topic.send("1", tags="keep")
        topic.send("2", tags="drop")
        query.processAllAvailable()
        assert other.bodies() == ["1"]
        topic.send("3", tags="keep")
        query.processAllAvailable()
        assert other.bodies() == ["1", "3"]
        progress = query.lastProgress
        assert progress is not None
        latest = (
            json.loads(progress["sources"][0]["latestOffset"])
            if isinstance(progress["sources"][0]["latestOffset"], str)
            else progress["sources"][0]["latestOffset"]
        )
        assert set(latest["topics"]) == {topic.name}
    finally:
        query.stop()


def test_complete_mode_sends_the_whole_result_each_time(topic: Topic, other: Topic, tmp_path: Path) -> None:
    """As with Kafka's sink: a topic keeps what earlier batches said, once each, over a restart too."""
    for newest in ("a", "b"):
        topic.send(newest)
        counts = topic.stream("body binary", startingOffsets="earliest").groupBy("body").count()
        query = (
            counts.selectExpr("concat(cast(body as string), count) body")
            .writeStream.format("rmq")
            .option("namesrv", other.namesrv)
            .option("topic", other.name)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .outputMode("complete")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert other.bodies() == ["a1", "a1", "b1"]


def test_queues_added_later_are_read(topic: Topic, run: Run, admin: AdminClient) -> None:
    """A topic that grows is read in all its queues, from their first message."""
    topic.send("a")
    assert run(topic.stream(startingOffsets="earliest")).bodies == ["a"]
    admin.update_topic(topic.name, queues=5)
    rows = topic.spark.createDataFrame([("b", 3), ("c", 4)], "body string, queueId int")
    topic.write(rows, partitioner="column")
    assert run(topic.stream()).bodies == ["b", "c"]


def test_progress_is_reported_under_the_group(topic: Topic, run: Run, mq: Any) -> None:
    """The group's committed offsets follow the query."""
    from rmqspark.client.cluster.cluster_client import ClusterClient

    topic.send("a", "b", "c")
    run(topic.stream(startingOffsets="earliest", group="billing"))
    with ClusterClient(mq.namesrv) as client:
        committed = [client.broker("broker-a").query_offset("billing", topic.name, queue_id) for queue_id in range(3)]
    assert sum(offset or 0 for offset in committed) == 3


def test_a_topic_made_anew_is_a_loss(topic: Topic, run: Run, admin: AdminClient) -> None:
    """Messages that vanished end the query with the queue's name; with failOnDataLoss=false the new ones are read."""
    topic.send("a", "b", "c", "d", "e", "f")
    run(topic.stream(startingOffsets="earliest"))
    admin.delete_topic(topic.name)
    admin.create_topic(topic.name, queues=3)
    topic.send("new")
    with pytest.raises(StreamingQueryException, match=rf"Queue {topic.name}/broker-a/0 was read up to offset 2"):
        run(topic.stream(fetchOffset__retryIntervalMs=1))
    assert run(topic.stream(fetchOffset__retryIntervalMs=1, failOnDataLoss=False)).bodies == ["new"]


def test_a_topic_made_anew_and_grown_is_a_loss(topic: Topic, run: Run, admin: AdminClient) -> None:
    """Also when the new topic has more messages than were read of the old one: none of them is skipped in silence."""
    topic.send("old")
    run(topic.stream(startingOffsets="earliest"))
    admin.delete_topic(topic.name)
    admin.create_topic(topic.name, queues=3)
    new = [f"new {number}" for number in range(9)]
    topic.send(*new)
    with pytest.raises(
        StreamingQueryException, match="was read up to offset 1, but its topic was deleted or made anew"
    ):
        run(topic.stream())
    assert run(topic.stream(failOnDataLoss=False)).bodies == new
    assert run(topic.stream()).bodies == []


def test_a_batch_run_again_reads_nothing_else(topic: Topic, run: Run, admin: AdminClient, tmp_path: Path) -> None:
    """A batch failed, and its topic is another by the time that it is run again: no row is read under its numbers."""
    topic.send("old")
    run(topic.stream(startingOffsets="earliest"))
    topic.send(*["lost"] * 3)
    writer = topic.stream().writeStream.foreachBatch(lambda batch, _: 1 / (batch.count() - batch.count()))
    with pytest.raises(StreamingQueryException, match="division by zero"):
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(200)
    admin.delete_topic(topic.name)
    admin.create_topic(topic.name, queues=3)
    new = [f"new {number}" for number in range(9)]
    topic.send(*new)
    with pytest.raises(StreamingQueryException, match="its topic was deleted or made anew"):
        run(topic.stream())
    assert run(topic.stream(failOnDataLoss=False)).bodies == new


def test_two_topics_in_one_query(topic: Topic, other: Topic, run: Run) -> None:
    """subscribe takes a list."""
    topic.send("a")
    other.send("b")
    both = topic.spark.readStream.format("rmq").option("namesrv", topic.namesrv).option("startingOffsets", "earliest")
    batches = run(both.option("subscribe", f"{topic.name}, {other.name}").load())
    assert {(row.topic, bytes(row.body)) for rows in batches.rows for row in rows} == {
        (topic.name, b"a"),
        (other.name, b"b"),
    }

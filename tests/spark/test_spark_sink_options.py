"""What single options of the sink do to a stream, and to a batch where nothing else tries them, with a real Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.txn import transactions

from .checkpoints import forget_commit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Topic
    from pyspark.sql import SparkSession

    from rmqspark.client.admin import AdminClient

    WriteStream = Callable[..., str]

pytestmark = pytest.mark.spark


def placed(topic: Topic) -> list[tuple[int, bytes]]:
    """The queue and the body of every message."""
    return sorted((row.queueId, bytes(row.body)) for row in topic.read("queueId int, body binary").collect())


def test_a_stream_that_writes_at_least_once(
    topic: Topic, other: Topic, write_stream: WriteStream, tmp_path: Path
) -> None:
    """Its rows are there without a transaction; those of a batch that is run again are there once more."""
    topic.send("a", "b")
    frame = topic.stream("body binary", startingOffsets="earliest")
    query = write_stream(frame, other, deliveryGuarantee="at-least-once")
    assert other.bodies() == ["a", "b"]
    forget_commit(tmp_path / "checkpoint")
    assert write_stream(frame, other, deliveryGuarantee="at-least-once") == query
    assert other.bodies() == ["a", "a", "b", "b"]
    with ClusterClient(topic.namesrv) as client:
        assert query not in {state.queryId for state in transactions(client)}


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_stream_that_makes_its_topic(
    topic: Topic, write_stream: WriteStream, admin: AdminClient, rmq_spark: SparkSession, guarantee: str
) -> None:
    """With as many queues as are asked for, each row in the one that its column names, compressed, in small sends."""
    rows = rmq_spark.range(60).selectExpr("repeat(cast(id as string), 4096) body", "cast(id % 3 as int) queueId")
    topic.write(rows.coalesce(1), partitioner="column")
    target = replace(topic, name=f"{topic.name}-{guarantee}")
    write_stream(
        topic.stream("body binary, queueId int", startingOffsets="earliest"),
        target,
        deliveryGuarantee=guarantee,
        autoCreateTopic=True,
        queues=5,
        partitioner="column",
        compression="zstd",
        batchBytes="64k",
    )
    assert len(admin.queues(target.name)) == 5
    assert placed(target) == placed(topic)
    assert sum(target.stored_bytes().values()) < sum(topic.stored_bytes().values()) / 10


@pytest.mark.parametrize(("partitioner", "queues"), [("hash", 1), ("roundRobin", 2)])
def test_rows_of_one_key(
    topic: Topic, other: Topic, write_stream: WriteStream, rmq_spark: SparkSession, partitioner: str, queues: int
) -> None:
    """partitioner=hash keeps them together, in batches and streams; roundRobin has them take turns all the same."""
    rows = rmq_spark.range(300).selectExpr("cast(id as string) body", "'k' shardingKey")
    other.write(rows, partitioner=partitioner)
    assert len({queue for queue, _ in placed(other)}) == queues
    topic.write(rows)
    copied = topic.stream("body binary, properties map<string,string>", startingOffsets="earliest")
    target = replace(other, name=f"{other.name}-copied")
    write_stream(
        copied.selectExpr("body", "properties['__SHARDINGKEY'] shardingKey"),
        target,
        partitioner=partitioner,
        autoCreateTopic=True,
        queues=2,
    )
    assert len({queue for queue, _ in placed(target)}) == queues
    assert target.bodies() == other.bodies()


def test_a_stream_whose_rows_differ_when_they_come_again(
    topic: Topic, other: Topic, write_stream: WriteStream, tmp_path: Path
) -> None:
    """onReplayMismatch=fail ends the query with both figures, and by default it goes on; what was committed stays."""
    topic.send("a", "b")
    frame = topic.stream("body binary", startingOffsets="earliest")
    frame = frame.selectExpr("concat(cast(body as string), uuid()) body")
    write_stream(frame, other)
    committed = other.bodies()
    assert len(committed) == 2
    forget_commit(tmp_path / "checkpoint")
    story = r"committed with 2 rows \(checksum \d+\); run again, it has 2 rows"
    with pytest.raises(StreamingQueryException, match=story):
        write_stream(frame, other, onReplayMismatch="fail")
    write_stream(frame, other)
    assert other.bodies() == committed


def test_a_stream_that_passes_over_what_is_stale(
    topic: Topic, other: Topic, write_stream: WriteStream, tmp_path: Path
) -> None:
    """onStaleVersion=skip: under a new checkpoint nothing is written up to the last version that was committed, and
    what comes after that is."""
    options = {"transactionalId": f"skips-to-{other.name}", "onStaleVersion": "skip"}
    for letter in "ab":
        topic.send(letter)
        write_stream(topic.stream("body binary", startingOffsets="earliest"), other, **options)
    (tmp_path / "checkpoint").rename(tmp_path / "deleted")
    for letter in "cde":
        topic.send(letter)
        write_stream(topic.stream("body binary", startingOffsets="earliest"), other, **options)
    assert other.bodies() == ["a", "b", "e"]

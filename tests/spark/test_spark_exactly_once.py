"""Exactly-once as users have it: streams, foreachBatch and repeated batch jobs on a real Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.txn import audited_batches
from rmqspark.testing import assert_exactly_once, crash_at

from .checkpoints import forget, forget_commit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Topic
    from pyspark.sql import DataFrame, SparkSession

    from rmqspark.client.admin import AdminClient

    Copy = Callable[..., str]

pytestmark = pytest.mark.spark


@pytest.fixture
def copy(topic: Topic, other: Topic, write_stream: Copy) -> Copy:
    """Copies what is there from `topic` to `other` on one checkpoint; returns the query's id."""

    def copy_available(**options: object) -> str:
        return write_stream(topic.stream("body binary", startingOffsets="earliest"), other, **options)

    return copy_available


def numbers(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end).selectExpr("cast(id as string) body")


def test_a_stream_is_exactly_once_by_default(topic: Topic, other: Topic, copy: Copy) -> None:
    """Every row once, in as many batches as it takes; the audit of what was read and written adds up."""
    topic.send("a", "b", "c")
    query = copy()
    topic.send("d")
    assert copy() == query
    assert other.bodies() == ["a", "b", "c", "d"]
    assert_exactly_once(query, namesrv=topic.namesrv)
    with ClusterClient(topic.namesrv) as client:
        batches = audited_batches(client, query_id=query)
    assert {batch.transactionalId for batch in batches} == {f"spark-{query}"}
    assert sum(read.toOffset - read.fromOffset for batch in batches for read in batch.inputs) == 4


def test_the_hard_window(topic: Topic, other: Topic, copy: Copy, tmp_path: Path) -> None:
    """Committed here, not yet recorded by Spark: the batch comes again and adds nothing."""
    topic.send("a", "b", "c")
    query = copy()
    again = forget_commit(tmp_path / "checkpoint")
    assert copy() == query
    assert (tmp_path / "checkpoint" / "commits" / str(again)).exists()
    assert other.bodies() == ["a", "b", "c"]
    topic.send("d")
    copy()
    assert other.bodies() == ["a", "b", "c", "d"]
    assert_exactly_once(query, namesrv=topic.namesrv)


@pytest.mark.parametrize("point", ["after_vote", "after_decide", "after_complete"])
def test_an_answer_that_is_lost(topic: Topic, other: Topic, copy: Copy, point: str) -> None:
    """The coordinator fails at the worst moments; the driver finds out what became of the batch and goes on."""
    topic.send("a", "b", "c")
    with crash_at(point) as crash:
        query = copy()
    assert crash.met
    assert other.bodies() == ["a", "b", "c"]
    assert_exactly_once(query, namesrv=topic.namesrv)


def test_rows_are_readable_when_the_query_says_so(topic: Topic, other: Topic, tmp_path: Path) -> None:
    """After processAllAvailable the rows are there, and the group has moved on with them."""
    writer = topic.stream("body binary", startingOffsets="earliest", group="moved").writeStream.format("rmq")
    writer = writer.option("namesrv", other.namesrv).option("topic", other.name)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        topic.send("a", "b")
        query.processAllAvailable()
        assert other.bodies() == ["a", "b"]
        with ClusterClient(topic.namesrv) as client:
            broker = client.broker("broker-a")
            committed = [broker.query_offset("moved", topic.name, queue_id) for queue_id in range(3)]
        assert sum(offset or 0 for offset in committed) == 2
    finally:
        query.stop()


def test_a_batch_job_that_is_repeated(topic: Topic, rmq_spark: SparkSession) -> None:
    """The same id and version again, under either pair of names, add nothing; the next version adds its rows."""
    topic.write(numbers(rmq_spark, 0, 10), transactionalId="job", transactionVersion=1)
    topic.write(numbers(rmq_spark, 0, 10), transactionalId="job", transactionVersion=1)
    topic.write(numbers(rmq_spark, 0, 10).repartition(3), txnAppId="job", txnVersion=1)
    assert topic.bodies() == sorted(map(str, range(10)))
    topic.write(numbers(rmq_spark, 10, 12), txnAppId="job", txnVersion=2)
    assert topic.bodies() == sorted(map(str, range(12)))
    assert_exactly_once("job", namesrv=topic.namesrv)


def test_a_repeated_batch_with_other_rows(topic: Topic, rmq_spark: SparkSession) -> None:
    """What was committed stays; the difference is a warning, or if asked for an error, with both figures."""
    job = {"transactionalId": "differs", "transactionVersion": 1}
    topic.write(numbers(rmq_spark, 0, 10), **job)
    topic.write(numbers(rmq_spark, 0, 9), **job)
    with pytest.raises(Exception, match=r"committed with 10 rows \(checksum \d+\); run again, it has 9 rows"):
        topic.write(numbers(rmq_spark, 0, 9), **job, onReplayMismatch="fail")
    assert topic.bodies() == sorted(map(str, range(10)))


def test_a_version_below_the_last_one(topic: Topic, rmq_spark: SparkSession) -> None:
    """It says what that means for the data and the two ways on; skip passes over what is stale and nothing else."""
    topic.write(numbers(rmq_spark, 0, 10), transactionalId="stale", transactionVersion=5)
    story = "Version 4 of transactional id 'stale' is below the last one that was committed, 5.*onStaleVersion=skip"
    with pytest.raises(Exception, match=re.compile(story, re.DOTALL)):
        topic.write(numbers(rmq_spark, 10, 20), transactionalId="stale", transactionVersion=4)
    for version in (4, 6):
        rows = numbers(rmq_spark, 10 * version, 10 * version + 1)
        topic.write(rows, transactionalId="stale", transactionVersion=version, onStaleVersion="skip")
    assert topic.bodies() == sorted([*map(str, range(10)), "60"])


def test_foreach_batch_under_an_id_of_its_own(topic: Topic, other: Topic, tmp_path: Path) -> None:
    """A batch that is run again in foreachBatch, as after a crash between its two sinks, adds nothing. Its jobs may be
    in a group that the user names, in any words."""
    topic.send("a", "b")
    failing = {"times": 1}

    def write(batch: DataFrame, number: int) -> None:
        batch.sparkSession.sparkContext.setJobGroup("invoices, für alle", "both sinks of a batch")
        other.write(batch.select("body"), transactionalId="each", transactionVersion=number)
        if failing["times"]:
            failing["times"] = 0
            raise RuntimeError("the second sink fails")

    def run() -> None:
        writer = topic.stream("body binary", startingOffsets="earliest").writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(200)

    with pytest.raises(StreamingQueryException, match="the second sink fails"):
        run()
    assert other.bodies() == ["a", "b"]
    run()
    assert other.bodies() == ["a", "b"]
    assert_exactly_once("each", namesrv=topic.namesrv)


def test_foreach_batch_over_a_deleted_checkpoint(topic: Topic, other: Topic, tmp_path: Path) -> None:
    """Its batch 0 comes again, with more messages: the query ends, and says so. Nothing is passed over in silence."""

    def write(batch: DataFrame, number: int) -> None:
        other.write(batch.select("body"), transactionalId="anew", transactionVersion=number)

    def run(checkpoint: str) -> None:
        writer = topic.stream("body binary", startingOffsets="earliest").writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(200)

    topic.send("a", "b")
    run("first")
    topic.send("c")
    with pytest.raises(StreamingQueryException, match="'anew' was committed by another query"):
        run("second")
    assert other.bodies() == ["a", "b"]
    run("first")
    assert other.bodies() == ["a", "b", "c"]


def test_two_writes_under_one_id_in_foreach_batch(topic: Topic, other: Topic, tmp_path: Path) -> None:
    """The second is not passed over in silence: the query ends, and says what to change. Then both are written, and
    nothing is there twice. Where the rows are the same, the write was only made once more."""
    topic.send("a", "b", "c")
    second = {"transactionalId": "both"}

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.select("body")
        for _ in range(2):
            other.write(rows, transactionalId="both", transactionVersion=number)
        other.write(rows.filter("body > cast('a' as binary)"), **second, transactionVersion=number)

    def run() -> None:
        writer = topic.stream("body binary", startingOffsets="earliest").writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(200)

    with pytest.raises(StreamingQueryException, match="give each other write one of its own"):
        run()
    second["transactionalId"] = "both-late"
    run()
    assert other.bodies() == ["a", "b", "b", "c", "c"]


def test_a_batch_that_fails_leaves_nothing(topic: Topic, rmq_spark: SparkSession) -> None:
    """A task that ends after others have sent theirs: no row is readable, and the job can be repeated as it was."""
    rows = numbers(rmq_spark, 0, 1_000).repartition(4)
    bad = rows.selectExpr("if(body = '999', raise_error('row 999'), body) body")
    with pytest.raises(Exception, match="row 999"):
        topic.write(bad, transactionalId="half", transactionVersion=1)
    assert topic.bodies() == []
    topic.write(rows, transactionalId="half", transactionVersion=1)
    assert topic.bodies() == sorted(map(str, range(1_000)))
    assert_exactly_once("half", namesrv=topic.namesrv)


def test_a_new_checkpoint_under_an_old_id(topic: Topic, other: Topic, copy: Copy, tmp_path: Path) -> None:
    """A deleted checkpoint is noticed where the id is the user's: the query ends instead of doubling its rows."""
    for letter in "abc":
        topic.send(letter)
        copy(transactionalId="mine")
    (tmp_path / "checkpoint").rename(tmp_path / "deleted")
    with pytest.raises(StreamingQueryException, match="the checkpoint was deleted or restored"):
        copy(transactionalId="mine")
    assert other.bodies() == ["a", "b", "c"]


def test_a_checkpoint_that_lost_its_end(topic: Topic, other: Topic, copy: Copy, tmp_path: Path) -> None:
    """Spark syncs no file of it: after a power loss it may give the number of a batch that was committed to what has
    come since. That is noticed; what was not written is not passed over."""
    topic.send("a", "b")
    copy()
    forget(tmp_path / "checkpoint", "offsets", forget_commit(tmp_path / "checkpoint"))
    topic.send("c")
    with pytest.raises(StreamingQueryException, match=r"another batch of this number(?s:.)*lost its end"):
        copy()
    assert other.bodies() == ["a", "b"]
    copy(transactionalId=f"anew-{other.name}")  # the first of the two ways on that it names
    assert other.bodies() == ["a", "a", "b", "b", "c"]


def test_rows_keep_their_ids(topic: Topic, other: Topic, copy: Copy, admin: AdminClient) -> None:
    """A row's UNIQ_KEY follows from transaction, partition and row: no two are the same, and it can be looked up."""
    topic.send(*map(str, range(50)))
    copy()
    rows: list[Any] = other.read("msgId string, body binary").collect()
    assert len({row.msgId for row in rows}) == 50
    assert admin.message(rows[0].msgId, other.name).body == bytes(rows[0].body)

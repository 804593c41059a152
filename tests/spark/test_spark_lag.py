"""What operators see of a query that a real Spark runs, with a listener and without."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from typer.testing import CliRunner

from rmqspark.cli.verbs import app
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.queries import seen_queries
from rmqspark.source.lag import LagListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Topic
    from pyspark.sql import DataFrame, SparkSession

    from rmqspark.protocol.bodies.queries import KnownQuery
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.spark


def rmq(*words: str) -> Any:
    """What `rmq … --json` prints."""
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def known(mq: LocalCluster) -> Callable[[str], KnownQuery]:
    """What the brokers know of the query with this id."""

    def ask(query_id: str) -> KnownQuery:
        with ClusterClient(mq.namesrv) as client:
            return next(seen.known for seen in seen_queries(client) if seen.known.queryId == query_id)

    return ask


@pytest.fixture
def listener(rmq_spark: SparkSession, mq: LocalCluster, tmp_path: Path) -> Iterator[ToldListener]:
    told = ToldListener(mq.namesrv, tmp_path / "rmq.prom")
    rmq_spark.streams.addListener(told)
    yield told
    rmq_spark.streams.removeListener(told)


class ToldListener(LagListener):
    """Says when it has told of a batch, and of the end."""

    def __init__(self, namesrv: str, metrics_file: Path) -> None:
        super().__init__(namesrv, every_ms=0, metrics_file=metrics_file)
        self.of_a_batch, self.of_the_end = threading.Event(), threading.Event()

    def onQueryProgress(self, event: Any) -> None:
        super().onQueryProgress(event)
        if event.progress.numInputRows:
            self.of_a_batch.set()

    def onQueryTerminated(self, event: Any) -> None:
        super().onQueryTerminated(event)
        self.of_the_end.set()


def test_a_query_is_seen_with_its_listener(
    topic: Topic, listener: ToldListener, known: Callable[[str], KnownQuery], tmp_path: Path
) -> None:
    """Name, batch, lag and state reach broker, command line and Prometheus; progress events have the latest offset."""
    topic.send("a", "b", "c", "d", "e")
    rows = topic.stream("body binary", startingOffsets="earliest", group="lagging", maxOffsetsPerTrigger=3)
    writer = rows.writeStream.format("noop").queryName("slow one").trigger(processingTime="1 hour")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert listener.of_a_batch.wait(200)
    report = known(query.id).report
    assert report is not None
    assert (report.name, report.state, report.inputRows, report.batchId) == ("slow one", "running", 3, 0)
    assert sum(queue.latestOffset - queue.toOffset for queue in report.queues) == 2
    assert (report.lag.minOffsetsBehindLatest, report.lag.maxOffsetsBehindLatest) == (0, 1)
    assert report.lag.estimatedTotalBytesBehindLatest is not None
    assert report.durationMs["triggerExecution"] > 0
    progress = query.lastProgress
    assert progress is not None
    assert all(topic.name in source["latestOffset"] for source in progress["sources"])

    (listed,) = [each for each in rmq("spark", "list", "--namesrv", topic.namesrv) if each["queryId"] == query.id]
    assert (listed["name"], listed["lag"], listed["queues"], listed["groups"]) == ("slow one", 2, 3, ["lagging"])
    described = rmq("spark", "describe", "slow one", "--namesrv", topic.namesrv)
    assert sum(queue["lag"] for queue in described["queues"]) == 2
    findings = rmq("spark", "diagnose", query.id, "--namesrv", topic.namesrv)["findings"]
    slow = {"slow-checkpoint", "slow-offsets"}  # which a disk, or a machine that does other things besides, may be
    assert {finding["kind"] for finding in findings} <= slow
    assert "rmqspark_query_max_offsets_behind_latest{" in (tmp_path / "rmq.prom").read_text(encoding="utf-8")
    query.stop()
    assert listener.of_the_end.wait(200)
    ended = known(query.id).report
    assert ended is not None
    assert ended.state == "stopped"


def test_a_query_is_told_why_it_is_slow(
    topic: Topic, listener: ToldListener, rmq_spark: SparkSession, tmp_path: Path
) -> None:
    """Where one of a topic's three queues has all the rows, that is seen, with the options that would split it."""
    rows = rmq_spark.range(4_000).selectExpr("cast(id as string) body", "0 queueId")
    topic.write(rows, partitioner="column")
    frame = topic.stream("body binary", startingOffsets="earliest", maxOffsetsPerTrigger=2_000)
    writer = frame.writeStream.format("noop").queryName("lopsided")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    assert writer.start().awaitTermination(200)
    assert listener.of_the_end.wait(200)
    told = {each["kind"]: each for each in rmq("spark", "diagnose", "lopsided", "--namesrv", topic.namesrv)["findings"]}
    assert f"{topic.name}/broker-a/0 had 2,000 of 2,000 rows" in told["skewed-queues"]["story"]
    assert "maxRecordsPerPartition" in told["skewed-queues"]["advice"]


def test_a_query_that_fails_before_its_first_batch_is_done(
    topic: Topic, listener: ToldListener, tmp_path: Path
) -> None:
    """It is listed by its name as failed, and what went wrong is the first thing that is said of it: where the topic is
    not there, and where the batch was being read."""
    topic.send("a")

    def on_batch(batch: DataFrame, number: int) -> None:
        batch.collect()
        raise ValueError("the price is missing")

    def failed(frame: DataFrame, name: str) -> Any:
        writer = frame.writeStream.foreachBatch(on_batch).queryName(name)
        query = writer.option("checkpointLocation", str(tmp_path / name)).start()
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(200)
        assert listener.of_the_end.wait(200)
        listener.of_the_end.clear()
        return query

    def diagnosed(query: str) -> str:
        (finding,) = rmq("spark", "diagnose", query, "--namesrv", topic.namesrv)["findings"]
        return finding["kind"] + ", " + finding["story"]

    failed(replace(topic, name="nowhere").stream("body binary"), "early")
    assert diagnosed("early").startswith(
        "failed, The query failed: TopicNotFound: Topic 'nowhere' does not exist. Create"
    )
    reading = failed(topic.stream("body binary", startingOffsets="earliest", group="dawn"), "reading")
    assert diagnosed("reading") == "failed, The query failed: ValueError: the price is missing"
    described = rmq("spark", "describe", reading.id, "--namesrv", topic.namesrv)
    assert (described["state"], described["batchId"], described["lag"], described["groups"]) == (
        "failed", None, 1, ["dawn"]
    )  # fmt: skip


def test_a_query_is_seen_without_a_listener(
    topic: Topic, run: Any, known: Callable[[str], KnownQuery], tmp_path: Path
) -> None:
    """Its queues, offsets and lag are there all the same; name and batch time are unknown."""
    topic.send("a", "b", "c")
    run(topic.stream("body binary", startingOffsets="earliest", group="unheard"))
    query_id = json.loads((tmp_path / "checkpoint" / "metadata").read_text(encoding="utf-8"))["id"]
    assert known(query_id).report is None
    topic.send("d")
    described = rmq("spark", "describe", query_id[:8], "--namesrv", topic.namesrv)
    assert (described["state"], described["name"], described["batchMs"]) == ("unknown", None, None)
    assert (described["groups"], described["lag"]) == (["unheard"], 1)
    assert sum(queue["position"] for queue in described["queues"]) == 3
    findings = rmq("spark", "diagnose", query_id, "--namesrv", topic.namesrv)["findings"]
    assert [finding["kind"] for finding in findings] == ["no-listener"]

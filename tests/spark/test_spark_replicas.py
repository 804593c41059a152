"""Queries of a real Spark while the master of a broker name is away, and its slave is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message, Producer
from rmqspark.broker.config import BrokerConfig
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Batches, Topic
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rmqspark.testing import LocalCluster

    Run = Callable[[Any], Batches]

pytestmark = pytest.mark.spark
REPLICATED = BrokerConfig(
    broker_role="SYNC_MASTER", ha_send_heartbeat_interval=200, slave_sync_interval=100, ha_send_whole_log=True
)


@pytest.fixture
def mq() -> Iterator[LocalCluster]:
    """A master and its slave."""
    with cluster(broker_config=REPLICATED) as replicated:
        replicated.start_slave()
        yield replicated


def send_once(topic: Topic, body: str) -> None:
    """Stored once, whether the slave is connected again or not: a batch write would send again until it is."""
    with Producer(topic.namesrv) as producer:
        producer.send(Message(topic.name, body.encode()))


def wait_until(condition: Callable[[], bool], query: StreamingQuery) -> None:
    """The slave may be read from for a moment after its master is back, and get its messages a moment later."""
    for _ in range(600):
        if condition():
            return
        assert not query.awaitTermination(0.1)  # type: ignore[arg-type]
    raise AssertionError("It did not come to that.")


def test_a_query_reads_on_from_the_slave_and_again_from_the_master(mq: LocalCluster, topic: Topic, run: Run) -> None:
    """One checkpoint over master, slave and master: each message once, none taken for lost."""
    topic.send("a", "b")
    assert run(topic.stream(startingOffsets="earliest", maxOffsetsPerTrigger=1)).bodies == ["a", "b"]
    topic.send("c", "d")
    mq.stop_broker("broker-a")
    assert topic.bodies() == ["a", "b", "c", "d"]
    assert run(topic.stream(startingOffsets="earliest")).bodies == ["c", "d"]
    mq.start_broker("broker-a")
    send_once(topic, "e")
    assert run(topic.stream(startingOffsets="earliest")).bodies == ["e"]


def test_a_query_that_stays_up_does_not_end_when_the_master_does(
    mq: LocalCluster, topic: Topic, rmq_spark: SparkSession, tmp_path: Path
) -> None:
    read: list[str] = []
    query = (
        topic.stream("body binary", startingOffsets="earliest")
        .writeStream.foreachBatch(lambda batch, _: read.extend(bytes(row.body).decode() for row in batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        topic.send("a", "b")
        query.processAllAvailable()
        mq.stop_broker("broker-a")
        query.processAllAvailable()
        mq.start_broker("broker-a")
        send_once(topic, "c")
        wait_until(lambda: "c" in read, query)
    finally:
        query.stop()
    assert sorted(read) == ["a", "b", "c"]

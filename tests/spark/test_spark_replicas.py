"""Queries of a real Spark while the master of a broker name is away, and its slave is not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message, Producer
from rmqspark.broker.config import BrokerConfig
from rmqspark.model import SendStatus
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Batches, Topic
    from pyspark.sql import SparkSession

    from rmqspark.testing import LocalCluster

    Run = Callable[[Any], Batches]

pytestmark = pytest.mark.spark
PATIENCE_S = 60
REPLICATED = BrokerConfig(
    broker_role="SYNC_MASTER", ha_send_heartbeat_interval=200, slave_sync_interval=100, ha_send_whole_log=True
)


@pytest.fixture
def mq() -> Iterator[LocalCluster]:
    """A master, and its slave that has begun to follow: without one a batch write sends again until there is one."""
    with cluster(broker_config=REPLICATED) as replicated:
        replicated.start_slave()
        wait_until(lambda: send_once(replicated.namesrv, "probes", "?") is SendStatus.OK)
        yield replicated


def send_once(namesrv: str, topic: str, body: str) -> SendStatus:
    """Stored once, whether the slave follows or not."""
    with Producer(namesrv) as producer:
        return producer.send(Message(topic, body.encode())).status


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to this"
        time.sleep(0.05)


def test_a_query_reads_on_from_the_slave_and_again_from_the_master(mq: LocalCluster, topic: Topic, run: Run) -> None:
    """One checkpoint over master, slave and master: each message once, none taken for lost."""
    topic.send("a", "b")
    assert run(topic.stream(startingOffsets="earliest", maxOffsetsPerTrigger=1)).bodies == ["a", "b"]
    topic.send("c", "d")
    mq.stop_broker("broker-a")
    assert sorted(bytes(row.body) for row in topic.read().collect()) == [b"a", b"b", b"c", b"d"]
    assert run(topic.stream(startingOffsets="earliest")).bodies == ["c", "d"]
    mq.start_broker("broker-a")
    send_once(topic.namesrv, topic.name, "e")
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
        send_once(topic.namesrv, topic.name, "c")
        wait_until(lambda: "c" in read)
    finally:
        query.stop()
    assert sorted(read) == ["a", "b", "c"]

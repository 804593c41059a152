"""Queries over several brokers, and over brokers that go away and come back."""

from __future__ import annotations

import shutil
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from rmqspark.client.admin import AdminClient
from rmqspark.client.administration.admin_topics import topic_config
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message, MessageQueue
from rmqspark.testing import cluster

from .kills.victims import Brokers, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Batches
    from pyspark.sql import SparkSession

    from rmqspark.testing import LocalCluster

    from .kills.victims import Process

    Run = Callable[[Any], Batches]

pytestmark = [pytest.mark.spark, pytest.mark.faults]


@pytest.fixture
def pair() -> Iterator[LocalCluster]:
    """Two brokers with the topic "orders", two queues on each."""
    with cluster(brokers=2) as running, AdminClient(running.namesrv) as admin:
        admin.create_topic("orders", queues=2)
        yield running


def write(spark: SparkSession, mq: LocalCluster, first: int, count: int) -> None:
    rows = spark.range(first, first + count).selectExpr("cast(id as string) body")
    rows.write.format("rmq").option("namesrv", mq.namesrv).option("topic", "orders").mode("append").save()


def stream(spark: SparkSession, mq: LocalCluster, **options: object) -> Any:
    reader = spark.readStream.format("rmq").option("namesrv", mq.namesrv).option("startingOffsets", "earliest")
    return reader.options(**options).load("orders")  # type: ignore[arg-type]


def test_rows_are_spread_over_all_brokers(pair: LocalCluster, rmq_spark: SparkSession) -> None:
    """A topic on two brokers is written and read as one."""
    write(rmq_spark, pair, 0, 1_000)
    found = rmq_spark.read.format("rmq").option("namesrv", pair.namesrv).load("orders")
    counts = {
        (row.brokerName, row.queueId): row["count"] for row in found.groupBy("brokerName", "queueId").count().collect()
    }
    assert set(counts) == {(broker, queue) for broker in ("broker-a", "broker-b") for queue in (0, 1)}
    assert found.select("body").distinct().count() == 1_000


def test_a_broker_that_restarts_is_waited_for(pair: LocalCluster, rmq_spark: SparkSession, run: Run) -> None:
    """Writing and reading go on after a broker was away for a moment; nothing is missing, nothing is read twice."""
    write(rmq_spark, pair, 0, 100)
    patient = {"fetchOffset.numRetries": 100, "fetchOffset.retryIntervalMs": 50}
    assert len(run(stream(rmq_spark, pair, **patient)).bodies) == 100
    pair.stop_broker("broker-b")
    coming_back = threading.Timer(1.0, pair.start_broker, ["broker-b"])
    coming_back.start()
    write(rmq_spark, pair, 100, 100)
    assert set(map(int, run(stream(rmq_spark, pair, **patient)).bodies)) == set(range(100, 200))
    coming_back.join()


def test_a_broker_with_another_store_is_noticed(pair: LocalCluster, rmq_spark: SparkSession, run: Run) -> None:
    """A broker that comes back empty under its old name is a loss, not a queue that was read before."""
    write(rmq_spark, pair, 0, 40)
    run(stream(rmq_spark, pair))
    pair.stop_broker("broker-b")
    shutil.rmtree(pair.store_dir("broker-b"))
    pair.start_broker("broker-b")
    with ClusterClient(pair.namesrv) as client:
        config = topic_config("orders", read_queues=2, write_queues=2, perm="rw", message_type="normal")
        BrokerAdmin(client.broker("broker-b")).put_topic(config)
    with pytest.raises(StreamingQueryException, match="orders/broker-b/. was read up to offset .* another store"):
        run(stream(rmq_spark, pair))


def test_a_broker_that_hangs_is_left_out_until_it_answers(tmp_path: Path, rmq_spark: SparkSession) -> None:
    """Name servers go on naming it, so only its silence tells: a stream reads the other on meanwhile."""
    read: list[str] = []
    with Brokers(tmp_path) as brokers, Producer(brokers.namesrv) as producer:
        for name in ("broker-a", "broker-b"):
            brokers.start(name)
        with AdminClient(brokers.namesrv) as admin:
            admin.create_topic("orders", queues=1)

        def send(broker: str, body: str) -> None:
            producer.send(Message("orders", body.encode()), queue=MessageQueue("orders", broker, 0))

        def comes(body: str) -> None:
            wait_for(lambda: body in read or not query.isActive, f"{body} is read")
            assert body in read, query.exception()

        reader = rmq_spark.readStream.format("rmq").option("namesrv", brokers.namesrv)
        frame = reader.options(startingOffsets="earliest", **{"fetchOffset.numRetries": "0"}).load("orders")
        writer = frame.selectExpr("cast(body as string) body").writeStream
        writer = writer.foreachBatch(lambda batch, _: read.extend(row.body for row in batch.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            send("broker-a", "a1")
            send("broker-b", "b1")
            comes("a1")
            comes("b1")
            with suspended(brokers.running["broker-b"]):
                send("broker-a", "a2")
                comes("a2")
                send("broker-a", "a3")
                comes("a3")
            send("broker-b", "b2")
            comes("b2")
        finally:
            query.stop()
    assert sorted(read) == ["a1", "a2", "a3", "b1", "b2"]


@contextmanager
def suspended(process: Process) -> Iterator[None]:
    """It keeps its connections, and answers nothing."""
    process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.signal(signal.SIGCONT)

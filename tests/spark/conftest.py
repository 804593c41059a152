"""One Spark session and one cluster for all tests with Spark; every test has topics of its own."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.model import Message, SendStatus
from rmqspark.testing import cluster
from rmqspark.testing.spark import local_session

from .kills.traffic import everything

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame

    from rmqspark.testing import LocalCluster

AS_IT_IS = SendConfig(compress_msg_body_over_howmuch=0)
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def mq() -> Iterator[LocalCluster]:
    with cluster() as running:
        yield running


@pytest.fixture(scope="session")
def rmq_spark() -> Iterator[SparkSession]:
    """The one of the package, whose queries share their Python processes. By default each streaming query has a session
    of its own with its own files, and so its own processes for each kind of work: to start them is most of a test."""
    session = local_session(builder=SparkSession.builder.config("spark.sql.artifact.isolation.enabled", "false"))
    yield session
    session.stop()


@pytest.fixture
def admin(mq: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(mq.namesrv) as client:
        yield client


@dataclass
class Topic:
    """A topic of the test's own, and short words for what tests do with it."""

    name: str
    spark: SparkSession
    namesrv: str

    def read(self, schema: str | None = None, **options: object) -> DataFrame:
        reader = self.spark.read.format("rmq").option("namesrv", self.namesrv).options(**_spelled(options))
        return (reader.schema(schema) if schema else reader).load(self.name)

    def stream(self, schema: str | None = None, **options: object) -> DataFrame:
        reader = self.spark.readStream.format("rmq").option("namesrv", self.namesrv).options(**_spelled(options))
        return (reader.schema(schema) if schema else reader).load(self.name)

    def write(self, frame: DataFrame, **options: object) -> None:
        writer = frame.write.format("rmq").option("namesrv", self.namesrv).option("topic", self.name)
        writer.options(**_spelled(options)).mode("append").save()

    def send(self, *bodies: str, queue: int | None = None, **fields: Any) -> None:
        """One message per body, to the topic's queues in turn from the first on, or to one of them; `fields` are the
        same for all, as `tags="paid"`. From a plain client: Spark takes a second, and other tests try its sink."""
        with AdminClient(self.namesrv) as admin, Producer(self.namesrv, config=AS_IT_IS) as producer:
            queues = admin.queues(self.name)
            for number, body in enumerate(bodies):
                place = queues[number % len(queues) if queue is None else queue]
                receipt = producer.send(Message(self.name, body.encode(), **fields), queue=place)
                assert receipt.status is SendStatus.OK

    def bodies(self) -> list[str]:
        """Of all messages, as a plain client reads them."""
        with AdminClient(self.namesrv) as admin, PullConsumer(self.namesrv) as consumer:
            queues = admin.topic(self.name).queues
            messages = [each for queue in queues for each in everything(consumer, queue.queue, queue.max_offset)]
        return sorted(message.body.decode() for message in messages)

    def stored_bytes(self) -> dict[tuple[int, int], int]:
        """What each message takes in the broker's log, by queue and offset."""
        found: dict[tuple[int, int], int] = {}
        with ClusterClient(self.namesrv) as client:
            broker = client.broker("broker-a")
            for queue in client.subscribe_queues(self.name):
                at, end = 0, broker.max_offset(self.name, queue.queue_id)
                while at < end:
                    asked = broker.bulk_read(self.name, queue.queue_id, at, end, max_count=1_000, max_bytes=1 << 20)
                    chunk = asked.result()
                    found |= {(queue.queue_id, at + number): int(size) for number, size in enumerate(chunk.sizes)}
                    at = chunk.next_offset
        return found


@pytest.fixture
def topic(admin: AdminClient, rmq_spark: SparkSession, mq: LocalCluster) -> Topic:
    """A fresh topic with three queues."""
    name = f"topic-{next(_numbers)}"
    admin.create_topic(name, queues=3)
    return Topic(name, rmq_spark, mq.namesrv)


@pytest.fixture
def other(admin: AdminClient, rmq_spark: SparkSession, mq: LocalCluster) -> Topic:
    """A second one."""
    name = f"topic-{next(_numbers)}"
    admin.create_topic(name, queues=2)
    return Topic(name, rmq_spark, mq.namesrv)


@dataclass
class Batches:
    """What a query gave, micro-batch by micro-batch; those without a row are left out."""

    rows: list[list[Any]]

    @property
    def sizes(self) -> list[int]:
        return [len(rows) for rows in self.rows]

    @property
    def bodies(self) -> list[str]:
        return sorted(bytes(row.body).decode() for rows in self.rows for row in rows)


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Runs a streaming frame until it has read what is there (Trigger.AvailableNow), on one checkpoint per test."""

    def run_available(frame: DataFrame) -> Batches:
        batches: list[list[Any]] = []
        writer = frame.writeStream.foreachBatch(lambda batch, number: batches.append(batch.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(200)
        return Batches([rows for rows in batches if rows])

    return run_available


@pytest.fixture
def write_stream(tmp_path: Path) -> Any:
    """Writes a streaming frame to a topic until it has read what is there, on one checkpoint per test; returns the
    query's id."""

    def write_available(frame: DataFrame, to: Topic, **options: object) -> str:
        writer = frame.writeStream.format("rmq").option("namesrv", to.namesrv).option("topic", to.name)
        writer = writer.options(**_spelled(options)).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(200)
        return str(query.id)

    return write_available


def _spelled(options: Mapping[str, object]) -> dict[str, Any]:
    return {name.replace("__", "."): value for name, value in options.items()}

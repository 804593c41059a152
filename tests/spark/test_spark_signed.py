"""Queries whose cluster wants every request signed: whatever driver and tasks ask, they say who they are."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import rmqspark.spark
from rmqspark import Access, AdminClient, Credentials, Message, Producer, PushConsumer, peek
from rmqspark.broker.config import BrokerConfig
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.queries import seen_queries
from rmqspark.errors import NoPermission
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.access import OPEN
from rmqspark.source.lag import LagListener
from rmqspark.testing import cluster
from rmqspark.testing.exactly_once import assert_exactly_once

from .guard import PASSWORD, USER, Guard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ACCESS = Access(Credentials(USER, PASSWORD))
KEYS = {"accessKey": USER, "secretKey": PASSWORD}
GUARDED, OWN = "127.0.0.2", "127.0.0.1"
PATIENCE_S = 200


class Guarded(NamedTuple):
    """A cluster whose servers are reached past a guard each."""

    namesrv: str
    guards: tuple[Guard, ...]

    @property
    def let_in(self) -> set[int]:
        return set().union(*(guard.let_in for guard in self.guards))

    @property
    def refused(self) -> set[int]:
        return set().union(*(guard.refused for guard in self.guards))


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    """Its broker is registered under the guard's address; the ports are the same."""
    with cluster(broker_config=BrokerConfig(broker_ip1=GUARDED)) as mq, ExitStack() as stack:
        ports = [int(address.rsplit(":", 1)[1]) for address in (mq.namesrv, *mq.brokers.values())]
        guards = tuple(stack.enter_context(Guard((GUARDED, port), (OWN, port))) for port in ports)
        yield Guarded(f"{GUARDED}:{ports[0]}", guards)


def stream(spark: SparkSession, namesrv: str, topic: str, schema: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("rmq").schema(schema).options(namesrv=namesrv, startingOffsets="earliest", **KEYS)
    return reader.options(**options).load(topic)


def run(frame: DataFrame, namesrv: str, topic: str, checkpoint: Path) -> Any:
    writer = frame.writeStream.format("rmq").options(namesrv=namesrv, topic=topic, **KEYS)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    return query


def test_all_that_a_session_asks(guarded: Guarded, rmq_spark: SparkSession, tmp_path: Path) -> None:
    """Batch and stream, exactly once, in a shared group, from the files, with bad records, a listener and a view."""
    namesrv = guarded.namesrv
    with AdminClient(namesrv, access=ACCESS) as admin:
        for topic in ("orders", "copies", "more", "bad"):
            admin.create_topic(topic, queues=2)
    rows = rmq_spark.range(100).selectExpr("""concat('{"id":', id, '}') body""")
    rows.write.format("rmq").options(namesrv=namesrv, topic="orders", **KEYS).mode("append").save()
    with Producer(namesrv, access=ACCESS) as producer:
        producer.send(Message("orders", b"oops"))

    listener = LagListener(namesrv, every_ms=0, access=ACCESS)
    rmq_spark.streams.addListener(listener)
    bad = {"valueFormat": "json", "mode": "DROPMALFORMED", "badRecordsTopic": "bad"}
    parsed = stream(rmq_spark, namesrv, "orders", "id bigint", **bad).selectExpr("CAST(id AS STRING) body")
    copied = run(parsed, namesrv, "copies", tmp_path / "copied")
    shared = {"group": "sharers", "groupMode": "shared", "groupOffsetReset": "earliest"}
    reader = rmq_spark.readStream.format("rmq").schema("body binary").options(namesrv=namesrv, **KEYS, **shared)
    run(reader.load("copies"), namesrv, "more", tmp_path / "shared")
    rmq_spark.streams.removeListener(listener)

    assert_exactly_once(copied, namesrv=namesrv, access=ACCESS)
    rmqspark.spark.register(rmq_spark, "direct", "more", namesrv=namesrv, readMode="direct", **KEYS)
    assert rmq_spark.sql("SELECT count(*) FROM direct").collect()[0][0] == 100
    assert list(peek("bad", namesrv=namesrv, access=ACCESS)["body"]) == ["oops"]
    with ClusterClient(namesrv, access=ACCESS) as client:
        assert str(copied.id) in {seen.known.queryId for seen in seen_queries(client)}
    assert guarded.refused == set()
    asked = {RequestCode.RMQ_BULK_READ, RequestCode.RMQ_CAPABILITIES, RequestCode.UPDATE_CONSUMER_OFFSET}
    assert asked <= guarded.let_in


def test_members_of_a_group(guarded: Guarded) -> None:
    """A consumer in a group signs its heartbeats, locks and oneway requests, too."""
    namesrv, received = guarded.namesrv, list[bytes]()
    with AdminClient(namesrv, access=ACCESS) as admin, Producer(namesrv, access=ACCESS) as producer:
        admin.create_topic("orders", queues=2)
        producer.send(Message("orders", b"one"))
    consumer = PushConsumer(
        namesrv, "readers", listener=lambda message: received.append(message.body), consume_from="earliest",
        ordered=True, access=ACCESS,
    )  # fmt: skip
    with consumer, ClusterClient(namesrv, access=ACCESS) as client:
        consumer.subscribe("orders")
        while not received:
            client.clock.sleep_ms(10)
    assert guarded.refused == set()
    assert {RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ, RequestCode.UNREGISTER_CLIENT} <= guarded.let_in


def test_without_keys(guarded: Guarded, rmq_spark: SparkSession) -> None:
    """The error of a read, a write and a client says what to set: variables, options, and Python's."""
    story = "username cannot be null.*RMQ_ACCESS_KEY and RMQ_SECRET_KEY.*options accessKey and secretKey of Spark"
    with pytest.raises(Exception, match=story):
        rmq_spark.read.format("rmq").options(namesrv=guarded.namesrv).load("orders").count()
    rows = rmq_spark.range(1).selectExpr("'a' body").write.format("rmq").mode("append")
    with pytest.raises(Exception, match=story):
        rows.options(namesrv=guarded.namesrv, topic="orders").save()
    with AdminClient(guarded.namesrv, access=OPEN) as admin, pytest.raises(NoPermission, match=story):
        admin.topics()

"""Spark on brokers that ask who asks: a user with the rights that the docs name reads and writes, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message
from rmqspark.remoting.access import Access, Credentials
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from rmqspark.testing import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.integration]

ROOT, ANN = Credentials("root", "root-secret"), Credentials("ann", "ann-secret")
KEYS = {"accessKey": ANN.access_key, "secretKey": ANN.secret_key}
GUARDED = BrokerConfig(
    authentication_enabled=True,
    authorization_enabled=True,
    init_authentication_user='{"username":"root","password":"root-secret"}',
    inner_client_authentication_credentials='{"accessKey":"inner","secretKey":"inner-secret"}',
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCluster]:
    with cluster(brokers=2, broker_config=GUARDED) as running:
        yield running


@pytest.fixture
def admin(guarded: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(guarded.namesrv, access=Access(ROOT)) as client:
        yield client


def copied(spark: SparkSession, namesrv: str, checkpoint: Path) -> None:
    """All that is in `read-by-ann` by now, into `written-by-ann`, exactly once."""
    read = spark.readStream.format("rmq").option("namesrv", namesrv).option("startingOffsets", "earliest")
    written = read.options(**KEYS).load("read-by-ann").select("body").writeStream.format("rmq").options(**KEYS)
    query = written.option("namesrv", namesrv).option("topic", "written-by-ann")
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination(120)


def test_a_query_needs_these_rights_and_no_others(
    guarded: LocalCluster, admin: AdminClient, rmq_spark: SparkSession, tmp_path: Path
) -> None:
    """Exactly once from topic to topic, over two brokers that speak to each other in their own name."""
    for topic in ("read-by-ann", "written-by-ann", "theirs"):
        admin.create_topic(topic, queues=2)
    admin.create_user(*ANN[:2])
    with Producer(guarded.namesrv, access=Access(ROOT)) as producer:
        for number in range(8):
            producer.send(Message("read-by-ann", f"{number}".encode()))

    admin.create_acl("ann", ["Topic:read-by-ann"], ["Sub", "Get"])
    admin.create_acl("ann", ["Topic:written-by-ann"], ["Pub"])
    with pytest.raises(Exception, match="User:ann has no permission to access Group:spark-"):
        copied(rmq_spark, guarded.namesrv, tmp_path / "checkpoint")
    admin.create_acl("ann", ["Group:spark-*"], ["Pub", "Sub"])
    for _ in range(2):
        copied(rmq_spark, guarded.namesrv, tmp_path / "checkpoint")
    assert count(admin, "written-by-ann") == 8
    with pytest.raises(Exception, match="User:ann has no permission to access Topic:theirs"):
        rmq_spark.read.format("rmq").option("namesrv", guarded.namesrv).options(**KEYS).load("theirs").collect()


def count(admin: AdminClient, topic: str) -> int:
    return sum(queue.max_offset - queue.min_offset for queue in admin.topic(topic).queues)

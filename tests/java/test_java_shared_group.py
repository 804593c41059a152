"""A RocketMQ consumer in the group that Spark queries share: leases bind our members, RocketMQ's promise the rest."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from ours import read
from rocketmq import wait_for

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message

if TYPE_CHECKING:
    from pathlib import Path

    from jvm import Jvm
    from ours import Up
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.java, pytest.mark.integration]
QUEUES = 4
A_TIME = 40  # messages
PATIENCE_S = 180  # a query's first batch is slow on a busy machine


def copy(spark: SparkSession, namesrv: str, topic: str, checkpoint: Path) -> StreamingQuery:
    """A member of group `topic` that copies the topic to `topic`-out, exactly once."""
    stream = (
        spark.readStream.format("rmq").schema("body binary").option("namesrv", namesrv)
        .option("group", topic).option("groupMode", "shared").option("groupOffsetReset", "earliest").load(topic)
    )  # fmt: skip
    writer = stream.writeStream.format("rmq").option("namesrv", namesrv).option("topic", f"{topic}-out")
    return writer.option("checkpointLocation", str(checkpoint)).start()


class Group:
    """Topic `name`, what was sent to it, and what its two kinds of readers have read."""

    def __init__(self, ours: Up, name: str) -> None:
        self.ours, self.name, self.sent = ours, name, 0
        with AdminClient(ours.namesrv) as admin:
            admin.create_topic(name, queues=QUEUES)
            admin.create_topic(f"{name}-out", queues=1)

    def send(self) -> None:
        """Numbers, as many to each queue."""
        with Producer(self.ours.namesrv) as producer:
            for number in range(self.sent, self.sent + A_TIME):
                producer.send(Message(self.name, b"%d" % number), queue=number % QUEUES)
        self.sent += A_TIME

    def leased(self) -> Counter[str]:
        """How many queues each member has leased, as the broker's table on disk says; nothing where there is none, as
        for a moment while it is saved."""
        try:
            leases = json.loads((self.ours.store / "config" / "queueLeases.json").read_text())["leases"]
        except FileNotFoundError:
            leases = []
        return Counter(lease["clientId"] for lease in leases if lease["group"] == self.name)

    def copied(self) -> list[int]:
        return [int(message.body) for message in read(self.ours.namesrv, f"{self.name}-out")]


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_a_java_consumer_is_a_member(
    ours: Up, jvm: Jvm, rmq_spark: SparkSession, tmp_path: Path, orderly: bool
) -> None:
    """It comes, reads its half of the queues beside a query, and goes: between them they have read every message. One
    that consumes in order waits until a queue is released, so that none is read twice when it comes."""
    group = Group(ours, f"mixed-{'orderly' if orderly else 'concurrent'}")
    query = copy(rmq_spark, ours.namesrv, group.name, tmp_path)
    try:
        group.send()
        wait_for(lambda: len(group.copied()) == group.sent, "the query alone has copied everything", PATIENCE_S)
        assert list(group.leased().values()) == [QUEUES]
        with jvm.push_consumer(ours.namesrv, group.name, group.name, orderly=orderly) as received:
            wait_for(
                lambda: list(group.leased().values()) == [QUEUES // 2],
                "the query has let go half of the queues",
                PATIENCE_S,
            )
            group.send()
            wait_for(lambda: is_all_read(group, received), "both together have read everything", PATIENCE_S)
            by_java = numbers(received)
            assert len({number % QUEUES for number in by_java}) == QUEUES // 2
            if orderly:
                assert Counter([*group.copied(), *by_java]) == Counter(range(group.sent))
        wait_for(lambda: list(group.leased().values()) == [QUEUES], "the query has all queues again", PATIENCE_S)
        group.send()
        wait_for(lambda: is_all_read(group, received), "nothing is left out", PATIENCE_S)
        assert query.exception() is None
        assert max(Counter(group.copied()).values()) == 1, "the sink writes exactly once, whoever else reads"
    finally:
        query.stop()


def is_all_read(group: Group, received: list[Any]) -> bool:
    return {*group.copied(), *numbers(received)} == set(range(group.sent))


def numbers(received: list[Any]) -> list[int]:
    """What the Java consumer was handed."""
    return [int(bytes(message.getBody())) for message in list(received)]

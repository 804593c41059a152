"""A slave that has less than its master: it began later, with the newest file of the log. What it lacks is not lost.

Whoever asks it for that is told to wait for the master, and goes on there; RocketMQ's slaves send nobody on either
(`offsetCheckInSlave`).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from random import randbytes
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

from rmqspark import AdminClient, Message, Producer, PullConsumer, PushConsumer
from rmqspark.broker.config import BrokerConfig
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.pull_request import PullStatus
from rmqspark.client.cluster.topics_read import topics_read
from rmqspark.errors import Busy, Unreachable
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable
from rmqspark.protocol.bulk.topic_ranges import TopicRange
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.source.reader import RmqStreamReader
from rmqspark.testing import cluster
from rmqspark.testing.in_process import TEST_STORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration

SENT = 300
LATER = 20
QUICK = BrokerConfig(ha_send_heartbeat_interval=200, slave_sync_interval=100)
SMALL_LOG = replace(TEST_STORE, mapped_file_size_commit_log=1 << 19)
Q0 = MessageQueue("orders", "broker-a", 0)
PATIENCE_S = 60
ALL = (1 << 63) - 1


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it never came to this: {what}"
        time.sleep(0.01)


def send(mq: LocalCluster, first: int, count: int) -> None:
    with Producer(mq.namesrv) as producer:
        for number in range(first, first + count):
            producer.send(Message("orders", randbytes(5_000), keys=[f"k{number}"]), queue=0)


@pytest.fixture
def mq() -> Iterator[LocalCluster]:
    """Three files of one queue on the master, of which its slave has the last."""
    with cluster(broker_config=QUICK, store_config=SMALL_LOG) as replicated:
        with AdminClient(replicated.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        send(replicated, 0, SENT)
        replicated.start_slave()
        with ClusterClient(replicated.namesrv) as client:
            slave = client.broker_at("broker-a", replicated.brokers["broker-a-1"])
            wait_until(lambda: slave.max_offset("orders", 0) == SENT, "the slave has the end")
            wait_until(lambda: knows_its_store(slave), "the slave has heard from its master")
        yield replicated


def knows_its_store(slave: BrokerClient) -> bool:
    try:
        return slave.capabilities().is_slave
    except Busy:
        return False


@contextmanager
def on_the_slave(mq: LocalCluster) -> Iterator[BrokerClient]:
    mq.stop_broker("broker-a")
    with ClusterClient(mq.namesrv) as client:
        wait_until(lambda: client.broker("broker-a").capabilities().is_slave, "the slave is the one that is asked")
        yield client.broker("broker-a")


def begin_of(slave: BrokerClient) -> int:
    return slave.submit_pull(Q0, 0, group="g", max_count=1).result().min_offset


def test_nobody_is_sent_on_over_what_a_slave_lacks(mq: LocalCluster) -> None:
    """Before its first message and behind its last: a pull stays where it is, our own reads are refused."""
    with on_the_slave(mq) as slave:
        begin = begin_of(slave)
        assert 0 < begin < SENT
        for lacking in (0, begin - 1, SENT + 1):
            pulled = slave.submit_pull(Q0, lacking, group="g", max_count=32).result()
            assert (pulled.status, pulled.next_offset) == (PullStatus.NO_MATCHED, lacking)
            with pytest.raises(Busy, match="not on this slave"):
                slave.bulk_read("orders", 0, lacking, SENT + 9, max_count=9, max_bytes=1 << 20).result()
            asked = [TopicRange("orders", 0, lacking, SENT + 9)]
            with pytest.raises(Busy, match="not on this slave"):
                topics_read(slave, asked, max_count=9, max_bytes=1 << 20).result()
        with pytest.raises(Busy, match="not on this slave"):  # a plan that the master's end was in
            slave.bulk_read("orders", 0, SENT, SENT + 9, max_count=9, max_bytes=1 << 20).result()
        assert len(slave.bulk_read("orders", 0, SENT, ALL, max_count=9, max_bytes=1 << 20).result().sizes) == 0
        assert len(slave.bulk_read("orders", 0, begin, SENT, max_count=9, max_bytes=1 << 20).result().sizes) == 9


def test_where_a_queue_begins_only_its_master_knows(mq: LocalCluster) -> None:
    """A new group, or query, that began where the slave does would leave out the rest."""
    with on_the_slave(mq) as slave:
        with pytest.raises(Busy, match="may have begun later"):
            slave.min_offset("orders", 0)
        with pytest.raises(Busy, match="may have begun later"):
            slave.submit_offset_by_time("orders", 0, 0).result()


def test_consumers_wait_for_the_master_and_leave_nothing_out(mq: LocalCluster) -> None:
    """One that is new, and one that was somewhere in what the slave lacks."""
    pushed: list[str] = []
    with PullConsumer(mq.namesrv, group="half-way") as consumer:
        consumer.assign([Q0])
        consumer.seek(Q0, 50)
        wait_until(lambda: consumer.poll(timeout_ms=100), "it reads")
        consumer.seek(Q0, 50)
        with (
            on_the_slave(mq),
            PushConsumer(
                mq.namesrv,
                "from-the-start",
                listener=lambda message: pushed.append(message.keys[0]),
                consume_from="earliest",
            ) as new,
        ):
            new.subscribe("orders")
            new.start()
            deadline = time.monotonic() + 1
            pulled = []
            while time.monotonic() < deadline:
                pulled += poll(consumer)
            assert (pulled, pushed) == ([], [])
            mq.start_broker("broker-a")
            send(mq, SENT, LATER)
            wait_until(lambda: pulled.extend(poll(consumer)) or len(pulled) >= SENT + LATER - 50, "all is pulled")
            wait_until(lambda: len(set(pushed)) >= SENT + LATER, "all is pushed")
    assert pulled == [f"k{number}" for number in range(50, SENT + LATER)]
    assert set(pushed) == {f"k{number}" for number in range(SENT + LATER)}


def test_a_slave_that_starts_keeps_what_its_master_told_it_of_groups(mq: LocalCluster) -> None:
    """Its own queues may begin later than where a group is, or end before that: they are no measure for it."""
    with PullConsumer(mq.namesrv, group="half-way") as consumer:
        consumer.assign([Q0])
        consumer.commit({Q0: 50})
        slave = mq.brokers["broker-a-1"]
        wait_until(lambda: committed_on(slave) == 50, "the slave knows of the group")
    mq.stop_slave()
    mq.stop_broker("broker-a")
    assert committed_on(mq.start_slave()) == 50


def committed_on(address: str) -> int | None:
    connection = BlockingConnection(address)
    try:
        answer = connection.call(RequestCode.GET_ALL_CONSUMER_OFFSET, None, timeout_ms=10_000)
    finally:
        connection.close()
    return ConsumerOffsetTable.decode(answer.body).offsetTable.get("orders@half-way", {}).get(0)


def poll(consumer: PullConsumer) -> list[str]:
    """Raises what would be to take for lost what the slave lacks."""
    try:
        return [each.keys[0] for each in consumer.poll(timeout_ms=100)]
    except (Busy, Unreachable):
        return []


def test_a_stream_leaves_such_queues_out_of_sight(mq: LocalCluster) -> None:
    """It goes neither back nor on until the master is there; a batch that was planned before is refused meanwhile."""
    given = {"namesrv": mq.namesrv, "subscribe": "orders", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "50"}
    given["fetchOffset.numRetries"] = "1"
    reader = RmqStreamReader(given, StructType().add("body", "binary"))
    limit = reader.getDefaultReadLimit()
    first = reader.initialOffset()
    planned = reader.latestOffset(first, limit)
    (partition,) = reader.partitions(first, planned)
    with on_the_slave(mq):
        assert reader.latestOffset(planned, limit) == planned
        with pytest.raises(Busy, match="not on this slave"):
            list(reader.read(partition))
        with pytest.raises(Busy, match="may have begun later"):
            RmqStreamReader(given, StructType().add("body", "binary")).initialOffset()
        mq.start_broker("broker-a")
        wait_until(lambda: reader.latestOffset(planned, limit) != planned, "the stream goes on")
    assert sum(len(rows) for rows in reader.read(partition)) == 50

"""Streaming queries of real Sparks that share a group: one comes, one goes, one is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.clock import SystemClock
from rmqspark.model import Message
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.spark

LEASE_MS = 6_000
OTHER_DRIVER = """
import sys
from rmqspark.testing.spark import local_session
from test_spark_shared import copy
namesrv, name, checkpoint = sys.argv[1:]
query = copy(local_session(1), namesrv, name, checkpoint)
print("started", flush=True)
query.awaitTermination()
"""


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    """Leases as short as a test can wait for."""
    with cluster(broker_config=BrokerConfig(consume_group_lock_live_time=LEASE_MS)) as running:
        yield running


def reading(spark: SparkSession, namesrv: str, name: str, **options: str) -> DataFrame:
    """What a member of group `name` reads of topic `name`."""
    return (
        spark.readStream.format("rmq").schema("body binary").option("namesrv", namesrv).options(**options)
        .option("group", name).option("groupMode", "shared").option("groupOffsetReset", "earliest").load(name)
    )  # fmt: skip


def copy(spark: SparkSession, namesrv: str, name: str, checkpoint: str, **options: str) -> StreamingQuery:
    """A member of group `name` that copies topic `name` to `name`-out, exactly once."""
    stream = reading(spark, namesrv, name, **options)
    writer = stream.writeStream.format("rmq").option("namesrv", namesrv).option("topic", f"{name}-out")
    return writer.option("checkpointLocation", checkpoint).option("onReplayMismatch", "fail").start()


class Group:
    """Topics `name` and `name`-out, and the members that copy from one to the other."""

    def __init__(self, mq: LocalCluster, spark: SparkSession, admin: AdminClient, name: str, directory: Path) -> None:
        self.mq, self.spark, self.admin, self.name, self.directory = mq, spark, admin, name, directory
        self.sent = 0
        admin.create_topic(name, queues=4)
        admin.create_topic(f"{name}-out", queues=1)

    def start(self, member: str, **options: str) -> StreamingQuery:
        return copy(self.spark, self.mq.namesrv, self.name, str(self.directory / member), **options)

    def start_with(self, member: str, on_batch: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """One that hands over its batches, instead of copying them."""
        writer = reading(self.spark, self.mq.namesrv, self.name).writeStream.foreachBatch(on_batch)
        return writer.option("checkpointLocation", str(self.directory / member)).start()

    @contextmanager
    def driver(self, member: str) -> Iterator[subprocess.Popen[bytes]]:
        """A member in a Spark of its own."""
        words = [sys.executable, "-c", OTHER_DRIVER, self.mq.namesrv, self.name, str(self.directory / member)]
        paths = [os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        with (self.directory / f"{member}.log").open("wb") as log:
            process = subprocess.Popen(
                words, env=environment, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"started\n", (self.directory / f"{member}.log").read_text()
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()

    def send(self, count: int = 8) -> None:
        """Numbers, two in each queue."""
        with Producer(self.mq.namesrv) as producer:
            for number in range(self.sent, self.sent + count):
                producer.send(Message(self.name, b"%d" % number), queue=number % 4)
        self.sent += count

    def planned(self, member: str) -> int:
        """How many batches a member has begun."""
        return len(list((self.directory / member / "offsets").glob("[0-9]*")))

    def owners(self) -> dict[str, int]:
        """How many queues each member has leased, as the broker's table on disk says; nothing where there is none, as
        for a moment while it is saved."""
        try:
            table = json.loads((self.mq.store_dir() / "config" / "queueLeases.json").read_text())
        except FileNotFoundError:
            return {}
        held = [lease["clientId"] for lease in table["leases"] if lease["group"] == self.name]
        return {member: held.count(member) for member in held}

    def wait_until(self, condition: Callable[[], bool], *queries: StreamingQuery) -> None:
        for _ in range(2_000):
            if condition():
                return
            for query in queries:
                assert query.exception() is None, query.exception()
            self.spark._jvm.Thread.sleep(100)  # type: ignore[union-attr]
        logs = "".join(log.read_text()[-3_000:] for log in self.directory.glob("*.log"))
        raise AssertionError(f"It did not come to that. Owners: {self.owners()}, sent: {self.sent}. {logs}")

    def read(self) -> list[int]:
        frame = self.spark.read.format("rmq").option("namesrv", self.mq.namesrv).schema("body binary")
        return sorted(int(bytes(row.body)) for row in frame.load(f"{self.name}-out").collect())

    def is_all_copied(self) -> bool:
        count = self.admin.topic(f"{self.name}-out").message_count
        assert count <= self.sent
        return count == self.sent


@pytest.fixture
def group(mq: LocalCluster, rmq_spark: SparkSession, tmp_path: Path, request: Any) -> Iterator[Group]:
    with AdminClient(mq.namesrv) as admin:
        name = request.node.name.removeprefix("test_").replace("_", "-")
        made = Group(mq, rmq_spark, admin, name, tmp_path)
        yield made
        for query in rmq_spark.streams.active:
            query.stop()


def test_a_query_joins_and_leaves(group: Group) -> None:
    """It gets half of the queues, between two batches; when it stops, the other has them back at once. Nothing is
    copied twice or left out. One reads the broker's files, a task for all its queues; leases are kept all the same."""
    first = group.start("first", readMode="direct", allocateStrategy="circle")
    group.send()
    group.wait_until(group.is_all_copied, first)
    group.wait_until(lambda: sorted(group.owners().values()) == [4], first)
    second = group.start("second", allocateStrategy="circle")
    group.wait_until(lambda: sorted(group.owners().values()) == [2, 2], first, second)
    group.send()
    group.wait_until(group.is_all_copied, first, second)
    second.stop()
    group.wait_until(lambda: sorted(group.owners().values()) == [4], first)
    group.send()
    group.wait_until(group.is_all_copied, first)
    assert group.read() == list(range(group.sent))


def test_a_member_is_killed(group: Group) -> None:
    """In a batch: its queues are read on by the others when its leases have run out; it may come back to its
    checkpoint."""
    with group.driver("second") as driver:
        first = group.start("first")
        group.wait_until(lambda: sorted(group.owners().values()) == [2, 2], first)
        planned = group.planned("second")
        group.send()
        group.wait_until(lambda: group.planned("second") > planned, first)
        os.killpg(driver.pid, signal.SIGKILL)
    group.send()
    group.wait_until(group.is_all_copied, first)
    group.wait_until(lambda: sorted(group.owners().values()) == [4], first)
    second = group.start("second")
    group.wait_until(lambda: sorted(group.owners().values()) == [2, 2], first, second)
    group.send()
    group.wait_until(group.is_all_copied, first, second)
    assert group.read() == list(range(group.sent))


def test_a_batch_takes_longer_than_its_leases(group: Group) -> None:
    """They are renewed while it runs: who joins gets none of its queues before it is done, and no message is read
    twice."""
    read: list[int] = []
    holders: set[str] = set()
    has_begun, goes_on, clock = threading.Event(), threading.Event(), SystemClock()

    def on_batch(batch: DataFrame, number: int) -> None:
        bodies = [int(bytes(row.body)) for row in batch.collect()]
        if bodies and not has_begun.is_set():
            has_begun.set()
            goes_on.wait()
        read.extend(bodies)

    def is_over() -> bool:
        holders.update(group.owners())
        return clock.monotonic_ms() > end_ms

    group.send()
    first = group.start_with("first", on_batch)
    try:
        group.wait_until(has_begun.is_set, first)
        second = group.start_with("second", on_batch)
        end_ms = clock.monotonic_ms() + 2 * LEASE_MS
        group.wait_until(is_over, first, second)
        assert len(holders) == 1
    finally:
        goes_on.set()
    group.wait_until(lambda: sorted(group.owners().values()) == [2, 2], first, second)
    group.send()
    group.wait_until(lambda: len(read) >= group.sent, first, second)
    assert sorted(read) == list(range(group.sent))


def test_a_decided_batch_comes_again_when_its_queues_are_another_s(group: Group) -> None:
    """The driver died before Spark had recorded it: nothing of it is read or written again, and it is no mismatch."""
    first = group.start("first")
    group.send()
    group.wait_until(group.is_all_copied, first)
    first.processAllAvailable()
    first.stop()
    commits = group.directory / "first" / "commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()
    second = group.start("second")
    group.wait_until(lambda: sorted(group.owners().values()) == [4], second)
    again = group.start("first")
    group.wait_until(lambda: sorted(group.owners().values()) == [2, 2], again, second)
    group.send()
    group.wait_until(group.is_all_copied, again, second)
    assert group.read() == list(range(group.sent))


def test_a_reset_reaches_whoever_reads_a_queue(group: Group) -> None:
    """Two queries read their queues again from where the group was set to, each its own, exactly once more."""
    first, second = group.start("first"), group.start("second")
    group.wait_until(lambda: sorted(group.owners().values()) == [2, 2], first, second)
    group.send()
    group.wait_until(group.is_all_copied, first, second)
    before = group.sent
    group.admin.reset_group(group.name, "earliest", topic=group.name)
    group.sent *= 2
    group.wait_until(group.is_all_copied, first, second)
    assert group.read() == sorted([*range(before)] * 2)

"""Queries whose input is not what it was: gone, made anew, of another cluster, or of a broker that has trouble."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.store.posix_files import PosixFileSystem
from rmqspark.store.reading.readable_queues import ReadableQueues
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Batches, Topic
    from pyspark.sql import DataFrame, SparkSession

    from rmqspark.testing import LocalCluster

    Run = Callable[[Any], Batches]

pytestmark = [pytest.mark.spark, pytest.mark.faults]

SMALL_FILES = StoreConfig(
    mapped_file_size_commit_log=1 << 20,
    delete_when=";".join(f"{hour:02}" for hour in range(24)),
    max_hash_slot_num=1_000,
    max_index_num=4_000,
    min_free_bytes=256 << 20,
)
A_WEEK_MS = 7 * 24 * 3_600_000


@pytest.fixture(scope="module")
def frail() -> Iterator[LocalCluster]:
    """A cluster of its own, whose broker may be stopped and whose messages may expire."""
    with cluster(store_config=SMALL_FILES) as running:
        yield running


@pytest.fixture
def orders(topic: Topic, frail: LocalCluster) -> Topic:
    """A topic there, with one queue and one message."""
    there = replace(topic, namesrv=frail.namesrv)
    there.write(topic.spark.createDataFrame([("first",)], ["body"]), autoCreateTopic=True, queues=1)
    return there


def expire_everything(mq: LocalCluster) -> None:
    """What retention does a week later, to the store of a broker that is stopped."""
    store = MessageStore.open(
        mq.store_dir(), SMALL_FILES, files=PosixFileSystem(), clock=SystemClock(), entropy=SystemEntropy()
    )
    try:
        assert store.expire(SystemClock().now_ms() + A_WEEK_MS).deleted
    finally:
        store.close()


def started(frame: DataFrame, checkpoint: Path, on_batch: Callable[[DataFrame], None]) -> Any:
    writer = frame.writeStream.foreachBatch(lambda batch, number: on_batch(batch))
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def test_a_checkpoint_of_another_topic(topic: Topic, other: Topic, run: Run) -> None:
    """A query that is pointed at another topic under its old checkpoint says so, and does not start over in silence."""
    topic.send("a")
    run(topic.stream(startingOffsets="earliest"))
    other.send("b")
    with pytest.raises(StreamingQueryException, match=f"other topics or queues: {topic.name}.*checkpointLocation"):
        run(other.stream(startingOffsets="earliest"))


def test_a_checkpoint_of_another_cluster(topic: Topic, frail: LocalCluster, run: Run) -> None:
    """The same topic of another cluster is not what the checkpoint is of, although brokers are called alike."""
    topic.send("a", "b", "c")
    run(topic.stream(startingOffsets="earliest"))
    elsewhere = replace(topic, namesrv=frail.namesrv)
    rows = topic.spark.createDataFrame([("x",)], ["body"])
    elsewhere.write(rows, autoCreateTopic=True, queues=3)
    with pytest.raises(
        StreamingQueryException, match="was read up to offset 1, but its broker now serves another store"
    ):
        run(elsewhere.stream())


def test_a_broker_that_dies_in_the_middle_of_a_batch(orders: Topic, frail: LocalCluster, tmp_path: Path) -> None:
    """A batch that is planned is read when the broker is back, whole, though that takes it longer than whoever begins
    would wait."""
    orders.send(*map(str, range(50)))
    read: list[int] = []

    def on_batch(batch: DataFrame) -> None:
        frail.stop_broker("broker-a")
        coming_back = threading.Timer(8.0, frail.start_broker, ["broker-a"])
        coming_back.start()
        read.append(batch.count())
        coming_back.join()

    frame = orders.stream("body binary", startingOffsets="earliest")
    assert started(frame, tmp_path / "checkpoint", on_batch).awaitTermination(120)
    assert read == [51]


def test_a_reader_slower_than_retention(
    orders: Topic, frail: LocalCluster, rmq_spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    """Messages that expire between plan and read end the query with their number, and so does a start at an offset that
    is gone; failOnDataLoss=false skips them, then and after a restart, and loses none of what is still there."""
    orders.write(rmq_spark.range(2_500).selectExpr("repeat('x', 1000) body"))

    read: list[int] = []

    def on_batch(batch: DataFrame) -> None:
        if read:
            frail.stop_broker("broker-a")
            expire_everything(frail)
            frail.start_broker("broker-a")
        read.append(batch.count())

    frame = orders.stream("body binary", startingOffsets="earliest", maxOffsetsPerTrigger=100)
    query = started(frame, tmp_path / "checkpoint", on_batch)
    with pytest.raises(StreamingQueryException, match=r"\d+ messages of queue .* were removed before they were read"):
        query.awaitTermination(120)
    assert read == [100]
    with pytest.raises(StreamingQueryException, match="were removed before they were read"):
        run(orders.stream("body binary"))
    gone = json.dumps({orders.name: {"broker-a": {"0": 0}}})
    with pytest.raises(Exception, match="were removed before they were read"):
        orders.read("queueOffset bigint", startingOffsets=gone).count()
    left = orders.read("queueOffset bigint", failOnDataLoss=False).count()
    assert 0 < left < 2_501
    assert sum(run(orders.stream("body binary", failOnDataLoss=False)).sizes) == left


def test_a_message_that_is_damaged_on_the_broker_s_disk(orders: Topic, frail: LocalCluster, run: Run) -> None:
    """It is lost like one that has gone: the query ends and says how many there are; failOnDataLoss=false skips it."""
    orders.send("a", "b", "c")
    (row,) = orders.read("body binary, offsetMsgId string").filter("body = cast('b' as binary)").collect()
    with damaged(frail.store_dir() / "commitlog", physical_offset=int(row.offsetMsgId[-16:], 16)):
        story = "1 message of queue .*, among offsets 0 to 3, is damaged or gone"
        with pytest.raises(StreamingQueryException, match=story):
            run(orders.stream("body binary", startingOffsets="earliest"))
        left = orders.stream("body binary", startingOffsets="earliest", failOnDataLoss=False)
        assert run(left).bodies == ["a", "c", "first"]


@contextmanager
def damaged(log: Path, *, physical_offset: int) -> Iterator[None]:
    """A commit log in which a record says that it is empty."""
    segment = max(file for file in log.iterdir() if int(file.name) <= physical_offset)
    with segment.open("r+b", buffering=0) as file:
        file.seek(physical_offset - int(segment.name))
        size = file.read(4)

        def write(what: bytes) -> None:
            file.seek(physical_offset - int(segment.name))
            file.write(what)

        write(bytes(4))
        try:
            yield
        finally:
            write(size)


def test_a_broker_that_reports_less_than_before(topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends that are lower for a moment make no message come again."""
    read: list[bytes] = []
    lies: list[int] = []
    honest = ReadableQueues.bounds

    def bounds(queues: ReadableQueues, name: str, queue_id: int) -> tuple[int, int]:
        if name == topic.name and lies:
            return 0, lies.pop()
        return honest(queues, name, queue_id)

    monkeypatch.setattr(ReadableQueues, "bounds", bounds)
    topic.send("a", "b", "c")
    frame = topic.stream("body binary", startingOffsets="earliest", fetchOffset__retryIntervalMs=20)
    writer = frame.writeStream.foreachBatch(lambda batch, number: read.extend(row.body for row in batch.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        lies += [0] * 5
        topic.send("d")
        query.processAllAvailable()
        query.processAllAvailable()
        assert not lies
        assert sorted(bytes(body) for body in read) == [b"a", b"b", b"c", b"d"]
    finally:
        query.stop()


def test_a_broker_that_answers_slowly(topic: Topic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is held up for longer than a request waits is asked again; nothing is missing."""
    topic.send("a", "b", "c")
    held_up: list[float] = [6.5]
    prompt = ReadableQueues.bounds

    def bounds(queues: ReadableQueues, name: str, queue_id: int) -> tuple[int, int]:
        if name == topic.name and held_up:
            time.sleep(held_up.pop())
        return prompt(queues, name, queue_id)

    monkeypatch.setattr(ReadableQueues, "bounds", bounds)
    assert run(topic.stream("body binary", startingOffsets="earliest")).bodies == ["a", "b", "c"]
    assert not held_up

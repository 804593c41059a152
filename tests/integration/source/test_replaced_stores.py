"""A broker that comes back with another store after a batch was planned, or with its own under another name."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from rmqspark.datasource import RmqDataSource
from rmqspark.errors import DataLoss
from rmqspark.testing import cluster
from rmqspark.testing.rmq import Rmq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.testing import LocalCluster

BODY = StructType().add("body", "binary")
QUEUES = 32  # some of which a task reads together


@pytest.fixture
def one() -> Iterator[LocalCluster]:
    with cluster() as running:
        yield running


def replace_store(one: LocalCluster, body: bytes, count: int) -> None:
    """Has the broker come back empty, and be sent so many messages for each queue."""
    one.stop_broker("broker-a")
    shutil.rmtree(one.store_dir("broker-a"))
    one.start_broker("broker-a")
    with Rmq(one) as rmq:
        rmq.create_topic("orders", QUEUES)
        rmq.send("orders", *[body] * (QUEUES * count))


@pytest.mark.parametrize("how", [{}, {"readMode": "direct"}, {"sql": "TRUE"}], ids=str)
def test_a_frame_shows_nothing_of_another_store(one: LocalCluster, how: dict[str, str]) -> None:
    """Spark plans a frame once. Looked at again, when its broker serves another store, it has lost what it showed."""
    options = {"subscribe": "orders", "namesrv": one.namesrv, **how}

    def read(planned: Any, **more: str) -> list[bytes]:
        reader: Any = RmqDataSource({**options, **more}).reader(BODY)
        planned = planned or reader.partitions()
        return [body for each in planned for rows in reader.read(each) for body in rows.column("body").to_pylist()]

    replace_store(one, b"mine", 2)
    strict: Any = RmqDataSource(options).reader(BODY)
    tolerant: Any = RmqDataSource({**options, "failOnDataLoss": "false"}).reader(BODY)
    frames = [strict.partitions(), tolerant.partitions()]
    assert [read(planned) for planned in frames] == [[b"mine"] * 2 * QUEUES] * 2
    replace_store(one, b"others'", 3)
    with pytest.raises(DataLoss, match="2 messages of queue orders/broker-a/., offsets 0 to 1, went with the store"):
        read(frames[0])
    assert read(frames[1]) == []


def test_a_renamed_broker_is_read_on() -> None:
    """By whom its store is: nothing is read once more, though its queues have other names by now."""
    with cluster(brokers=2) as pair, Rmq(pair) as rmq:
        rmq.create_topic("orders", queues=1)
        rmq.send("orders", *[b"%d" % number for number in range(10)])
        options = {"subscribe": "orders", "namesrv": pair.namesrv, "startingOffsets": "earliest"}
        before: Any = RmqDataSource(options).streamReader(BODY)
        at = before.latestOffset(before.initialOffset(), ReadAllAvailable())
        pair.stop_broker("broker-a")
        pair.store_dir("broker-a").rename(pair.store_dir("broker-c"))
        pair.start_broker("broker-c")
        rmq.send("orders", b"new", b"new")
        after: Any = RmqDataSource(options).streamReader(BODY)
        end = after.latestOffset(json.loads(json.dumps(at)), ReadAllAvailable())
        read = [rows.column("body").to_pylist() for each in after.partitions(at, end) for rows in after.read(each)]
        assert (read, end["topics"]["orders"]["brokers"].keys()) == ([[b"new"]] * 2, {"broker-b", "broker-c"})

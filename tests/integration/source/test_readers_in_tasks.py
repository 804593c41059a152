"""What becomes of a reader that Spark pickles into tasks."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from pyspark.sql.types import StructType

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.txn import reported_inputs
from rmqspark.datasource import RmqDataSource
from rmqspark.source.options import SourceOptions
from rmqspark.source.partitions import Holder, QueuePartition
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.tasks import report, task
from rmqspark.streaming_batch import StreamingBatch
from rmqspark.testing import cluster
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.rmq import Rmq

from ..coming_back import comes_back

BODY = StructType().add("body", "binary")


@pytest.mark.parametrize("part", ["reader", "stream reader"])
def test_tasks_are_told_what_to_go_by_in_their_partitions(part: str, rmq: Rmq) -> None:
    """A reader that was pickled reads what another one has planned, as the options of that one say."""
    rmq.create_topic("t", queues=1)
    rmq.send("t", b"x")
    source = RmqDataSource({"subscribe": "t", "namesrv": rmq.namesrv, "tags": "none such"})
    other = RmqDataSource({"subscribe": "t", "namesrv": rmq.namesrv})
    assert _read_elsewhere(source, part) == []
    assert _read_elsewhere(other, part) == [b"x"]


def _read_elsewhere(source: RmqDataSource, part: str) -> list[bytes]:
    reader: Any = source.reader(BODY) if part == "reader" else source.streamReader(BODY)
    if part == "reader":
        partitions = reader.partitions()
    else:
        end = reader.reportLatestOffset()
        start = json.loads(json.dumps(end).replace('"0": 1', '"0": 0'))
        partitions = reader.partitions(start, end)
    task: Any = pickle.loads(pickle.dumps(reader))
    (partition,) = pickle.loads(pickle.dumps(partitions))
    return [body for batch in task.read(partition) for body in batch.column("body").to_pylist()]


def test_what_is_read_is_told_though_the_only_broker_was_away_as_the_task_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whom reading waits for can be told then, too: else the record of the batch would have a gap, and a member of a
    shared group would fail."""
    clock = ManualClock()
    with cluster() as one, Rmq(one) as rmq, ClusterClient(one.namesrv, clock=clock) as client:
        rmq.create_topic("t", queues=1)
        rmq.send("t", b"x")
        (queue,) = client.subscribe_queues("t")
        options = SourceOptions.parse({"subscribe": "t", "namesrv": one.namesrv}, streaming=True)
        ranges = (QueueRange(queue, 0, 1),)
        partition = QueuePartition(ranges, Holder("readers").of(ranges), options.for_tasks)
        batch = StreamingBatch("q", 5, "run-1")
        monkeypatch.setattr(task, "shared_client", lambda *_: client)
        monkeypatch.setattr(report, "streaming_batch", lambda _: batch)
        monkeypatch.setattr(report.TaskContext, "get", staticmethod(lambda: batch))
        one.stop_broker("broker-a")
        comes_back(one, clock, monkeypatch, after_ms=50_000)
        read = [body for rows in task.read_of_batch(partition, BODY) for body in rows.column("body").to_pylist()]
        (told,) = reported_inputs(client.broker("broker-a"), "q", 5)
        assert (read, told.fromOffset, told.toOffset) == ([b"x"], 0, 1)

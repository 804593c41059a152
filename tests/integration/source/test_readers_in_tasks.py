"""What becomes of a reader that Spark pickles into tasks."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from rmqspark.datasource import RmqDataSource

if TYPE_CHECKING:
    from rmqspark.testing.rmq import Rmq

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

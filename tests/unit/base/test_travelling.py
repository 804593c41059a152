"""What one version of rmqspark has pickled for Spark no other one takes for its own."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from rmqspark import sink, source, travelling
from rmqspark.datasource import RmqDataSource
from rmqspark.errors import OtherVersion
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.txn import HeldAttempt
from rmqspark.sink.at_least_once import RowsWritten
from rmqspark.sink.transactions.attempt import Attempt, AttemptWritten
from rmqspark.source.partitions import DirectPartition, QueueLease, QueuePartition, StorePlace
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.store_reader import StorePartition
from rmqspark.source.task_options import TaskOptions
from rmqspark.source.values.schema import default_schema
from rmqspark.store.direct.tails import Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OURS = "rmqspark.source.", "rmqspark.sink."
PICKLED = (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
BODY = StructType().add("body", "binary")
OPTIONS = {"namesrv": "127.0.0.1:1", "deliveryGuarantee": "exactly-once"}
READ = (QueueRange(MessageQueue("t", "broker-a", 0), 3, 7),), (QueueLease("g", "m", 1),), TaskOptions(tags="paid")
TRAVELS: dict[str, Callable[[], Any]] = {
    "reader": lambda: RmqDataSource({"subscribe": "t"}).reader(default_schema()),
    "store reader": lambda: RmqDataSource({"subscribe": "t", "store": "/data"}).reader(default_schema()),
    "stream reader": lambda: RmqDataSource({"subscribe": "t"}).streamReader(default_schema()),
    "writer": lambda: RmqDataSource({"topic": "t"}).writer(BODY, False),
    "stream writer": lambda: RmqDataSource({**OPTIONS, "topic": "t"}).streamWriter(BODY, False),
    "partition": lambda: QueuePartition(*READ),
    "direct partition": lambda: DirectPartition(*READ, StorePlace("/data", "9f", 1)),
    "store partition": lambda: StorePartition("/data", READ[0], {("t", 0): Tail(6, b"")}),
    "rows written": lambda: RowsWritten(2, 300, {"t/broker-a/0": 2}),
    "attempt written": lambda: AttemptWritten(
        Attempt("T", "run", 7, 0, "a", epoch=1), 2, 5, {"broker-a": HeldAttempt(0, "a", 1, 2)}, skipped=True
    ),
}


@pytest.mark.parametrize("what", TRAVELS)
def test_what_travels_arrives_as_it_was(what: str) -> None:
    """From the driver to a task, or back."""
    sent = TRAVELS[what]()
    arrived = pickle.loads(pickle.dumps(sent))
    assert type(arrived) is type(sent)
    assert vars(arrived) == sent.__getstate__()


@pytest.mark.parametrize("what", TRAVELS)
def test_what_another_version_has_pickled_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names both versions, and the interpreter that one of them is installed for."""
    with monkeypatch.context() as patched:
        patched.setattr(travelling, "__version__", "9.8.7")
        packed = pickle.dumps(TRAVELS[what]())
    with pytest.raises(OtherVersion, match="9.8.7") as refused:
        pickle.loads(packed)
    assert travelling.__version__ in refused.value.message
    assert sys.executable in refused.value.message
    assert "install one version" in refused.value.hint


def test_another_version_s_members_are_not_looked_at() -> None:
    """It may have classes that are not there, and members that none of these has."""
    with pytest.raises(OtherVersion):
        travelling.unpacked("9.8.7", b"nothing that could be read here")


def test_all_that_spark_pickles_of_ours_says_of_which_version_it_is() -> None:
    """Also what is added later: nobody would miss it before two versions meet."""
    for package in (source, sink):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    ours = [kind for base in PICKLED for kind in kinds_of(base) if kind.__module__.startswith(OURS)]
    assert {"QueuePartition", "RmqStreamWriter", "RowsWritten"} <= {kind.__name__ for kind in ours}
    assert [kind for kind in ours if not issubclass(kind, travelling.Travelling)] == []


def kinds_of(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        yield kind
        yield from kinds_of(kind)

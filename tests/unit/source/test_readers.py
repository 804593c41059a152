"""What Spark may do to a reader or writer before any of it runs: make it twice, and pickle it."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from rmqspark import datasource
from rmqspark.client.cluster import shared
from rmqspark.datasource import RmqDataSource
from rmqspark.errors import InvalidArgument, MissingExtra
from rmqspark.source.values.schema import default_schema

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = StructType().add("body", "binary")
# Nobody listens at port 1: whoever connected would fail.
OPTIONS = {"namesrv": "127.0.0.1:1"}
PARTS: dict[str, Callable[[], object]] = {
    "reader": lambda: RmqDataSource({**OPTIONS, "subscribe": "t"}).reader(default_schema()),
    "stream reader": lambda: RmqDataSource({**OPTIONS, "subscribe": "t"}).streamReader(default_schema()),
    "writer": lambda: RmqDataSource({**OPTIONS, "topic": "t"}).writer(BODY, False),
    "stream writer": lambda: RmqDataSource({**OPTIONS, "topic": "t"}).streamWriter(BODY, False),
}


def test_a_session_without_pyarrow_is_told_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark does not ask for PyArrow, and its process that plans a read would be gone without a word."""
    monkeypatch.setattr(datasource, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="PyArrow is not installed") as refused:
        RmqDataSource({"subscribe": "t"})
    assert sys.executable in str(refused.value)  # which is Spark's choice: often the python3 of PATH
    assert "PYSPARK_PYTHON" in (refused.value.hint or "")


def test_without_pyspark_it_is_said_what_brings_it() -> None:
    """Of a class that sessions are given by name, too."""
    program = "import sys; sys.modules['pyspark'] = None; import rmqspark.datasource"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "PySpark is not installed. Install it with: pip install 'rmqspark[spark]'" in ended.stderr


@pytest.mark.parametrize("part", PARTS)
def test_making_one_opens_nothing(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes readers and writers several times and pickles them: neither opens a socket or a client."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    before = dict(shared._clients)
    pickle.loads(pickle.dumps(PARTS[part]()))
    assert shared._clients == before


@pytest.mark.parametrize(
    ("options", "schema", "story"),
    [
        ({"subcribe": "t"}, "body binary", "no option 'subcribe'. Did you mean 'subscribe'"),
        ({"subscribe": "t", "endingOffsets": "latest"}, "body binary", "no meaning for a stream"),
        ({"subscribe": "t"}, "price double", "no column 'price'"),
        ({"subscribe": "t", "namesrv": "nowhere"}, "body binary", "namesrv 'nowhere' is not an address"),
    ],
)
def test_a_stream_that_cannot_be_says_why_when_it_is_asked(options: dict[str, str], schema: str, story: str) -> None:
    """Spark would hide an error that comes while it makes the reader behind one of its own."""
    reader: Any = RmqDataSource(options).streamReader(StructType().add(*schema.split()))
    for ask in (
        lambda: reader.getDefaultReadLimit(),
        lambda: reader.prepareForTriggerAvailableNow(),
        lambda: reader.initialOffset(),
        lambda: reader.latestOffset({}, None),
        lambda: reader.partitions({}, {}),
    ):
        with pytest.raises(InvalidArgument, match=story):
            ask()


def test_a_process_has_one_client_for_a_cluster() -> None:
    """The tasks of a worker share its connections, however often they ask."""
    assert shared.shared_client("127.0.0.1:1") is shared.shared_client("127.0.0.1:1")

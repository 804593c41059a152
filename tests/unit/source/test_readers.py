"""What Spark may do to a reader or writer before any of it runs: make it twice, and pickle it."""

from __future__ import annotations

import pickle
import socket
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

from rmqspark.client import shared
from rmqspark.datasource import RmqDataSource
from rmqspark.source.schema import default_schema

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


def test_a_process_has_one_client_for_a_cluster() -> None:
    """The tasks of a worker share its connections, however often they ask."""
    assert shared.shared_client("127.0.0.1:1") is shared.shared_client("127.0.0.1:1")

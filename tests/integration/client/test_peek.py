"""`rmqspark.peek` at a real cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import rmqspark
from rmqspark.errors import InvalidArgument, MissingExtra, TopicNotFound
from rmqspark.model import Message

if TYPE_CHECKING:
    from rmqspark.testing.rmq import Rmq

pytestmark = pytest.mark.integration


def test_the_newest_messages_as_a_frame(rmq: Rmq) -> None:
    """The last ones over all queues, oldest first, under the names of the Spark columns."""
    pytest.importorskip("pandas")
    rmq.create_topic("t", queues=3)
    rmq.send("t", *(b"%d" % number for number in range(20)), Message("t", b"\xff", tags="paid", keys=["a", "b"]))
    frame = rmqspark.peek("t", 4, namesrv=rmq.namesrv)
    assert len(frame) == 4
    newest = sorted(rmq.messages("t"), key=lambda message: (message.store_timestamp_ms, message.queue))[-4:]
    assert set(frame["msgId"]) == {message.msg_id for message in newest}
    assert frame["storeTimestamp"].is_monotonic_increasing
    assert str(frame["storeTimestamp"].dt.tz) == "UTC"
    odd = frame[frame["tags"] == "paid"].iloc[0]
    assert (odd["body"], odd["keys"]) == (b"\xff", "a b")
    assert len(rmqspark.peek("t", 100, namesrv=rmq.namesrv)) == 21


def test_a_topic_without_messages(rmq: Rmq) -> None:
    """An empty topic is an empty frame, one that is not there an error."""
    pytest.importorskip("pandas")
    rmq.create_topic("t")
    frame = rmqspark.peek("t", namesrv=rmq.namesrv)
    assert (len(frame), frame.columns[0]) == (0, "topic")
    with pytest.raises(TopicNotFound, match="'nowhere'"):
        rmqspark.peek("nowhere", namesrv=rmq.namesrv)
    with pytest.raises(InvalidArgument, match="1 or more"):
        rmqspark.peek("t", 0, namesrv=rmq.namesrv)


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which extra brings it."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"rmqspark\[spark\]"):
        rmqspark.peek("t")

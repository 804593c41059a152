"""`rmqspark.peek` at a real cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import rmqspark
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import ConnectionLost, InvalidArgument, MissingExtra, TopicNotFound
from rmqspark.model import Message, MessageQueue
from rmqspark.notebook import _tails
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    whole = rmqspark.peek("t", 100, namesrv=rmq.namesrv)
    assert len(whole) == 21
    odd = whole[whole["tags"] == "paid"].iloc[0]  # which need not be among the last: one millisecond may have them all
    assert (odd["body"], odd["keys"]) == (b"\xff", "a b")


def test_a_message_that_was_born_when_nobody_will_see_it(rmq: Rmq) -> None:
    """Its sender may have taken microseconds for milliseconds. The other messages are seen all the same."""
    pytest.importorskip("pandas")
    rmq.create_topic("odd")
    rmq.send("odd", b"before")
    header = SendMessageRequestHeaderV2(
        a="g", b="odd", c="TBW102", d=4, e=0, f=0, g=1_700_000_000_000_000, h=0, i="", j=0, k=False, m=False, n=""
    )
    with ClusterClient(rmq.namesrv) as client:
        (queue, *_) = client.publish_queues("odd")
        client.broker(queue.broker_name).submit_send(header, b"odd", timeout_ms=5_000).result().raise_for_code()
    frame = rmqspark.peek("odd", namesrv=rmq.namesrv)
    assert dict(zip(frame["body"], frame["bornTimestamp"].isna(), strict=True)) == {"before": False, "odd": True}


def test_a_topic_without_messages(rmq: Rmq) -> None:
    """An empty topic is an empty frame, one that is not there an error."""
    pytest.importorskip("pandas")
    rmq.create_topic("bare")
    frame = rmqspark.peek("bare", namesrv=rmq.namesrv)
    assert (len(frame), frame.columns[0]) == (0, "topic")
    with pytest.raises(TopicNotFound, match="'nowhere'"):
        rmqspark.peek("nowhere", namesrv=rmq.namesrv)
    with pytest.raises(InvalidArgument, match="1 or more"):
        rmqspark.peek("bare", 0, namesrv=rmq.namesrv)


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which extra brings it."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"rmqspark\[spark\]"):
        rmqspark.peek("t")


def test_a_broker_that_goes_away_meanwhile_is_an_error() -> None:
    """Its queue is not waited for without end because the others have been read."""

    class Consumer:
        """Two queues with a message each; the second one's broker has just gone."""

        def __init__(self) -> None:
            self.read = dict.fromkeys((MessageQueue("t", "a", 0), MessageQueue("t", "b", 0)), 0)
            self.assigned: list[MessageQueue] = []

        def queues(self, topic: str) -> list[MessageQueue]:
            return list(self.read)

        def min_offset(self, queue: MessageQueue) -> int:
            return 0

        def max_offset(self, queue: MessageQueue) -> int:
            return 1

        def assign(self, queues: Iterable[MessageQueue]) -> None:
            self.assigned = list(queues)

        def seek(self, queue: MessageQueue, queue_offset: int) -> None:
            self.read[queue] = queue_offset

        def position(self, queue: MessageQueue) -> int:
            return self.read[queue]

        def poll(self, timeout_ms: int) -> list[object]:
            works = [queue for queue in self.assigned if queue.broker_name == "a"]
            if not works:
                raise ConnectionLost("gone", address="b")
            self.read.update(dict.fromkeys(works, 1))
            return works

    found = _tails(Consumer(), "t", 5)  # type: ignore[arg-type]
    assert next(found) == MessageQueue("t", "a", 0)
    with pytest.raises(ConnectionLost):
        next(found)

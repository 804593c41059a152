"""How a task reads ranges of many queues, over a broker that does as the test says: each as if it were read alone."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.errors import (
    BodyError,
    ConnectionLost,
    DataLoss,
    NoPermission,
    RequestTimeout,
    RmqError,
    TopicNotFound,
    TopicRemade,
)
from rmqspark.model import MessageQueue
from rmqspark.protocol.bulk.topic_ranges import FoundRanges, TopicRange, decode_ranges, encode_found
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.remoting.response import Response
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.retry import RetryPolicy
from rmqspark.source.task_options import TaskOptions
from rmqspark.source.tasks.fetch_together import fetch_together
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.headers.bulk import TopicsReadRequestHeader

A, B, C = (MessageQueue(topic, "broker-a", 0) for topic in "abc")


def answered(fields: dict[str, str], body: bytes) -> Response:
    return Response(0, 1, None, 0, fields, memoryview(body))


class Broker:
    """Stands in for client and broker: queues a, b, c of [low, high), `step` messages an answer at most."""

    def __init__(self, *, step: int = 4, topics_read: int = 1) -> None:
        self.name, self.clock, self.step = "broker-a", ManualClock(), step
        self.able = Capabilities(bulk_read=2, topics_read=topics_read, store_id="mine")
        self.bounds = dict.fromkeys("abc", (0, 6))
        self.tags = dict.fromkeys("abc", "paid")
        self.deleted_ms = dict.fromkeys("abc", 0)
        self.gone: RmqError = TopicRemade("deleted since")
        self.damaged: set[tuple[str, int]] = set()
        self.failures: dict[int, RmqError] = {}  # by number of the request
        self.replaced: dict[int, str] = {}  # likewise: the store that is there from then on
        self.asked: list[list[tuple[str, int, int]]] = []
        self.bulk_reads = 0

    def broker(self, name: str) -> Broker:
        return self

    def capabilities(self) -> Capabilities:
        return self.able

    def submit(self, code: int, header: TopicsReadRequestHeader, body: bytes, **rest: object) -> Future[Response]:
        assert code == RequestCode.RMQ_TOPICS_READ
        ranges = decode_ranges(memoryview(body), header.ranges)
        self.asked.append([(wanted.topic, wanted.start, wanted.end) for wanted in ranges])
        self.able = self.able._replace(store_id=self.replaced.get(len(self.asked), self.able.store_id))
        answer: Future[Response] = Future()
        remade = [each for each in ranges if self.deleted_ms[each.topic] > (each.topic_deleted_ms or 0)]
        if remade and remade[0] == ranges[0]:
            answer.set_exception(self.gone)
            return answer
        ranges = ranges[: ranges.index(remade[0])] if remade else ranges
        if (error := self.failures.get(len(self.asked))) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(self.answer(ranges))
        return answer

    def answer(self, ranges: Sequence[TopicRange]) -> Response:
        left, rows, records = self.step, [], []
        for topic, _, start, end, _ in ranges:
            low, high = self.bounds[topic]
            offsets = range(start, max(start, min(end, high, start + left))) if start >= low else range(0)
            held = [self.record(topic, offset) for offset in offsets if (topic, offset) not in self.damaged]
            rows.append((max(low, start + len(offsets)), low, len(held)))
            records += held
            left -= len(offsets)
            if not left:
                break
        sizes = np.array([len(record) for record in records], np.int32)
        next_offsets, min_offsets, counts = np.array(rows, np.int64).T
        found = FoundRanges(next_offsets, min_offsets, counts, sizes, memoryview(b"".join(records)))
        fields = {"ranges": str(len(rows)), "count": str(len(records))}
        return answered(fields, b"".join(encode_found(found)))

    def record(self, topic: str, offset: int) -> bytes:
        properties = encode_properties({"TAGS": self.tags[topic]})
        place = {"queue_offset": offset, "physical_offset": 1_000 * offset}
        return bytes(encode_record(topic=topic, body=b"x", properties=properties, **place))

    def bulk_read(self, *_: object, **__: object) -> Future[Any]:
        """Nobody reads a queue alone here; it is enough to know that it was tried."""
        self.bulk_reads += 1
        raise NoPermission("one by one")


def read(broker: Broker, *wanted: QueueRange, tags: str | None = None, tolerant: bool = False) -> dict[str, list[int]]:
    """The offsets that were read, by topic."""
    options = TaskOptions(tags=tags, fail_on_data_loss=not tolerant, retry=RetryPolicy(2, 10))
    offsets: dict[str, list[int]] = {}
    for records in fetch_together(broker, wanted, options):  # type: ignore[arg-type]
        starts, lengths = records.topics
        for start, length, offset in zip(starts, lengths, records.queue_offsets.tolist(), strict=True):
            offsets.setdefault(records.buffer[start : start + length].tobytes().decode(), []).append(offset)
    return offsets


ALL = QueueRange(A, 0, 6), QueueRange(B, 1, 4), QueueRange(C, 5, 6)


@pytest.mark.parametrize("gone", [TopicRemade("deleted since"), TopicNotFound("b")])
def test_a_topic_that_was_deleted_meanwhile_is_not_read(gone: RmqError) -> None:
    """Its range is lost with the old topic, as failOnDataLoss says, and the others are read."""
    broker = Broker()
    broker.gone = gone
    broker.deleted_ms["b"] = 71
    named = [each._replace(topic_deleted_ms=70) for each in ALL]
    assert read(broker, *named, tolerant=True) == {"a": list(range(6)), "c": [5]}
    with pytest.raises(DataLoss, match="3 messages of queue b/broker-a/0, offsets 1 to 3, went with their topic"):
        read(broker, *named)
    broker.deleted_ms["b"] = 70
    assert read(broker, *named)["b"] == [1, 2, 3]


@pytest.mark.parametrize("answer", [None, TopicNotFound("a")])
def test_nothing_is_read_of_another_store(answer: RmqError | None) -> None:
    """The broker comes back with it between two requests: what was not read by then is lost with the old one."""
    broker, named = Broker(), [each._replace(store_id="mine") for each in ALL]
    broker.replaced[2] = "others'"
    broker.failures = {2: answer} if answer else {}
    assert read(broker, *named, tolerant=True) == {"a": [0, 1, 2, 3]}
    with pytest.raises(DataLoss, match="6 messages of queue a/broker-a/0, offsets 0 to 5, went with the store"):
        read(broker, *named)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 6, 7, 99])
def test_ranges_are_read_exactly(step: int) -> None:
    """Each offset once and in order, whatever an answer has room for."""
    broker = Broker(step=step)
    assert read(broker, *ALL) == {"a": list(range(6)), "b": [1, 2, 3], "c": [5]}
    assert len(broker.asked) == -(-10 // step)


def test_what_is_left_is_asked_for_ahead() -> None:
    """From where the last answer ended, while it is used."""
    broker = Broker()
    batches = fetch_together(broker, ALL, TaskOptions())  # type: ignore[arg-type]
    next(batches)
    assert broker.asked == [[("a", 0, 6), ("b", 1, 4), ("c", 5, 6)], [("a", 4, 6), ("b", 1, 4), ("c", 5, 6)]]


@pytest.mark.parametrize("error", [ConnectionLost("cut", address="a"), RequestTimeout("late")])
def test_a_request_that_fails_is_made_again(error: RmqError) -> None:
    """The same ranges again, after a pause; nothing is read twice."""
    broker = Broker()
    broker.failures = {2: error}
    assert read(broker, *ALL) == {"a": list(range(6)), "b": [1, 2, 3], "c": [5]}
    assert broker.asked[1] == broker.asked[2]


def test_retries_end_and_refusals_are_final() -> None:
    """As where one queue is read."""
    for error, requests in ((RequestTimeout("late"), 3), (NoPermission("no"), 1)):
        broker = Broker()
        broker.failures = dict.fromkeys(range(1, 9), error)
        with pytest.raises(type(error)):
            read(broker, *ALL)
        assert len(broker.asked) == requests


@pytest.mark.parametrize(
    ("bounds", "story", "rest"),
    [
        ((3, 6), r"2 messages of queue b/broker-a/0, offsets 1 to 2, were removed before they were read", [3]),
        ((9, 9), r"3 messages of queue b/broker-a/0, offsets 1 to 3, were removed before they were read", None),
        ((0, 3), r"1 message of queue b/broker-a/0, offset 3, is not there: the queue ends before it", [1, 2]),
        ((0, 0), r"3 messages of queue b/broker-a/0, offsets 1 to 3, are not there: the queue ends before", None),
    ],
)
@pytest.mark.parametrize("step", [1, 4, 99])
def test_messages_that_are_gone(
    bounds: tuple[int, int], story: str, rest: list[int] | None, step: int, caplog: pytest.LogCaptureFixture
) -> None:
    """An error that names queue and offsets; or a warning, and the rest of all ranges is read."""
    broker = Broker(step=step)
    broker.bounds["b"] = bounds
    with pytest.raises(DataLoss, match=story):
        read(broker, *ALL)
    with caplog.at_level(logging.WARNING):
        offsets = read(broker, *ALL, tolerant=True)
    assert offsets == {"a": list(range(6)), "c": [5]} | ({"b": rest} if rest else {})
    assert caplog.text.count(" of queue b/broker-a/0") == 1


def test_messages_that_the_broker_steps_over(caplog: pytest.LogCaptureFixture) -> None:
    """Damaged records are counted for the range that they are of; where a filter is asked for, nobody can tell."""
    broker = Broker(step=99)
    broker.damaged = {("b", 2), ("b", 3)}
    with pytest.raises(DataLoss, match=r"2 messages of queue b/broker-a/0, among offsets 1 to 3, are damaged or gone"):
        read(broker, *ALL)
    with caplog.at_level(logging.WARNING):
        assert read(broker, *ALL, tolerant=True)["b"] == [1]
    assert "2 messages of queue b/broker-a/0" in caplog.text
    assert read(broker, *ALL, tags="paid")["b"] == [1]


def test_tags_are_tested_exactly() -> None:
    """Two tags with one hash are told apart: "AaAa" and "BBBB" have the same in Java."""
    broker = Broker()
    broker.tags = {"a": "AaAa", "b": "BBBB", "c": "AaAa"}
    assert read(broker, *ALL, tags="AaAa") == {"a": list(range(6)), "c": [5]}
    assert read(broker, *ALL, tags="*") == read(Broker(), *ALL)


@pytest.mark.parametrize(("wanted", "topics_read", "sql"), [(ALL, 0, None), (ALL, 1, "a > 3"), (ALL[:1], 1, None)])
def test_who_is_asked_queue_by_queue(wanted: Sequence[QueueRange], topics_read: int, sql: str | None) -> None:
    """Brokers that know no other way, readers of one queue, and expressions."""
    broker = Broker(topics_read=topics_read)
    with pytest.raises(NoPermission):
        list(fetch_together(broker, wanted, TaskOptions(sql=sql)))  # type: ignore[arg-type]
    assert (broker.asked, broker.bulk_reads) == ([], 1)


@pytest.mark.parametrize(("ranges", "count"), [("0", "0"), ("4", "0"), ("3", "1"), ("-1", "0")])
def test_answers_that_cannot_be(ranges: str, count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that answers about no range, or more than it was asked for, is an error and not asked for ever."""
    broker = Broker()
    monkeypatch.setattr(broker, "answer", lambda _: answered({"ranges": ranges, "count": count}, bytes(40)))
    with pytest.raises(BodyError):
        read(broker, *ALL)


def test_very_many_ranges() -> None:
    """More than a request may have are asked for in several."""
    broker = Broker(step=10_000)
    wanted = [QueueRange(A, 0, 2)] * 2_500
    assert read(broker, *wanted) == {"a": [0, 1] * 2_500}
    assert [len(asked) for asked in broker.asked] == [1_000, 1_000, 500]

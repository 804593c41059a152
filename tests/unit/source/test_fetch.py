"""How a task reads its range, over a broker that does as the test says."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rmqspark.client.cluster.bulk import BulkChunk
from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.cluster.pull_request import PullResult, PullStatus
from rmqspark.errors import (
    BrokerNotRegistered,
    ConnectionLost,
    DataLoss,
    NoPermission,
    OffsetMoved,
    RequestTimeout,
    RmqError,
    TopicNotFound,
    TopicRemade,
    Unreachable,
)
from rmqspark.model import MessageQueue
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.retry import RetryPolicy
from rmqspark.source.task_options import TaskOptions
from rmqspark.source.tasks.fetch import fetch
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = MessageQueue("t", "broker-a", 0)


def record(offset: int, tags: str = "paid") -> bytes:
    properties = encode_properties({"TAGS": tags})
    return bytes(encode_record(topic="t", body=b"%d" % offset, properties=properties, queue_offset=offset))


class Queue:
    """Stands in for client and broker: one queue [low, high), asked in chunks of at most `step` messages."""

    def __init__(self, low: int, high: int, step: int = 3, *, bulk: int = 2) -> None:
        self.low, self.high, self.step, self.bulk = low, high, step, bulk
        self.filters: list[tuple[str, object]] = []  # of each request: its kind, the expression that came with it
        self.named: list[object] = []  # of each request: which topic of the name is meant
        self.clock = ManualClock()
        self.name, self.store_id = "broker-a", "mine"
        self.replaced: dict[int, str] = {}  # by number of the request: the store that is there from then on
        self.asked: list[int] = []
        self.failures: dict[int, list[RmqError]] = {}  # by number of the request
        self.away: list[RmqError] = []  # what looking for the broker ends in, before it is there
        self.tags_of: Callable[[int], str] = lambda offset: "paid"
        self.damaged: set[int] = set()  # offsets that the broker steps over

    def broker(self, name: str) -> Queue:
        return self

    def capabilities(self) -> Capabilities:
        if self.away:
            raise self.away.pop()
        return Capabilities(bulk_read=self.bulk, store_id=self.store_id)

    def _offsets(self, at: int, end: int) -> range:
        self.asked.append(at)
        self.store_id = self.replaced.get(len(self.asked), self.store_id)
        failure = self.failures.get(len(self.asked))
        if failure:
            raise failure.pop()
        return range(at, max(at, min(at + self.step, end, self.high)))

    def bulk_read(self, topic: str, queue_id: int, at: int, end: int, **rest: object) -> Future[BulkChunk]:
        self.filters.append(("bulk", rest["sql"]))
        self.named.append(rest["topic_deleted_ms"])

        def chunk() -> BulkChunk:
            offsets = self._offsets(at, end)
            if at < self.low:
                raise OffsetMoved("gone", next_offset=self.low)
            records = [record(offset, self.tags_of(offset)) for offset in offsets if offset not in self.damaged]
            sizes = np.array([len(one) for one in records], np.int32)
            return BulkChunk(at + len(offsets), self.low, self.high, sizes, memoryview(b"".join(records)))

        return settled(chunk)

    def submit_pull(self, queue: MessageQueue, at: int, *, max_count: int, **rest: object) -> Future[PullResult]:
        self.filters.append(("pull", rest["sql"]))

        def pulled() -> PullResult:
            if not self.low <= at <= self.high:
                return PullResult(PullStatus.OFFSET_MOVED, self.low, self.low, self.high, b"", "")
            offsets = self._offsets(at, self.high)
            records = b"".join(record(offset, self.tags_of(offset)) for offset in offsets)
            status = PullStatus.FOUND if offsets else PullStatus.NO_NEW
            return PullResult(status, at + len(offsets), self.low, self.high, records, "")

        return settled(pulled)


@pytest.mark.parametrize(
    ("version", "sql", "kind"),
    [(2, "a > 3", "bulk"), (1, "a > 3", "pull"), (0, "a > 3", "pull"), (1, None, "bulk"), (0, None, "pull")],
)
def test_expressions_travel_with_requests_that_know_them(version: int, sql: str | None, kind: str) -> None:
    """A broker whose bulk reads know no SQL92 is asked by pulls, which it answers or refuses."""
    queue = Queue(0, 2, bulk=version)
    options = TaskOptions(sql=sql)
    assert [len(records) for records in fetch(queue, QueueRange(QUEUE, 0, 2), options)] == [2]  # type: ignore[arg-type]
    assert queue.filters == [(kind, sql)]


def settled(make: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(make())
    except RmqError as error:
        future.set_exception(error)
    return future


def read(queue: Queue, start: int, end: int, *, tags: str | None = None, tolerant: bool = False) -> list[int]:
    options = TaskOptions(tags=tags, fail_on_data_loss=not tolerant, retry=RetryPolicy(2, 10))
    batches = fetch(queue, QueueRange(QUEUE, start, end), options)  # type: ignore[arg-type]
    return [offset for records in batches for offset in records.queue_offsets.tolist()]


@pytest.mark.parametrize("bulk", [2, 1, 0])
def test_a_range_is_read_exactly(bulk: int) -> None:
    """A task reads its offsets, each once and in order, from our brokers and from stock ones."""
    assert read(Queue(0, 20, bulk=bulk), 4, 15) == list(range(4, 15))


@pytest.mark.parametrize("gone", [TopicRemade("deleted since"), TopicNotFound("t")])
def test_a_topic_that_was_deleted_meanwhile_is_not_read(gone: RmqError, caplog: pytest.LogCaptureFixture) -> None:
    """Where it was made anew, its messages have the offsets of the old one's. What was read before is the task's, all
    else is lost with the old topic, as failOnDataLoss says."""
    queue, options = Queue(0, 9), TaskOptions(fail_on_data_loss=False)
    queue.failures[2] = [gone]
    batches = list(fetch(queue, QueueRange(QUEUE, 0, 9, 70), options))  # type: ignore[arg-type]
    assert [records.queue_offsets.tolist() for records in batches] == [[0, 1, 2]]
    assert queue.named == [70, 70]
    assert "6 messages of queue t/broker-a/0, offsets 3 to 8, went with their topic" in caplog.text
    queue.failures[3] = [gone]
    with pytest.raises(DataLoss, match="9 messages of queue t/broker-a/0, offsets 0 to 8, went with their topic"):
        list(fetch(queue, QueueRange(QUEUE, 0, 9, 70), TaskOptions()))  # type: ignore[arg-type]


@pytest.mark.parametrize("now", ["others'", ""])
@pytest.mark.parametrize("bulk", [2, 0])
@pytest.mark.parametrize("answer", [None, TopicNotFound("t"), OffsetMoved("gone", next_offset=9)])
def test_nothing_is_read_of_another_store(
    bulk: int, now: str, answer: RmqError | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker comes back with it while a task reads, or is a stock one then. What was read before is the task's, all
    else is lost with the old store, as failOnDataLoss says, whatever the new one answers."""
    queue, options = Queue(0, 9, bulk=bulk), TaskOptions(fail_on_data_loss=False)
    queue.replaced[2] = now
    queue.failures[2] = [answer] if answer else []
    batches = list(fetch(queue, QueueRange(QUEUE, 0, 9, store_id="mine"), options))  # type: ignore[arg-type]
    assert [records.queue_offsets.tolist() for records in batches] == [[0, 1, 2]]
    assert "6 messages of queue t/broker-a/0, offsets 3 to 8, went with the store" in caplog.text
    with pytest.raises(DataLoss, match="9 messages of queue t/broker-a/0, offsets 0 to 8, went with the store"):
        list(fetch(queue, QueueRange(QUEUE, 0, 9, store_id="mine"), TaskOptions()))  # type: ignore[arg-type]


def test_the_next_chunk_is_under_way_while_one_is_used() -> None:
    """Broker and task work at the same time."""
    queue = Queue(0, 9)
    batches = fetch(queue, QueueRange(QUEUE, 0, 9), TaskOptions())  # type: ignore[arg-type]
    next(batches)
    assert queue.asked == [0, 3]


@pytest.mark.parametrize("error", [ConnectionLost("cut", address="a"), RequestTimeout("late")])
def test_a_request_that_fails_is_made_again(error: RmqError) -> None:
    """A cut connection or a slow broker costs a pause, not the query."""
    queue = Queue(0, 9)
    queue.failures = {2: [error]}
    assert read(queue, 0, 9) == list(range(9))
    assert queue.asked == [0, 3, 3, 6]


def test_a_broker_that_nobody_has_registered_yet() -> None:
    """It was there when the read was planned, so it is waited for; a task's fresh process knows no address of it."""
    queue = Queue(0, 9)
    queue.away = [BrokerNotRegistered("Broker 'broker-a' is not registered."), Unreachable("nobody", address="a")]
    assert read(queue, 0, 9) == list(range(9))
    queue.away = [BrokerNotRegistered("Broker 'broker-a' is not registered.")] * 3
    with pytest.raises(BrokerNotRegistered):
        read(queue, 0, 9)


def test_retries_end() -> None:
    """A broker that stays away ends the task with its own error."""
    queue = Queue(0, 9)
    queue.failures = {number: [RequestTimeout("late")] for number in range(2, 9)}
    with pytest.raises(RequestTimeout):
        read(queue, 0, 9)
    assert queue.asked == [0, 3, 3, 3]


def test_what_no_retry_mends_is_raised_at_once() -> None:
    """A refusal is not asked for again."""
    queue = Queue(0, 9)
    queue.failures = {1: [NoPermission("no")]}
    with pytest.raises(NoPermission):
        read(queue, 0, 9)
    assert queue.asked == [0]


@pytest.mark.parametrize("bulk", [2, 1, 0])
def test_expired_messages(bulk: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Messages that retention removed are an error that counts them; or a counted gap, and the rest is read."""
    with pytest.raises(DataLoss, match=r"5 messages of queue t/broker-a/0, offsets 2 to 6, were removed"):
        read(Queue(7, 20, bulk=bulk), 2, 10)
    with caplog.at_level(logging.WARNING):
        assert read(Queue(7, 20, bulk=bulk), 2, 10, tolerant=True) == [7, 8, 9]
    assert "5 messages of queue t/broker-a/0, offsets 2 to 6" in caplog.text


def test_a_range_that_expired_completely() -> None:
    """Nothing but the gap is reported where all of a range is gone."""
    with pytest.raises(DataLoss, match="8 messages"):
        read(Queue(30, 40), 2, 10)
    assert read(Queue(30, 40), 2, 10, tolerant=True) == []


@pytest.mark.parametrize("bulk", [2, 1, 0])
def test_a_queue_that_ends_early(bulk: int) -> None:
    """Messages that were planned and are not there do not keep a task asking for ever."""
    with pytest.raises(DataLoss, match=r"4 messages .*, offsets 6 to 9, are not there"):
        read(Queue(0, 6, bulk=bulk), 0, 10)
    assert read(Queue(0, 6, bulk=bulk), 0, 10, tolerant=True) == list(range(6))


def test_messages_that_the_broker_steps_over(caplog: pytest.LogCaptureFixture) -> None:
    """Records that are damaged in the broker's store are no less lost than those that expired: an error that counts
    them, or a counted gap."""
    queue = Queue(0, 9)
    queue.damaged = {4, 5}
    with pytest.raises(DataLoss, match=r"2 messages of queue t/broker-a/0, among offsets 3 to 5, are damaged or gone"):
        read(queue, 0, 9)
    with caplog.at_level(logging.WARNING):
        assert read(queue, 0, 9, tolerant=True) == [0, 1, 2, 3, 6, 7, 8]
    assert "2 messages of queue t/broker-a/0, among offsets 3 to 5" in caplog.text
    queue.damaged = set(range(9))
    with pytest.raises(DataLoss, match="3 messages"):
        read(queue, 0, 9)


def test_a_filter_hides_what_the_broker_steps_over() -> None:
    """What a broker passes over may not match or may be damaged: nobody can tell, and it is no error."""
    queue = Queue(0, 6)
    queue.damaged = {4}
    assert read(queue, 0, 6, tags="paid") == [0, 1, 2, 3, 5]
    with pytest.raises(DataLoss):
        read(queue, 0, 6, tags="*")


def test_a_queue_that_began_anew_below(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that wants reading to go on further ahead has lost the rest of the range, which is counted once."""
    queue = Queue(0, 9)
    queue.failures = {2: [OffsetMoved("anew", next_offset=1)]}
    with pytest.raises(DataLoss, match=r"6 messages .*, offsets 3 to 8, are not there"):
        read(queue, 0, 9)
    queue.asked.clear()
    queue.failures = {2: [OffsetMoved("anew", next_offset=1)]}
    with caplog.at_level(logging.WARNING):
        assert read(queue, 0, 9, tolerant=True) == [0, 1, 2]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("bulk", [2, 1, 0])
def test_tags_are_tested_exactly(bulk: int) -> None:
    """Two tags with one hash are told apart: "AaAa" and "BBBB" have the same in Java."""
    queue = Queue(0, 8, bulk=bulk)
    queue.tags_of = lambda offset: "AaAa" if offset % 2 else "BBBB"
    assert read(queue, 0, 8, tags="AaAa") == [1, 3, 5, 7]
    assert read(queue, 0, 8, tags="AaAa || BBBB || ä") == list(range(8))
    assert read(queue, 0, 8, tags="*") == list(range(8))

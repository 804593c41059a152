"""Bulk sends on their way, over brokers that do as the test says."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from zlib_ng.zlib_ng import crc32

from rmqspark.client.cluster.bulk import BulkReceipt
from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.errors import ConnectionLost, NotWritable, RequestTimeout, RmqError, TopicNotFound, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_body import read_bulk
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.row_properties import RowProperties
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.record_builder import EncodedRecords
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.sink.sends.bulk_send import BulkSend
from rmqspark.sink.sends.outbox import UNACKNOWLEDGED, Outbox
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

A0, A1, A2, B0 = (MessageQueue("t", *place) for place in (("a", 0), ("a", 1), ("a", 2), ("b", 0)))


class Cluster:
    """Stands in for the client: notes every send; the test acknowledges it or lets it fail."""

    def __init__(self, *failures: RmqError | None, version: int = 2, answers_after_ms: int = 0) -> None:
        self.version = version
        self.answers_after_ms = answers_after_ms
        self.left_out: list[str] = []
        self.outages = SimpleNamespace(add=self.left_out.append)
        self.clock = ManualClock()
        self.failures = list(failures)
        self.sent: list[tuple[int, bytes, int, int]] = []
        self.most_under_way = 0
        self.under_way = 0

    def broker(self, name: str) -> Cluster:
        return self

    def capabilities(self) -> Capabilities:
        return Capabilities(bulk_send=self.version)

    def bulk_send(
        self, topic: str, queue_id: int, parts: Sequence[memoryview], rows: int, record_size: int, crc: int, **_: object
    ) -> Future[BulkReceipt]:
        body = b"".join(parts)
        assert crc == crc32(body)
        self.sent.append((queue_id, body, rows, record_size))
        failure = self.failures.pop(0) if self.failures else None
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        return Acknowledgement(self, failure)


class Acknowledgement(Future[BulkReceipt]):
    """Comes when it is waited for."""

    def __init__(self, cluster: Cluster, failure: RmqError | None) -> None:
        super().__init__()
        self._cluster, self._failure = cluster, failure

    def result(self, timeout: float | None = None) -> BulkReceipt:
        self._cluster.under_way -= 1
        self._cluster.clock.advance(ms=self._cluster.answers_after_ms)
        if self._failure is not None:
            raise self._failure
        return BulkReceipt(0, 0, 1, 0)


def records(*values: bytes) -> EncodedRecords:
    return EncodedRecords(
        np.frombuffer(bytearray(b"".join(values)), np.uint8), np.array([len(value) for value in values], np.int32)
    )


def test_equal_and_unequal_records() -> None:
    """Records of one size go as they are; before others stand their sizes."""
    cluster = Cluster()
    outbox = Outbox(cluster, BulkSend.of)  # type: ignore[arg-type]
    outbox.send(A0, records(b"aa", b"bb"))
    outbox.send(A1, records(b"a", b"bbb"))
    outbox.flush()
    assert cluster.sent == [(0, b"aabb", 2, 2), (1, b"\0\0\0\1\0\0\0\3abbb", 2, 0)]


def test_no_more_than_two_under_way_to_a_broker_and_one_to_a_queue() -> None:
    """Memory is bounded and a queue's rows stay in order."""
    cluster = Cluster()
    outbox = Outbox(cluster, BulkSend.of)  # type: ignore[arg-type]
    for queue in (A0, A1, A2, A0, A1):
        outbox.send(queue, records(b"x"))
    assert cluster.most_under_way == UNACKNOWLEDGED
    outbox.flush()
    assert cluster.under_way == 0
    for _ in range(3):
        outbox.send(A0, records(b"x"))
        assert cluster.under_way == 1


def test_a_send_that_fails_is_made_again_before_the_next_to_its_queue() -> None:
    """A broker that restarts costs a pause; the rows arrive in their order."""
    cluster = Cluster(ConnectionLost("cut", address="a"), NotWritable("not now"))
    outbox = Outbox(cluster, BulkSend.of)  # type: ignore[arg-type]
    outbox.send(A0, records(b"1"))
    outbox.send(A0, records(b"2"))
    outbox.flush()
    assert [body for _, body, _, _ in cluster.sent] == [b"1", b"1", b"1", b"2"]


@pytest.mark.parametrize(
    ("error", "left_out"),
    [(Unreachable("gone", address="a"), ["a"]), (NotWritable("not now"), [])],
    ids=["away", "full"],
)
def test_retries_end(error: RmqError, left_out: list[str]) -> None:
    """A broker that stays away for a minute ends the task with its own error, and nothing is said to be written. The
    next task of this process knows, unless it was the broker that said no."""
    cluster = Cluster(*[error] * 50)
    begun_ms = cluster.clock.monotonic_ms()
    outbox = Outbox(cluster, BulkSend.of)  # type: ignore[arg-type]
    outbox.send(A0, records(b"1"))
    with pytest.raises(type(error)):
        outbox.flush()
    assert 60_000 <= cluster.clock.monotonic_ms() - begun_ms < 64_000
    assert cluster.left_out == left_out


def test_a_broker_that_answers_nothing_is_waited_for_a_minute() -> None:
    """Not for as many tries as one that is restarting, each of which takes half a minute."""
    cluster = Cluster(*[RequestTimeout("No answer.")] * 20, answers_after_ms=30_000)
    begun_ms = cluster.clock.monotonic_ms()
    outbox = Outbox(cluster, BulkSend.of)  # type: ignore[arg-type]
    outbox.send(A0, records(b"1"))
    with pytest.raises(RequestTimeout):
        outbox.flush()
    assert cluster.clock.monotonic_ms() - begun_ms < 120_000
    assert cluster.left_out == ["a"]


def test_what_no_retry_mends_is_raised_at_once() -> None:
    """A refusal ends the task."""
    cluster = Cluster(TopicNotFound("t"))
    outbox = Outbox(cluster, BulkSend.of)  # type: ignore[arg-type]
    outbox.send(A0, records(b"1"))
    with pytest.raises(TopicNotFound):
        outbox.send(A0, records(b"2"))
    assert len(cluster.sent) == 1


def test_memory_is_used_again() -> None:
    """A buffer whose send is acknowledged is there for the next one, in full."""
    cluster = Cluster()
    outbox = Outbox(cluster, BulkSend.of)  # type: ignore[arg-type]
    assert outbox.buffer() is None
    memory = np.zeros(64, np.uint8)
    outbox.send(B0, EncodedRecords(memory[:8], np.array([8], np.int32)))
    assert outbox.buffer() is None
    outbox.flush()
    assert outbox.buffer() is memory


@pytest.mark.parametrize("version", [1, 2])
def test_rows_with_keys_for_brokers_of_any_version(version: int) -> None:
    """A broker that knows no columns gets the records that another one would make of them."""
    bodies, keys = Column.constant(b"body", 2), Column(np.frombuffer(b"kkk", np.uint8), np.array([0, 1, 3]))
    crcs, properties = body_crcs(bodies.values, bodies.spans()), RowProperties.of(2, keys=keys)
    rows = BulkRows(5, bytes(8), 0, IdRange("0" * 20, 0), crcs, bodies, properties)
    cluster = Cluster(version=version)
    outbox = Outbox(cluster, BulkSend.of)  # type: ignore[arg-type]
    outbox.send(A0, rows)
    outbox.flush()
    ((_, body, count, record_size),) = cluster.sent
    bulk = read_bulk(memoryview(body), count, record_size)
    assert isinstance(bulk, BulkRows) == (version == 2)
    made = bulk.records(A0.topic, A0.queue_id).buffer if isinstance(bulk, BulkRows) else bulk.buffer
    assert made.tobytes() == rows.records(A0.topic, A0.queue_id).buffer.tobytes()

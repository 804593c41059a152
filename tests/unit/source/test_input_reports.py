"""What a read task tells the broker about its range."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.broker_client import Capabilities
from rmqspark.errors import ServerFault
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies import BrokerData, ClusterInfo, InputRange, InputRanges
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.response import Response
from rmqspark.source.offsets import Offsets
from rmqspark.source.partitions import Holder, QueueLease
from rmqspark.source.planner import QueueRange
from rmqspark.source.report import report, report_batch, tell
from rmqspark.streaming_batch import StreamingBatch, streaming_batch
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from rmqspark.protocol.headers import TxnReportInputRequestHeader

READ = [QueueRange(MessageQueue("orders", "broker-b", queue_id), 10, 20) for queue_id in (3, 4)]
BILLING, NOBODY = [QueueLease("billing", "", 0)] * 2, [QueueLease("", "", 0)] * 2
BATCH = StreamingBatch("q", 5, "run-1")


class Cluster:
    """One broker that notes what it is told."""

    namesrv = "ns:1"

    def __init__(self, code: int = 0, transactions: int = 1) -> None:
        self.code = code
        self.clock = ManualClock()
        self.able = Capabilities(transactions=transactions)
        self.told: list[tuple[str, int, list[InputRange]]] = []

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(brokerAddrTable={"a": BrokerData(brokerName="a", brokerAddrs={0: "h:1"})})

    def broker(self, name: str) -> Cluster:
        return self

    def capabilities(self) -> Capabilities:
        return self.able

    def submit(
        self, code: RequestCode, header: TxnReportInputRequestHeader, body: bytes, *, timeout_ms: int
    ) -> Future[Response]:
        assert code == RequestCode.RMQ_TXN_REPORT_INPUT
        self.told.append((header.queryId, header.batchId, InputRanges.decode(body).inputs))
        answer: Future[Response] = Future()
        answer.set_result(Response(self.code, 1, "no", 479, {}, b""))
        return answer


class Task:
    """Spark's task context, as far as it matters."""

    def __init__(self, **properties: str) -> None:
        self._properties = properties

    def getLocalProperty(self, key: str) -> str | None:
        return self._properties.get(key.replace(".", "_"))


def test_one_small_request_a_task() -> None:
    """Query, batch, queue, from, to, and the group whose offsets are to move."""
    cluster: Any = Cluster()
    report_batch(cluster, BATCH, READ, BILLING)
    pieces = [InputRange("billing", "orders", "broker-b", queue_id, 10, 20, topicEpoch=0) for queue_id in (3, 4)]
    assert cluster.told == [("q", 5, pieces)]


def test_a_member_of_a_shared_group_tells_its_lease() -> None:
    """And the run: what a later run of the batch leaves out is not among its inputs."""
    cluster: Any = Cluster()
    report_batch(cluster, BATCH, READ[:1], [QueueLease("billing", "me", 7)])
    ((_, _, (piece,)),) = cluster.told
    assert (piece.member, piece.lease, piece.run) == ("me", 7, "run-1")


def test_a_topic_that_is_read_from_elsewhere_is_told_by_its_epoch() -> None:
    """An audit then knows that what comes twice, or not at all, was wanted so."""
    cluster: Any = Cluster()
    end = Offsets("billing", epochs={"orders": 2})
    report_batch(cluster, BATCH, READ[:1], Holder(end.group, epochs=end.epochs).of(READ[:1]))
    ((_, _, (piece,)),) = cluster.told
    assert (piece.topicEpoch, piece.lease) == (2, None)


def test_what_cannot_be_told() -> None:
    """A stock broker is told nothing; a refusal is an error here, and a warning to the task."""
    stock: Any = Cluster(transactions=0)
    report_batch(stock, BATCH, READ, NOBODY)
    assert stock.told == []
    refusing: Any = Cluster(code=1)
    with pytest.raises(ServerFault):
        report_batch(refusing, BATCH, READ, NOBODY)


def test_a_lease_is_not_read_under_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    """A task that could not say what it reads goes on with a warning, and fails where the group is shared."""
    refusing: Any = Cluster(code=1)
    tell(refusing, BATCH, READ, BILLING)
    assert "offsets 10 to 20 of orders/broker-b/3" in caplog.text
    with pytest.raises(ServerFault):
        tell(refusing, BATCH, READ[:1], [QueueLease("billing", "me", 7)])


def test_outside_of_a_micro_batch_nothing_is_reported() -> None:
    """A batch query has no batch to report, and Spark's properties say so."""
    cluster: Any = Cluster()
    report(cluster, READ, BILLING)
    assert cluster.told == []
    assert streaming_batch(Task()) is None
    assert streaming_batch(Task(sql_streaming_queryId="q")) is None
    inside = Task(sql_streaming_queryId="q", streaming_sql_batchId="5", spark_jobGroup_id="run-1")
    assert streaming_batch(inside) == BATCH

"""What a read task tells brokers about its ranges."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.cluster.patience import STREAM_PATIENCE_MS
from rmqspark.errors import BrokerNotRegistered, RmqError, ServerFault, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo
from rmqspark.protocol.bodies.txn import InputRange, InputRanges
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.names import check_transactional
from rmqspark.remoting.response import Response
from rmqspark.source.offsets import Offsets
from rmqspark.source.partitions import Holder, QueueLease
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.retry import RetryPolicy
from rmqspark.source.tasks.report import report, tell
from rmqspark.streaming_batch import StreamingBatch, streaming_batch
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from rmqspark.protocol.headers.txn import TxnReportInputRequestHeader

READ = [QueueRange(MessageQueue("orders", "broker-b", queue_id), 10, 20, 7) for queue_id in (3, 4)]
BILLING, NOBODY = [QueueLease("billing", "", 0)] * 2, [QueueLease("", "", 0)] * 2
BATCH = StreamingBatch("q", 5, "run-1")


AWAY = Unreachable("Nobody is there.", address="h:1")


class Broker:
    """Notes what it is told, and answers with `code`; or cannot be reached."""

    def __init__(self, name: str, code: int, able: Capabilities, away: RmqError | None) -> None:
        self.name = name
        self._code = code
        self._able = able
        self._away = away
        self.told: list[tuple[str, int, list[InputRange]]] = []
        self.asked = 0

    def capabilities(self) -> Capabilities:
        self.asked += 1
        if self._away is not None:
            raise self._away
        return self._able

    def submit(
        self, code: RequestCode, header: TxnReportInputRequestHeader, body: bytes, *, timeout_ms: int
    ) -> Future[Response]:
        assert code == RequestCode.RMQ_TXN_REPORT_INPUT
        self.told.append((header.queryId, header.batchId, InputRanges.decode(body).inputs))
        answer: Future[Response] = Future()
        answer.set_result(Response(self._code, 1, "no", 479, {}, b""))
        return answer


class Cluster:
    """Brokers by name, those that are away with the error that asking them ends in."""

    namesrv = "ns:1"

    def __init__(self, *names: str, code: int = 0, transactions: int = 1, slave: str = "", **away: RmqError) -> None:
        self.clock = ManualClock()
        self.registered = set(names or ("broker-b",))
        self.brokers = {
            name: Broker(
                name,
                code,
                Capabilities(transactions=transactions, is_slave=name == slave),
                away.get(name.replace("-", "_")),
            )
            for name in self.registered | {"broker-b"}
        }

    @property
    def told(self) -> dict[str, list[tuple[str, int, list[InputRange]]]]:
        return {name: broker.told for name, broker in self.brokers.items() if broker.told}

    def cluster_info(self) -> ClusterInfo:
        if not self.registered:
            raise AWAY
        return ClusterInfo(
            brokerAddrTable={name: BrokerData(brokerName=name, brokerAddrs={0: "h:1"}) for name in self.registered}
        )

    def broker(self, name: str) -> Broker:
        return self.brokers[name]


class Task:
    """Spark's task context, as far as it matters."""

    def __init__(self, **properties: str) -> None:
        self._properties = properties

    def getLocalProperty(self, key: str) -> str | None:
        return self._properties.get(key.replace(".", "_"))


def pieces(group: str = "billing") -> list[InputRange]:
    return [
        InputRange(group, "orders", "broker-b", queue_id, 10, 20, topicEpoch=0, topicDeleted=7) for queue_id in (3, 4)
    ]


def test_one_small_request_a_task() -> None:
    """Query, batch, queue, from, to, and the group whose offsets are to move."""
    cluster: Any = Cluster()
    tell(cluster, BATCH, READ, BILLING)
    assert cluster.told == {"broker-b": [("q", 5, pieces())]}


def test_two_brokers_are_told() -> None:
    """The one that is read from, and another: always the same one, as long as the same brokers are there."""
    for names in (("broker-a", "broker-b"), ("broker-a", "broker-b", "broker-c", "broker-d")):
        clusters: list[Any] = [Cluster(*names), Cluster(*reversed(names))]
        for cluster in clusters:
            tell(cluster, BATCH, READ, BILLING)
            assert len(cluster.told) == 2
            assert all(told == [("q", 5, pieces())] for told in cluster.told.values())
            assert "broker-b" in cluster.told
        assert clusters[0].told == clusters[1].told


def test_those_that_are_silent_are_not_told_where_others_are() -> None:
    """The driver waited for them in vain; a task would for as long. Where nobody else is, it is tried all the same."""
    cluster: Any = Cluster("broker-a", "broker-b")
    tell(cluster, BATCH, READ, BILLING, frozenset({"broker-a"}))
    assert list(cluster.told) == ["broker-b"]
    assert cluster.brokers["broker-a"].asked == 0
    tell(cluster, BATCH, READ, BILLING, frozenset({"broker-a", "broker-b"}))
    assert set(cluster.told) == {"broker-a", "broker-b"}


@pytest.mark.parametrize("error", [AWAY, BrokerNotRegistered("Broker 'x' is not registered.")])
@pytest.mark.parametrize("away", ["broker-a", "broker-b"])
def test_one_of_them_is_enough(away: str, error: RmqError, caplog: pytest.LogCaptureFixture) -> None:
    """Either may be away: it is tried for some seconds, and no warning says that a record has a gap."""
    cluster: Any = Cluster("broker-a", "broker-b", **{away.replace("-", "_"): error})
    tell(cluster, BATCH, READ, [QueueLease("billing", "me", 7)] * 2)
    assert len(cluster.told) == 1
    assert away not in cluster.told
    assert cluster.brokers[away].asked == 5
    assert "could not be reported" not in caplog.text


@pytest.mark.parametrize("names", [("broker-b",), ("broker-a", "broker-b")])
def test_a_slave_is_not_waited_for(names: tuple[str, ...], caplog: pytest.LogCaptureFixture) -> None:
    """It takes no reports as long as its master is away: the other broker is told at once, or nobody."""
    cluster: Any = Cluster(*names, slave="broker-b")
    tell(cluster, BATCH, READ, BILLING)
    assert list(cluster.told) == [name for name in names if name != "broker-b"]
    assert cluster.brokers["broker-b"].asked == 1
    assert ("Of broker broker-b only a slave is there" in caplog.text) == (len(names) == 1)


def test_the_owner_is_told_where_nobody_says_who_else_there_is() -> None:
    """Name servers may be away while brokers are there."""
    cluster: Any = Cluster("broker-b")
    cluster.registered = set()
    tell(cluster, BATCH, READ, BILLING)
    assert list(cluster.told) == ["broker-b"]


def test_a_member_of_a_shared_group_tells_its_lease() -> None:
    """And the run: what a later run of the batch leaves out is not among its inputs."""
    cluster: Any = Cluster()
    tell(cluster, BATCH, READ[:1], [QueueLease("billing", "me", 7, run=3)])
    ((_, _, (piece,)),) = cluster.told["broker-b"]
    assert (piece.member, piece.lease, piece.run, piece.leaseRun) == ("me", 7, "run-1", 3)


def test_a_topic_that_is_read_from_elsewhere_is_told_by_its_epoch() -> None:
    """An audit then knows that what comes twice, or not at all, was wanted so."""
    cluster: Any = Cluster()
    end = Offsets("billing", epochs={"orders": 2})
    tell(cluster, BATCH, READ[:1], Holder(end.group, epochs=end.epochs).of(READ[:1]))
    ((_, _, (piece,)),) = cluster.told["broker-b"]
    assert (piece.topicEpoch, piece.lease) == (2, None)


def test_a_stock_broker_is_told_nothing() -> None:
    """It keeps no such thing, and that is no failure."""
    stock: Any = Cluster("broker-a", "broker-b", transactions=0)
    tell(stock, BATCH, READ, [QueueLease("billing", "me", 7)] * 2)
    assert stock.told == {}


def test_a_lease_is_not_read_under_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    """A task that could tell nobody what it reads goes on with a warning, and fails where the group is shared."""
    refusing: Any = Cluster("broker-a", "broker-b", code=1)
    tell(refusing, BATCH, READ, BILLING)
    assert "offsets 10 to 20 of orders/broker-b/3" in caplog.text
    with pytest.raises(ServerFault):
        tell(refusing, BATCH, READ[:1], [QueueLease("billing", "me", 7)])


def test_a_broker_that_is_restarted_is_waited_for_under_a_lease(caplog: pytest.LogCaptureFixture) -> None:
    """For a minute, like by all that a stream needs: the query would end. One alone in its group goes on after seconds,
    with a warning."""
    cluster: Any = Cluster("broker-b", broker_b=AWAY)
    tell(cluster, BATCH, READ, BILLING)
    assert "could not be reported" in caplog.text
    retry = RetryPolicy(for_ms=STREAM_PATIENCE_MS)
    began_ms = cluster.clock.monotonic_ms()
    with pytest.raises(Unreachable):
        tell(cluster, BATCH, READ[:1], [QueueLease("billing", "me", 7)], retry=retry)
    assert cluster.clock.monotonic_ms() - began_ms >= STREAM_PATIENCE_MS


def test_outside_of_a_micro_batch_nothing_is_reported() -> None:
    """A batch query has no batch to report, and Spark's properties say so."""
    cluster: Any = Cluster()
    report(cluster, READ, BILLING)
    assert cluster.told == {}
    assert streaming_batch(Task()) is None
    assert streaming_batch(Task(sql_streaming_queryId="q")) is None
    inside = Task(sql_streaming_queryId="q", streaming_sql_batchId="5", spark_jobGroup_id="run-1")
    assert streaming_batch(inside) == BATCH


@pytest.mark.parametrize("job_group", ["invoices, für alle", "\n", "half a pair \ud800", "x" * 256])
def test_a_job_group_of_the_users_is_a_run_in_other_words(job_group: str) -> None:
    """What users call their jobs is no name for a run that brokers would take; the same group is the same run."""
    inside = [Task(sql_streaming_queryId="q", streaming_sql_batchId="5", spark_jobGroup_id=job_group) for _ in "12"]
    runs = {batch.run_id for each in inside if (batch := streaming_batch(each)) is not None}
    assert [check_transactional("run", run) for run in runs] == [*runs]
    assert len(runs) == 1

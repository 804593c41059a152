"""What the driver finds out about what a batch has read, and what it makes of brokers that do not answer."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.errors import NoPermission, NotCommitted, RequestTimeout, RmqError, Unreachable
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo
from rmqspark.protocol.bodies.txn import InputRange, InputRanges
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.response import Response
from rmqspark.sink.patience import UNDER_WAY
from rmqspark.sink.transactions.attempt import Attempt
from rmqspark.sink.transactions.inputs import inputs_of
from rmqspark.testing.manual_clock import ManualClock

ATTEMPT = Attempt("T", "run-1", 5, 0, "x", 1, "q", 5)
AWAY = Unreachable("Nobody is there.", address="h:1")


def read(queue_id: int, start: int, end: int, lease: int | None = None) -> InputRange:
    leased = ("me", lease, "run-1") if lease else ()
    return InputRange("g", "orders", "a", queue_id, start, end, *leased)


class Cluster:
    """Brokers by name, each with what was reported to it, or the error that asking it ends in. `asked`: for reports.
    `away_ms`: for so long there is none, nor a name server."""

    namesrv = "ns:1"
    away_ms = 0

    def __init__(self, **told: list[InputRange] | RmqError) -> None:
        self.told = told
        self.clock = ManualClock()
        self._begun_ms = self.clock.monotonic_ms()
        self.asked: list[str] = []

    def known_masters(self) -> dict[str, str]:
        return {}

    def require_somebody(self) -> None:
        if self.clock.monotonic_ms() - self._begun_ms < self.away_ms:
            raise AWAY

    def cluster_info(self) -> ClusterInfo:
        self.require_somebody()
        return ClusterInfo(brokerAddrTable={n: BrokerData(brokerName=n, brokerAddrs={0: "h:1"}) for n in self.told})

    def broker(self, name: str) -> Broker:
        return Broker(name, self)


class Broker:
    def __init__(self, name: str, cluster: Cluster) -> None:
        self._name, self._cluster = name, cluster

    def capabilities(self) -> Capabilities:
        return Capabilities(transactions=1)

    def call(self, code: RequestCode, header: Any, *, timeout_ms: int) -> Response:
        assert (code, header.queryId, header.batchId) == (RequestCode.RMQ_TXN_INPUTS, "q", 5)
        self._cluster.asked.append(self._name)
        self._cluster.require_somebody()
        told = self._cluster.told[self._name]
        if isinstance(told, RequestTimeout):
            self._cluster.clock.advance(ms=timeout_ms)
        if isinstance(told, RmqError):
            raise told
        return Response(0, 1, None, 479, {}, InputRanges(told).encode())


def inputs(cluster: Any, *participants: str) -> list[InputRange]:
    return inputs_of(cluster, ATTEMPT, participants, UNDER_WAY.tries(cluster.clock))


def test_reports_of_all_brokers_are_joined() -> None:
    """While their keeper was away, tasks told another one."""
    assert inputs(Cluster(a=[read(0, 5, 9)], b=[read(0, 0, 5), read(1, 2, 3)])) == [read(0, 0, 9), read(1, 2, 3)]


def test_a_broker_that_is_away_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """What the others know is recorded, with a warning; the batch goes on."""
    assert inputs(Cluster(a=AWAY, b=[read(1, 2, 3)])) == [read(1, 2, 3)]
    assert "not all of it" in caplog.text


SILENT = RequestTimeout("a says nothing.")


def test_a_broker_that_hangs_is_asked_once(caplog: pytest.LogCaptureFixture) -> None:
    """Name servers go on naming it: each batch would wait for it many times, for what another was told as well."""
    cluster = Cluster(a=SILENT, b=[read(1, 2, 3)])
    assert inputs(cluster) == [read(1, 2, 3)]
    assert cluster.asked == ["a", "b"]
    assert "not all of it: a says nothing." in caplog.text


def test_a_broker_that_hangs_is_asked_patiently_where_nothing_else_would_do() -> None:
    """For leases, and where nobody has answered: it may be back in time."""
    for told in ([read(1, 2, 3, lease=7)], SILENT):
        cluster = Cluster(a=SILENT, b=told)
        begun_ms = cluster.clock.monotonic_ms()
        with suppress(NotCommitted):
            assert inputs(cluster) == []
        assert cluster.asked.count("a") > 7
        assert 60_000 < cluster.clock.monotonic_ms() - begun_ms < 75_000


def test_what_was_read_under_leases_is_known_in_full_or_not_committed() -> None:
    """A range that nobody speaks of would not be looked at when the batch is decided."""
    assert inputs(Cluster(a=[], b=[read(1, 2, 3, lease=7)])) == [read(1, 2, 3, lease=7)]
    with pytest.raises(NotCommitted, match=r"not known in full: Nobody is there\..*runs the batch once more"):
        inputs(Cluster(a=AWAY, b=[read(1, 2, 3, lease=7)]))


def test_the_only_broker_is_waited_for_as_the_decision_would_wait() -> None:
    """It keeps all there is to know, and once it is back it would decide without: also over what another member of a
    shared group reads by now."""
    cluster = Cluster(a=[read(1, 2, 3, lease=7)])
    cluster.away_ms = 50_000
    assert inputs(cluster, "a") == [read(1, 2, 3, lease=7)]


def test_a_keeper_of_leases_that_restarts_is_waited_for_and_one_that_refuses_is_not() -> None:
    """The query would end, though nothing is lost; and what will not pass holds nobody up."""
    leased = [read(1, 2, 3, lease=7)]
    cluster = Cluster(a=leased, b=leased)
    ask, answers = cluster.broker, []

    def restarts(name: str) -> Broker:
        answers.append(name)
        cluster.away_ms = 0 if name == "b" or cluster.clock.monotonic_ms() - begun_ms > 30_000 else 1 << 40
        return ask(name)

    begun_ms = cluster.clock.monotonic_ms()
    cluster.broker = restarts  # type: ignore[method-assign]
    assert inputs(cluster) == leased
    assert cluster.clock.monotonic_ms() - begun_ms > 30_000
    refuses = Cluster(a=NoPermission("no"), b=leased)
    with pytest.raises(NotCommitted, match="not known in full: no"):
        inputs(refuses)
    assert refuses.asked == ["a", "b", "a"]


def test_who_holds_rows_is_asked_where_no_name_server_answers(caplog: pytest.LogCaptureFixture) -> None:
    """They may keep reports, too."""
    assert inputs(unlisted(b=[read(1, 2, 3)]), "b") == [read(1, 2, 3)]
    assert "not all of it: No broker is registered" in caplog.text


def test_leases_are_not_known_in_full_where_no_name_server_answers() -> None:
    """Others may keep reports that those who hold rows have not got."""
    with pytest.raises(NotCommitted, match="not known in full: No broker is registered"):
        inputs(unlisted(a=[read(0, 0, 5, lease=6)], b=[read(1, 2, 3, lease=7)]), "b")


def unlisted(**told: list[InputRange] | RmqError) -> Cluster:
    """A cluster of which nobody says who is in it."""
    cluster = Cluster(**told)
    cluster.cluster_info = ClusterInfo  # type: ignore[method-assign, assignment]
    return cluster

"""Who is asked about a transactional id, over brokers that answer as the test says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.cluster.known_coordinators import KnownCoordinators
from rmqspark.client.spark.coordinator import Coordinator, Run, chosen_broker
from rmqspark.client.spark.proofs import proof
from rmqspark.client.spark.txn import audited_batches, transactions
from rmqspark.errors import BrokerNotRegistered, ConnectionLost, NotSupported, ServerFault, Unreachable
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo
from rmqspark.protocol.bodies.txn import AuditedBatch, AuditedBatches, HeldVersion, OutputRange, TxnDecision, TxnState
from rmqspark.protocol.bodies.txn import TxnStates as States
from rmqspark.protocol.rendezvous import chosen
from rmqspark.remoting.response import Response
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    import msgspec

    from rmqspark.errors import RmqError
    from rmqspark.protocol.codes import RequestCode

NAMES = ("a", "b", "c")
OWNER = chosen("T", NAMES)
OTHERS = [name for name in NAMES if name != OWNER]
RUN = Run("run-1", 3, 7)


class Cluster:
    """Three masters and a slave; each broker gives its answers one after the other."""

    namesrv = "ns:1"

    clock = ManualClock()

    def __init__(self, answers: dict[str, list[dict[str, str] | bytes | RmqError]], able: int = 1) -> None:
        self.answers = answers
        self.able = able
        self.coordinators = KnownCoordinators()
        self.asked: list[str] = []
        self.unregistered: set[str] = set()
        self.headers: list[msgspec.Struct] = []

    def cluster_info(self) -> ClusterInfo:
        masters = {name: BrokerData(brokerName=name, brokerAddrs={0: "h:1"}) for name in NAMES}
        return ClusterInfo(brokerAddrTable=masters | {"slave": BrokerData(brokerName="slave", brokerAddrs={1: "h:2"})})

    def broker(self, name: str) -> Broker:
        return Broker(self, name)


class Broker:
    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self._cluster = cluster

    def capabilities(self) -> Capabilities:
        if self.name in self._cluster.unregistered:
            raise BrokerNotRegistered(f"Broker {self.name!r} is not registered.")
        return Capabilities(transactions=self._cluster.able if self.name != "slave" else 0)

    def call(self, code: RequestCode, header: msgspec.Struct, body: bytes = b"", *, timeout_ms: int) -> Response:
        self._cluster.asked.append(self.name)
        self._cluster.headers.append(header)
        answer = self._cluster.answers[self.name].pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, bytes):
            return Response(0, 1, None, 479, {}, answer)
        return Response(0, 1, answer.get("remark"), 479, answer, answer.get("body", "").encode())


def coordinator(cluster: Cluster) -> Coordinator:
    return Coordinator(cluster, "T")  # type: ignore[arg-type]


def test_everybody_chooses_the_same_master() -> None:
    """The owner is found from the names alone; a broker without a master is none."""
    cluster = Cluster({})
    assert chosen_broker(cluster, "T") == OWNER  # type: ignore[arg-type]
    owners = {chosen_broker(cluster, f"T{number}") for number in range(100)}  # type: ignore[arg-type]
    assert owners == set(NAMES)


def test_an_attempt_is_told_its_epoch() -> None:
    """PREPARE goes to the owner and brings the epoch to write under."""
    cluster = Cluster({OWNER: [{"outcome": "WRITE", "epoch": "4", "lastVersion": "6"}]})
    answer = coordinator(cluster).prepare("run-1", 7, 2, "11-ab", "q")
    assert (answer.outcome, answer.epoch, answer.lastVersion) == ("WRITE", 4, 6)
    assert cluster.asked == [OWNER]


def test_another_owner_is_followed_and_remembered() -> None:
    """A broker that has owned the id for longer is asked from then on."""
    cluster = Cluster(
        {
            OWNER: [{"outcome": "REDIRECT", "coordinator": OTHERS[0]}],
            OTHERS[0]: [{"outcome": "FENCED"}, {"outcome": "COMMITTED"}],
        }
    )
    assert coordinator(cluster).prepare("run-1", 7, 0, "x", None).outcome == "FENCED"
    assert coordinator(cluster).abort(RUN) == "COMMITTED"  # another task of the same process
    assert cluster.asked == [OWNER, OTHERS[0], OTHERS[0]]


def test_brokers_that_send_each_other_round_in_circles() -> None:
    """Redirects end."""
    one, two = OWNER, OTHERS[0]
    round_trip: list[dict[str, str] | bytes | RmqError] = [{"outcome": "REDIRECT", "coordinator": two}] * 3
    back: list[dict[str, str] | bytes | RmqError] = [{"outcome": "REDIRECT", "coordinator": one}] * 3
    with pytest.raises(ServerFault, match="do not agree on who coordinates transactional id 'T'"):
        coordinator(Cluster({one: round_trip, two: back})).abort(RUN)


def test_an_owner_that_is_away_is_looked_for_again() -> None:
    """After a lost connection the next request starts from the name servers."""
    away = Unreachable("nobody", address="h:1")
    cluster = Cluster(
        {
            OWNER: [{"outcome": "REDIRECT", "coordinator": OTHERS[0]}, {"outcome": "FENCED"}],
            OTHERS[0]: [away],
        }
    )
    asking = coordinator(cluster)
    with pytest.raises(Unreachable):
        asking.abort(RUN)
    assert asking.abort(RUN) == "FENCED"
    assert cluster.asked == [OWNER, OTHERS[0], OWNER]


def test_an_owner_that_no_name_server_knows_just_now_is_away() -> None:
    """Another broker names it, so it is worth waiting for: not an error that nothing mends."""
    cluster = Cluster({OWNER: [{"outcome": "REDIRECT", "coordinator": OTHERS[0]}], OTHERS[0]: [{"outcome": "FENCED"}]})
    cluster.unregistered = {OTHERS[0]}
    with pytest.raises(Unreachable, match=f"{OTHERS[0]}', which coordinates transactional id 'T', is not registered"):
        coordinator(cluster).abort(RUN)
    assert cluster.asked == [OWNER]


def test_a_recorded_decision_comes_with_the_answer() -> None:
    """DECIDE and STATUS bring what was committed."""
    recorded = TxnDecision(rows=5, checksum="18446744073709551615").encode().decode()
    answers: list[dict[str, str] | bytes | RmqError] = [
        {"outcome": "ALREADY_COMMITTED", "lastVersion": "7", "incomplete": "1", "body": recorded},
        {"outcome": "FENCED"},
    ]
    asking = coordinator(Cluster({OWNER: answers}))
    decided = asking.decide(RUN, TxnDecision(rows=5))
    assert decided.decision is not None
    assert (decided.outcome, decided.decision.checksum, decided.incomplete) == (
        "ALREADY_COMMITTED",
        "18446744073709551615",
        1,
    )
    assert asking.status(RUN).decision is None


def test_a_stock_broker_is_not_asked() -> None:
    """Where a broker keeps no transactions of batches the error says why, and what to write instead."""
    cluster = Cluster({}, able=0)
    with pytest.raises(NotSupported, match="knows no transactions of whole batches.*deliveryGuarantee=at-least-once"):
        coordinator(cluster).prepare("run-1", 7, 0, "x", None)
    assert cluster.asked == []


def test_listings_of_all_brokers_are_joined() -> None:
    """Pages are read to their end on every broker that keeps transactions; what is told twice counts once."""
    state = States([TxnState("T1")], cursor="more").encode(), States([TxnState("T0")]).encode()
    empty = States().encode()
    cluster = Cluster({"a": [*state], "b": [empty], "c": [empty]})
    assert [found.transactionalId for found in transactions(cluster)] == ["T0", "T1"]  # type: ignore[arg-type]
    assert cluster.asked == ["a", "a", "b", "c"]
    told = AuditedBatches([AuditedBatch("T", "q", 2), AuditedBatch("T", "q", 2, rows=9)]).encode()
    nothing = AuditedBatches().encode()
    cluster = Cluster({"a": [nothing], "b": [told], "c": [nothing]})
    assert [batch.rows for batch in audited_batches(cluster, query_id="q")] == [9]  # type: ignore[arg-type]
    one, another = AuditedBatch("T", "q", 2, rows=1, decidedAtMs=5), AuditedBatch("T", "q", 2, rows=2, decidedAtMs=6)
    pages = {name: [AuditedBatches([each]).encode()] for name, each in (("a", one), ("b", another), ("c", one))}
    both = audited_batches(Cluster(pages), query_id="q")  # type: ignore[arg-type]
    assert sorted(batch.rows for batch in both) == [1, 2], "decided by two coordinators, and told by a copy of one"


def test_what_is_not_confirmed_for_a_minute_is_late() -> None:
    """Until then it may be under way."""
    now_ms = Cluster.clock.now_ms()
    told = [AuditedBatch("T", "q", number, decidedAtMs=now_ms - ago_s * 1_000, completed=done)
            for number, (ago_s, done) in enumerate([(90, True), (90, False), (30, False)])]  # fmt: skip
    pages = {"a": [AuditedBatches(told).encode()], "b": [AuditedBatches().encode()], "c": [AuditedBatches().encode()]}
    found = proof(Cluster(pages), "q")  # type: ignore[arg-type]
    assert [batch.version for batch in found.late] == [1]
    assert found.findings == []


def test_who_has_the_topic_is_asked_whether_it_was_made_anew() -> None:
    """Where it does not answer, two batches at one offset are what they seem."""
    rows = [OutputRange("out", "b", 0, 0, 5)]
    told = [AuditedBatch("T", "q", at, decidedAtMs=1_000 * at, rows=5, outputs=rows, completed=True) for at in (1, 3)]
    lost = ConnectionLost("cut", address="h:1")
    for answer, doubled in (({"offset": "5", "topicDeleted": "2000"}, 0), ({"offset": "5"}, 5), (lost, 5)):
        pages = {"a": [AuditedBatches(told).encode()], "c": [AuditedBatches().encode()]}
        cluster = Cluster(pages | {"b": [AuditedBatches().encode(), answer]})
        assert proof(cluster, "q").doubled == doubled  # type: ignore[arg-type]


def test_a_broker_that_is_silent_hides_no_other() -> None:
    """A listing may go on without it, and says so; an audit may not, and says what to do."""
    lost = ConnectionLost("cut", address="h:1")
    held = HeldVersion("T", 3, 7, rows=5, bytes=50), HeldVersion("T", 2, 7, rows=9, bytes=90)
    state = States([TxnState("T", epoch=3, version=7, lastVersion=6)], held=[held[0]])
    cluster = Cluster({"a": [lost], "b": [state.encode()], "c": [States(held=[*held]).encode()]})
    silent: list[str] = []
    (found,) = transactions(cluster, on_silent=lambda name, _: silent.append(name))  # type: ignore[arg-type]
    assert (found.brokers, found.rows, found.bytes, silent) == (["b", "c"], 10, 100, ["a"])
    cluster = Cluster({"a": [lost]})
    with pytest.raises(ConnectionLost, match="start it, and ask again"):
        audited_batches(cluster, query_id="q")  # type: ignore[arg-type]


def test_what_is_held_is_listed_though_its_coordinator_is_away() -> None:
    """It is what an operator looks for then."""
    lost = ConnectionLost("cut", address="h:1")
    held = [HeldVersion("T", 3, 7, rows=5, bytes=50), HeldVersion("T", 2, 6, rows=9, bytes=90)]
    cluster = Cluster({"a": [lost], "b": [States(held=held).encode()], "c": [States(held=held[:1]).encode()]})
    (found,) = transactions(cluster, on_silent=lambda *_: None)  # type: ignore[arg-type]
    assert (found.coordinator, found.epoch, found.version, found.rows) == ("", 3, 7, 10)
    assert (found.brokers, found.state) == (["b", "c"], "version 7 is held, no broker that answers coordinates it")


def test_as_many_owners_are_known_as_are_bounded() -> None:
    """A process that writes for many transactional ids remembers the latest; the others are looked for."""
    known = KnownCoordinators()
    for number in range(1_500):
        known.note(f"T{number}", "a")
    assert known.of("T499") is None
    assert {known.of(f"T{number}") for number in range(500, 1_500)} == {"a"}
    known.forget("T500")
    assert known.of("T500") is None

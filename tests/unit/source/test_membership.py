"""What keeps a query a member of its group, and its leases renewed, while nothing else is asked of it."""

from __future__ import annotations

import queue
import signal
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.cluster.futures import at_hand, failing
from rmqspark.client.cluster.group_reading import Member
from rmqspark.errors import Unreachable
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody, GroupLeasesBody, HeartbeatData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.remoting.response import Response
from rmqspark.source.groups.membership import BEATS_IN_A_LEASE, LONGEST_PAUSE_S, Membership
from rmqspark.source.planning.termination import exit_when_terminated
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUEUE = MessageQueue("orders", "broker-a", 3)
PATIENCE_S = 60


class Broker:
    """One broker that notes what it is told; each renewal is shown to the test."""

    name, timeout_ms = "broker-a", 3_000

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.beats: list[HeartbeatData] = []
        self.leases: list[GroupLeasesBody] = []
        self.left: list[tuple[str, str | None]] = []
        self.failure: Exception | None = None
        self.away: set[str] = set()
        self.renewed = threading.Semaphore(0)
        self.failed = threading.Semaphore(0)

    def broker(self, name: str) -> Broker:
        if name in self.away:
            raise Unreachable("Nobody is there.", address=name)
        return self

    def capabilities(self) -> Capabilities:
        return Capabilities(groups=1)

    def heartbeat(self, data: HeartbeatData) -> None:
        if self.failure:
            self.failed.release()
            raise self.failure
        self.beats.append(data)

    def submit(self, code: int, header: Any, body: bytes = b"", *, timeout_ms: int) -> Future[Response]:
        if code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            no_one = Response(ResponseCode.SYSTEM_ERROR, 1, "no consumer for this group", 479, {}, b"")
            return failing(self.failure) if self.failure else at_hand(no_one)
        assert code == RequestCode.RMQ_GROUP_LEASES
        self.leases.append(GroupLeasesBody.decode(body))
        self.renewed.release()
        answer: Future[Response] = Future()
        answer.set_result(Response(0, 1, None, 479, {}, GroupLeasesAnswerBody(60_000, []).encode()))
        return answer

    def unregister_client(self, client_id: str, *, consumer_group: str | None = None) -> None:
        self.left.append((client_id, consumer_group))


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def member(broker: Broker) -> Iterator[Membership]:
    client: Any = broker
    made = Membership(client, Member("g", "me"), "paid")
    made.announce([QUEUE])
    yield made
    made.leave(release=False)


def test_a_member_says_who_it_is_and_what_it_reads(broker: Broker, member: Membership) -> None:
    """As a consumer of RocketMQ does, so that consumers and tools of RocketMQ see it."""
    (consumer,) = broker.beats[0].consumerDataSet
    assert (broker.beats[0].clientID, consumer.groupName, consumer.messageModel) == ("me", "g", "CLUSTERING")
    assert [(each.topic, each.subString) for each in consumer.subscriptionDataSet] == [("orders", "paid")]
    assert member.others(["broker-a"]) == [], "nobody is there yet, in RocketMQ's words"


def test_a_member_that_wants_messages_by_sql_says_so(broker: Broker) -> None:
    """It said that it wants all of them, and its broker gave them to a consumer of RocketMQ in the group, too."""
    client: Any = broker
    Membership(client, Member("g", "me"), None, "a > 5").announce([QUEUE])
    (wanted,) = broker.beats[0].consumerDataSet[0].subscriptionDataSet
    assert (wanted.subString, wanted.expressionType) == ("a > 5", "SQL92")


def test_a_member_is_where_it_could_say_so(broker: Broker, member: Membership) -> None:
    """Some of the brokers may be away; what is read from when on is asked of none, and changes with the topics."""
    away = QUEUE._replace(broker_name="broker-b")
    broker.away = {"broker-b"}
    broker.clock.advance(ms=5)
    member.announce([away, QUEUE])
    assert member.reached == {"broker-a"}
    member.announce([QUEUE._replace(topic="invoices")])
    versions = [each.subVersion for beat in broker.beats for each in beat.consumerDataSet[0].subscriptionDataSet]
    assert versions == [versions[0], versions[0], versions[0] + 5]
    assert member.others([]) == []


def test_leases_are_renewed_while_a_batch_runs(broker: Broker, member: Membership) -> None:
    """By a thread, several times in the life of a lease, without committing anything; again where the broker was away
    for a while."""
    member.hold({QUEUE: 7}, BEATS_IN_A_LEASE)
    for _ in range(2):
        assert broker.renewed.acquire(timeout=PATIENCE_S)
    (kept,) = broker.leases[-1].keep
    assert (kept.queueId, kept.lease, kept.offset) == (3, 7, -1)
    broker.failure = Unreachable("Nobody is there.", address="a")
    assert broker.failed.acquire(timeout=PATIENCE_S)
    while broker.renewed.acquire(blocking=False):
        pass
    broker.failure = None
    assert broker.renewed.acquire(timeout=PATIENCE_S)


def test_while_no_broker_has_said_how_long_a_lease_lasts_a_member_waits_between_its_beats(
    member: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None has while only slaves are there, say. It went round and round without a pause."""
    pauses: queue.SimpleQueue[float] = queue.SimpleQueue()
    wait_for = threading.Condition.wait_for

    def noted(changed: threading.Condition, holds: Callable[[], bool], timeout: float) -> bool:
        pauses.put(timeout)
        return wait_for(changed, holds, timeout)

    monkeypatch.setattr(threading.Condition, "wait_for", noted)
    member.hold({}, 0)
    assert pauses.get(timeout=PATIENCE_S) == LONGEST_PAUSE_S


@pytest.mark.parametrize("release", [True, False])
def test_who_leaves_says_so(broker: Broker, release: bool) -> None:
    """And gives its queues up where others may have them at once."""
    client: Any = broker
    member = Membership(client, Member("g", "me", {"broker-a": 5}), None)
    member.announce([QUEUE])
    member.hold({QUEUE: 7}, 60_000)
    member.leave(release=release)
    assert [[each.lease for each in body.release] for body in broker.leases] == ([[7]] if release else [])
    assert broker.left == [("me", "g")]


def test_a_broker_that_cannot_be_asked(broker: Broker, member: Membership) -> None:
    """That nobody can be reached is the caller's to know."""
    broker.failure = Unreachable("Nobody is there.", address="a")
    with pytest.raises(Unreachable):
        member.announce([QUEUE])
    with pytest.raises(Unreachable):
        member.others(["broker-a"])


def test_the_process_of_a_source_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM, by which Spark ends it, lets `stop` be called; whoever has said otherwise is left alone."""
    installed: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL}
    monkeypatch.setattr(signal, "getsignal", installed.get)
    monkeypatch.setattr(signal, "signal", installed.__setitem__)
    exit_when_terminated()
    with pytest.raises(SystemExit):
        installed[signal.SIGTERM](signal.SIGTERM, None)
    ours = installed[signal.SIGTERM] = lambda *_: None
    exit_when_terminated()
    assert installed[signal.SIGTERM] is ours

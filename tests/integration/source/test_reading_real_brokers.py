"""The source's side of a real cluster, without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster import shared
from rmqspark.client.cluster.broker_client import BrokerClient
from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import HandshakeFailed, InvalidArgument, NoPermission, NotSupported, TopicNotFound, Unreachable
from rmqspark.model import Message, MessageQueue, SendStatus
from rmqspark.source.groups.group import AGAIN_MS, GroupProgress
from rmqspark.source.groups.ownership import WholeGroup
from rmqspark.source.groups.shared import SharedGroup
from rmqspark.source.offsets import Offsets
from rmqspark.source.options import RetryPolicy, SourceOptions, Subscription
from rmqspark.source.planning.admission import Limits
from rmqspark.source.planning.cluster_view import MAX_AGE_MS, ROUTE_MAX_AGE_MS, ClusterView
from rmqspark.source.planning.planner import range_in, ranges
from rmqspark.source.planning.progress import Progress
from rmqspark.source.planning.rewinds import Rewinds
from rmqspark.source.positions import Earliest
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.task_options import TaskOptions
from rmqspark.source.tasks.fetch import fetch
from rmqspark.source.tasks.fetch_together import fetch_together
from rmqspark.testing import cluster
from rmqspark.testing.manual_clock import ManualClock

from ..coming_back import comes_back
from ..replication.test_replicas import QUICK, SYNC, identity, wait_until
from ..silent_broker import silent_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.source.groups.ownership import Ownership
    from rmqspark.source.planning.planner import Snapshot
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration

Q0, Q1 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))
ORDERS = Subscription(("orders",))
AT_ONCE = RetryPolicy(1, 0)


@pytest.fixture
def admin(mq: LocalCluster) -> Iterator[AdminClient]:
    """A topic "orders" of two queues, empty in each test."""
    with AdminClient(mq.namesrv) as client:
        client.create_topic("orders", queues=2)
        yield client
        client.delete_topic("orders")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(mq: LocalCluster, admin: AdminClient, clock: ManualClock) -> Iterator[ClusterClient]:
    with ClusterClient(mq.namesrv, clock=clock) as connected:
        yield connected


def send(mq: LocalCluster, count: int, queue: int | MessageQueue = 0, tags: str | None = None) -> None:
    with Producer(mq.namesrv) as producer:
        for number in range(count):
            producer.send(Message("orders", b"%d" % number, tags=tags), queue=queue)


def send_once(mq: LocalCluster) -> SendStatus:
    with Producer(mq.namesrv) as producer:
        return producer.send(Message("orders", b"?")).status


def test_ends_and_begins(mq: LocalCluster, client: ClusterClient) -> None:
    """The view shows where each queue begins and ends, and which store that is."""
    send(mq, 3)
    view = ClusterView(client, ORDERS, AT_ONCE)
    assert view.snapshot().ends == {Q0: 3, Q1: 0}
    assert view.snapshot().stores["broker-a"].incarnation >= 1
    assert view.begins([Q0, Q1]) == {Q0: 0, Q1: 0}
    assert view.offsets_at([Q0], 0) == {Q0: 0}
    assert view.offsets_at([Q0], 1 << 45) == {Q0: 3}


def test_bounds_asked_together_and_one_by_one_are_the_same(
    mq: LocalCluster, admin: AdminClient, client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of brokers that tell them of many queues at once, and of those that do not; a deletion is told either way."""
    admin.delete_topic("orders")
    admin.create_topic("orders", queues=2)
    admin.create_topic("more", queues=1)
    send(mq, 3)

    def looked() -> tuple[Snapshot, dict[MessageQueue, int]]:
        view = ClusterView(client, Subscription(("more", "orders")), AT_ONCE)
        found = view.snapshot()
        return found, view.begins(found.ends)

    together = looked()
    assert together[0].ends == {Q0: 3, Q1: 0, MessageQueue("more", "broker-a", 0): 0}
    assert together[0].deletions_ms["orders", "broker-a"] > 0
    able = client.broker("broker-a").capabilities()._replace(queue_bounds=0)
    monkeypatch.setattr(BrokerClient, "capabilities", lambda self: able)
    assert looked() == together
    admin.delete_topic("more")


@pytest.mark.parametrize("subscription", [ORDERS, Subscription((), pattern="ord.*")])
def test_a_topic_whose_only_broker_is_away_is_not_said_to_be_missing(
    subscription: Subscription, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one that matches a pattern passed over: nobody knows then which there are. It is waited for."""
    with cluster() as one, ClusterClient(one.namesrv, clock=clock) as client:
        with AdminClient(one.namesrv) as admin:
            admin.create_topic("orders", queues=2)
        one.stop_broker("broker-a")
        with pytest.raises(Unreachable, match="No broker is registered"):
            ClusterView(client, subscription, AT_ONCE).snapshot()
        monkeypatch.setattr(clock, "sleep_ms", lambda ms: one.start_broker("broker-a"))
        assert ClusterView(client, subscription, AT_ONCE).snapshot().ends == {Q0: 0, Q1: 0}


def test_a_topic_that_may_not_be_read(
    mq: LocalCluster, admin: AdminClient, client: ClusterClient, clock: ManualClock
) -> None:
    """It is not taken for an empty one. A query that has begun goes on when it may be read again."""
    admin.update_topic("orders", perm="w")
    view = ClusterView(client, ORDERS, AT_ONCE)
    with pytest.raises(NoPermission, match="'orders' has no queue that may be read. Allow it: .* orders --perm rw"):
        view.snapshot()
    assert view.snapshot(outages_allowed=True).ends == {}
    admin.update_topic("orders", perm="rw")
    clock.advance(ms=ROUTE_MAX_AGE_MS)
    assert view.snapshot().ends == {Q0: 0, Q1: 0}


def test_what_was_planned_and_may_not_be_read_any_more(
    mq: LocalCluster, admin: AdminClient, client: ClusterClient
) -> None:
    """A batch whose queues are taken from the reader cannot be read, nor left out: the error says how to give them
    back, and then all of it is there."""
    send(mq, 3, queue=1)
    (wanted,) = planned(client, (Q1, 0, 3))

    def rows() -> int:
        return sum(len(records) for records in fetch(client, wanted, TaskOptions(retry=AT_ONCE)))

    admin.update_topic("orders", read_queues=1)
    with pytest.raises(InvalidArgument, match=r"no queue 1\. .*: rmq topic update orders --read-queues N\."):
        rows()
    admin.update_topic("orders", read_queues=2, perm="w")
    with pytest.raises(NoPermission, match=r"may not be read\. Allow it: rmq topic update orders --perm rw\."):
        rows()
    admin.update_topic("orders", perm="rw")
    assert rows() == 3


@pytest.mark.parametrize(
    "subscription", [ORDERS, Subscription(("orders",), frozenset({Q0, Q0._replace(broker_name="broker-b")}))]
)
def test_a_broker_that_is_out_of_sight_holds_nobody_up(subscription: Subscription, clock: ManualClock) -> None:
    """Queues of the others are read on while a broker is away, and its own when it is back; named in assign, too, also
    by a query that is started again meanwhile."""
    with cluster(brokers=2) as pair, ClusterClient(pair.namesrv, clock=clock) as client:
        with AdminClient(pair.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        options = SourceOptions(subscription, start=Earliest(), group="billing", retry=AT_ONCE)

        def started() -> Progress:
            view, group = ClusterView(client, subscription, AT_ONCE), WholeGroup(GroupProgress(client))
            return Progress(options, view, group, Rewinds(client, AT_ONCE), clock=clock, entropy=SystemEntropy())

        query = started()
        start = query.latest(query.initial(), None)
        pair.stop_broker("broker-b")
        send(pair, 1)
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        away = query.latest(start, None)
        assert away.positions == {Q0: 1, Q0._replace(broker_name="broker-b"): 0}
        assert started().latest(start, None) == away
        pair.start_broker("broker-b")
        with Producer(pair.namesrv) as producer:
            producer.send(Message("orders", b"late"), queue=Q0._replace(broker_name="broker-b"))
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        assert set(query.latest(away, None).positions.values()) == {1}


def in_a_stream(client: ClusterClient, **options: str) -> Progress:
    """A query that has begun to read `orders`, as patient as it is if nobody says otherwise."""
    given = {"namesrv": client.namesrv, "subscribe": "orders", "startingOffsets": "earliest", **options}
    parsed = SourceOptions.parse(given, streaming=True)
    view = ClusterView(client, parsed.subscription, parsed.retry, of_masters=parsed.sharing is not None)
    group = ownership(client, parsed)
    return Progress(parsed, view, group, Rewinds(client, parsed.retry), clock=client.clock, entropy=SystemEntropy(1))


def ownership(client: ClusterClient, options: SourceOptions) -> Ownership:
    if options.sharing is None:
        return WholeGroup(GroupProgress(client))
    return SharedGroup(client, options, options.sharing)


@pytest.mark.parametrize(
    ("options", "asks", "question"),
    [
        ({}, Rewinds, "_ask"),
        ({"groupMode": "shared", "group": "billing", "startingOffsets": "earliest"}, SharedGroup, "_ask_all"),
    ],
    ids=["exclusive", "shared"],
)
def test_a_broker_that_goes_after_it_was_seen_holds_others_up_for_seconds(
    options: dict[str, str], asks: type, question: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked of it then is not what a query waits a minute for: it can do without, as with one that went before
    the look."""
    with cluster(brokers=2) as pair, ClusterClient(pair.namesrv, clock=clock) as client:
        with AdminClient(pair.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        query = in_a_stream(client, **options)
        start = query.latest(query.initial(), None)
        send(pair, 1, Q0)
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        ask = getattr(asks, question)

        def goes(*asked: Any) -> Any:
            if "broker-b" in pair.brokers:
                pair.stop_broker("broker-b")
            return ask(*asked)

        monkeypatch.setattr(asks, question, goes)
        begun_ms = clock.monotonic_ms()
        assert query.latest(start, None).positions == {Q0: 1, Q0._replace(broker_name="broker-b"): 0}
        assert clock.monotonic_ms() - begun_ms < 10_000
        query.leave()


def test_a_member_of_a_shared_group_reads_nothing_of_a_broker_whose_slave_alone_is_there(clock: ManualClock) -> None:
    """A slave leases nothing, and waits for its master without a word."""
    shared = {"groupMode": "shared", "group": "billing"}
    with cluster(broker_config=SYNC) as mq, ClusterClient(mq.namesrv, clock=clock) as client:
        with AdminClient(mq.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        slave = mq.start_slave()
        wait_until(lambda: send_once(mq) is SendStatus.OK, "the slave follows")
        wait_until(lambda: identity(slave) == identity(mq.brokers["broker-a"]), "the slave knows whose it is")
        query = in_a_stream(client, **shared)
        start = query.latest(query.initial(), None)
        begun = query.latest(start, None)
        mq.stop_broker("broker-a")
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        assert query.latest(begun, None) == begun
        assert query.silent == {"broker-a"}
        with pytest.raises(Unreachable, match="only a slave is there"):
            in_a_stream(client, **shared).pin()
        mq.start_broker("broker-a")
        wait_until(lambda: send_once(mq) is SendStatus.OK, "the slave follows")
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        assert query.latest(begun, None).positions[Q0] > begun.positions[Q0]
        query.leave()


def test_a_batch_waits_for_no_master_whose_queues_it_does_not_read(clock: ManualClock) -> None:
    """It went when the batch was planned, and the member's next beat found its slave."""
    elsewhere = Q0._replace(broker_name="broker-b")
    with cluster(brokers=2, broker_config=QUICK) as pair, ClusterClient(pair.namesrv, clock=clock) as client:
        with AdminClient(pair.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        slave = pair.start_slave("broker-b")
        wait_until(lambda: identity(slave) == identity(pair.brokers["broker-b"]), "the slave knows whose it is")
        query = in_a_stream(client, groupMode="shared", group="billing")
        begun = query.latest(query.latest(query.initial(), None), None)
        assert begun.positions == {Q0: 0, elsewhere: 0}
        send(pair, 1, Q0)
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        end = query.latest(begun, None)
        pair.stop_broker("broker-b")
        with pytest.raises(Unreachable):
            client.broker("broker-b").capabilities()
        assert client.broker("broker-b").capabilities().is_slave
        begun_ms = clock.monotonic_ms()
        assert query.hold(ranges(begun, end), end) == planned(client, (Q0, 0, 1))
        assert clock.monotonic_ms() == begun_ms
        with pytest.raises(Unreachable, match="'broker-b' only a slave is there"):
            query.hold([QueueRange(elsewhere, 0, 1)], end)
        query.leave()


def test_a_query_whose_only_broker_stays_away_ends_when_it_has_waited_once(clock: ManualClock) -> None:
    """For a minute, and until the look that is under way then has failed."""
    with cluster() as one, ClusterClient(one.namesrv, clock=clock) as client:
        with AdminClient(one.namesrv) as admin:
            admin.create_topic("orders", queues=2)
        query = in_a_stream(client)
        start = query.latest(query.initial(), None)
        one.stop_broker("broker-a")
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        begun_ms = clock.monotonic_ms()
        with pytest.raises(Unreachable):
            query.latest(start, None)
        assert 60_000 <= clock.monotonic_ms() - begun_ms < 80_000


@pytest.mark.parametrize("subscription", [ORDERS, Subscription((), pattern="ord.*")])
def test_what_is_known_is_read_on_where_no_name_server_answers(subscription: Subscription, clock: ManualClock) -> None:
    """Topics that are named and those that match a pattern: their brokers are there. A query that is new is told."""
    with cluster() as one, ClusterClient(one.namesrv, clock=clock) as client:
        with AdminClient(one.namesrv) as admin:
            admin.create_topic("orders", queues=2)
        view = ClusterView(client, subscription, AT_ONCE)
        assert view.snapshot().ends == {Q0: 0, Q1: 0}
        one.stop_name_server(0)
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        assert view.snapshot().ends == {Q0: 0, Q1: 0}
        with ClusterClient(one.namesrv, clock=clock) as new, pytest.raises(Unreachable, match="No name server"):
            ClusterView(new, subscription, AT_ONCE).snapshot()


def test_what_is_known_is_read_on_while_name_servers_are_not_trusted(
    client: ClusterClient, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their certificate has expired, say: no other try would help, and a query that runs needs none."""

    def fails(*asked: Any) -> None:
        raise HandshakeFailed("The certificate has expired.", address="ns:1")

    view = ClusterView(client, Subscription((), pattern="ord.*"), AT_ONCE)
    before = view.snapshot()
    monkeypatch.setattr(client.name_servers, "_put", fails)
    clock.advance(ms=ROUTE_MAX_AGE_MS)
    assert view.snapshot().ends == before.ends
    assert not view.is_deleted("orders", {"broker-a"})


def test_a_topic_out_of_sight_is_not_deleted_where_no_name_server_answers(clock: ManualClock) -> None:
    """One that matches a pattern, and whose broker is away: the other is read on, and nothing is taken for lost."""
    both = Subscription((), pattern="orders|bills")
    with cluster(brokers=2) as pair, ClusterClient(pair.namesrv, clock=clock) as client:
        with AdminClient(pair.namesrv) as admin:
            admin.create_topic("orders", queues=1, brokers=["broker-a"])
            admin.create_topic("bills", queues=1, brokers=["broker-b"])
        options = SourceOptions(both, start=Earliest(), group="billing", retry=AT_ONCE)
        view, group = ClusterView(client, both, AT_ONCE), WholeGroup(GroupProgress(client))
        query = Progress(options, view, group, Rewinds(client, AT_ONCE), clock=clock, entropy=SystemEntropy())
        start = query.latest(query.initial(), None)
        pair.stop_broker("broker-b")
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        assert query.latest(start, None) == start
        pair.stop_name_server(0)
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        assert query.latest(start, None) == start


def test_an_idle_query_does_not_hammer_the_broker(mq: LocalCluster, client: ClusterClient, clock: ManualClock) -> None:
    """What was asked a moment ago is not asked again."""
    view = ClusterView(client, ORDERS, AT_ONCE)
    first = view.snapshot()
    send(mq, 1)
    clock.advance(ms=MAX_AGE_MS - 1)
    assert view.snapshot() is first
    assert view.snapshot(fresh=True).ends[Q0] == 1
    send(mq, 1)
    clock.advance(ms=MAX_AGE_MS)
    assert view.snapshot().ends[Q0] == 2


def test_queues_that_are_added_are_noticed(admin: AdminClient, client: ClusterClient, clock: ManualClock) -> None:
    """A topic that grows is seen to grow within seconds."""
    view = ClusterView(client, ORDERS, AT_ONCE)
    assert len(view.snapshot().ends) == 2
    admin.update_topic("orders", queues=3)
    clock.advance(ms=ROUTE_MAX_AGE_MS)
    assert len(view.snapshot().ends) == 3


def test_topics_that_match_are_noticed(
    mq: LocalCluster, admin: AdminClient, client: ClusterClient, clock: ManualClock
) -> None:
    """subscribePattern sees topics come and go within seconds, and none of RocketMQ's own."""
    view = ClusterView(client, Subscription((), pattern=".*"), AT_ONCE)
    assert set(view.snapshot().ends) == {Q0, Q1}
    client.broker("broker-a").pull(Q0, 0, group="someone")  # brings %RETRY%someone along
    admin.create_topic("more", queues=1)
    clock.advance(ms=MAX_AGE_MS)
    assert set(view.snapshot().ends) == {Q0, Q1}
    clock.advance(ms=ROUTE_MAX_AGE_MS)
    assert set(view.snapshot().ends) == {Q0, Q1, MessageQueue("more", "broker-a", 0)}
    assert not view.is_deleted("more", {"broker-a"})
    admin.delete_topic("more")
    clock.advance(ms=ROUTE_MAX_AGE_MS)
    assert set(view.snapshot().ends) == {Q0, Q1}
    assert view.is_deleted("more", {"broker-a"})
    assert not view.is_deleted("more", {"broker-a", "broker-that-is-away"})


def test_a_topic_that_a_slave_has_not_heard_of_is_not_taken_for_deleted(clock: ManualClock) -> None:
    """Its master knows, and is away; the name server was started since, and has the slave's word alone."""
    config = replace(QUICK, slave_sync_interval=60_000)
    with cluster(broker_config=config) as mq, ClusterClient(mq.namesrv, clock=clock) as client:
        slave = mq.start_slave()
        wait_until(lambda: identity(slave) == identity(mq.brokers["broker-a"]), "the slave knows whose it is")
        with AdminClient(mq.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        mq.stop_broker("broker-a")
        mq.stop_name_server(0)
        mq.start_name_server(0)
        wait_until(lambda: "broker-a" in client.cluster_info().brokerAddrTable, "the slave is registered")
        assert not ClusterView(client, ORDERS, AT_ONCE).is_deleted("orders", {"broker-a"})


def test_committed_offsets_of_a_group(mq: LocalCluster, client: ClusterClient) -> None:
    """What a group never committed is unknown, which is neither the beginning nor the end."""
    send(mq, 3)
    view = ClusterView(client, ORDERS, AT_ONCE)
    assert view.committed("nobody", [Q0, Q1]) == {Q0: None, Q1: None}
    GroupProgress(client).report(Offsets("somebody", {Q0: 0}))
    client.broker("broker-a").commit_offset("somebody", "orders", 0, 2)
    assert view.committed("somebody", [Q0, Q1]) == {Q0: 2, Q1: None}


def test_bytes_are_measured_where_the_broker_can(mq: LocalCluster, client: ClusterClient) -> None:
    """maxBytesPerTrigger is exact on our brokers, and an error that names the way out on stock ones."""
    send(mq, 3)
    view = ClusterView(client, ORDERS, AT_ONCE)
    (whole,) = view.measure([(QueueRange(Q0, 0, 3), 1 << 20)])
    each = whole.size_bytes // 3
    assert view.measure([(QueueRange(Q1, 0, 0), 5), (QueueRange(Q0, 1, 3), each)]) == [(0, 0, 0), (2, each, each)]
    stock = ClusterView(Stock(client), ORDERS, AT_ONCE)  # type: ignore[arg-type]
    with pytest.raises(NotSupported, match=r"maxBytesPerTrigger.*stock RocketMQ broker.*maxOffsetsPerTrigger"):
        stock.measure([(QueueRange(Q0, 0, 3), 1 << 20)])


def test_ends_belong_to_the_store_that_gave_them(client: ClusterClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is started again while it is looked at does not give a store the ends of another."""
    incarnations = iter([1, 2, 2, 2])
    monkeypatch.setattr(BrokerClient, "capabilities", lambda self: Capabilities(incarnation=next(incarnations)))
    assert ClusterView(client, ORDERS, AT_ONCE).snapshot().stores["broker-a"].incarnation == 2
    assert list(incarnations) == []


def test_topics_and_queues_that_are_not_there(client: ClusterClient) -> None:
    """What does not exist is an error that names it, unless its loss is to be borne."""
    both = Subscription(("nowhere", "orders"))
    with pytest.raises(TopicNotFound, match="'nowhere'"):
        ClusterView(client, both, AT_ONCE).snapshot()
    assert set(ClusterView(client, both, AT_ONCE).snapshot(missing_topics_allowed=True).ends) == {Q0, Q1}
    with pytest.raises(TopicNotFound, match="'ordes' does not exist. Did you mean 'orders'\\? Create it with"):
        ClusterView(client, Subscription(("ordes",)), AT_ONCE).snapshot()
    third = Subscription(("orders",), frozenset({MessageQueue("orders", "broker-a", 7)}))
    there = r'There are: {"orders": {"broker-a": \[0, 1\]}}'
    with pytest.raises(InvalidArgument, match=f"orders/broker-a/7, named in assign, does not exist.*{there}"):
        ClusterView(client, third, AT_ONCE).snapshot()
    gone = Subscription(("nowhere",), frozenset({MessageQueue("nowhere", "broker-a", 0)}))
    with pytest.raises(InvalidArgument, match="'nowhere' has no queue there"):
        ClusterView(client, gone, AT_ONCE).snapshot(missing_topics_allowed=True)


def test_retries_are_paced_and_end(clock: ManualClock) -> None:
    """fetchOffset.numRetries tries, first fetchOffset.retryIntervalMs apart, then five times that …, then the error."""
    begun_ms = clock.monotonic_ms()
    with ClusterClient("127.0.0.1:1", clock=clock) as nobody, pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        ClusterView(nobody, ORDERS, RetryPolicy()).snapshot()
    assert clock.monotonic_ms() - begun_ms == 200 + 1000 + 5000
    assert RetryPolicy(4, 1000).pauses_ms == (1000, 5000, 5000, 5000)
    assert RetryPolicy(2, 9000).pauses_ms == (9000, 9000)


def test_a_stream_waits_for_its_only_broker_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that runs would end otherwise; where it begins, six seconds are enough to see that an address is wrong."""
    clock = ManualClock()
    with cluster() as one, ClusterClient(one.namesrv, clock=clock) as client:
        with AdminClient(one.namesrv) as admin:
            admin.create_topic("orders", queues=2)
        view = ClusterView(client, ORDERS, RetryPolicy(for_ms=60_000))
        before = view.snapshot(outages_allowed=True)
        one.stop_broker("broker-a")
        with pytest.raises(Unreachable):
            ClusterView(client, ORDERS, RetryPolicy(for_ms=60_000)).snapshot(outages_allowed=True)
        comes_back(one, clock, monkeypatch, after_ms=50_000)
        assert view.snapshot(fresh=True, outages_allowed=True).ends == before.ends


def test_a_topic_seen_before_may_be_out_of_sight_for_a_moment(
    mq: LocalCluster, admin: AdminClient, clock: ManualClock
) -> None:
    """A name server just started again knows no topics yet: a running query waits for them, a new one does not."""
    registered: list[bool] = [True]

    class Client(ClusterClient):
        def subscribe_queues(self, topic: str) -> list[MessageQueue]:
            if registered.pop():
                registered.append(True)
                return super().subscribe_queues(topic)
            raise TopicNotFound(topic)

    with Client(mq.namesrv, clock=clock) as client:
        view = ClusterView(client, ORDERS, RetryPolicy(2, 1))
        before = view.snapshot()
        registered += [False, False]
        assert view.snapshot(fresh=True) == before
        registered += [False]
        with pytest.raises(TopicNotFound):
            ClusterView(client, ORDERS, RetryPolicy(2, 1)).snapshot()
        registered += [False] * 3
        with pytest.raises(TopicNotFound):
            view.snapshot(fresh=True)


def test_a_broker_that_is_registered_and_not_there_is_left_out_if_that_may_be(
    mq: LocalCluster, client: ClusterClient, clock: ManualClock
) -> None:
    """Its queues are out of sight, where the others can be read on; who needs all of them is told."""
    view = ClusterView(client, ORDERS, AT_ONCE)
    whole = view.snapshot()
    with silent_broker(mq.namesrv, "broker-x", "orders", "others"):
        clock.advance(ms=ROUTE_MAX_AGE_MS)
        with pytest.raises(Unreachable, match="broker-x"):
            view.snapshot()
        assert view.snapshot(outages_allowed=True) == replace(whole, left_out=frozenset({"broker-x"}))
        with pytest.raises(Unreachable, match="broker-x"):
            view.snapshot()
    clock.advance(ms=ROUTE_MAX_AGE_MS)
    assert view.snapshot(outages_allowed=True) == whole


def test_progress_of_a_new_group_is_seen(mq: LocalCluster, client: ClusterClient) -> None:
    """A group drawn by a query is known to the broker with its first report, and its offsets never go back."""
    send(mq, 6)
    send(mq, 2, queue=1)
    broker = client.broker("broker-a")
    GroupProgress(client).report(Offsets("spark-1", {Q0: 5, Q1: 0}))
    assert broker.query_offset("spark-1", "orders", 0) == 5
    again = GroupProgress(client)
    again.report(Offsets("spark-1", {Q0: 3, Q1: 2}))
    assert broker.query_offset("spark-1", "orders", 0) == 5
    assert broker.query_offset("spark-1", "orders", 1) == 2
    again.report(Offsets("spark-1", {Q0: 4, Q1: 2}))
    assert broker.query_offset("spark-1", "orders", 0) == 5
    again.report(Offsets("spark-1", {Q0: 6, Q1: 2}))
    assert broker.query_offset("spark-1", "orders", 0) == 6


def test_a_report_that_failed_is_made_again_though_nothing_is_new(
    mq: LocalCluster, admin: AdminClient, clock: ManualClock
) -> None:
    """An idle query would look as if it were behind, and ever longer, until the next message."""
    is_away = [True]

    class Client(ClusterClient):
        def broker(self, broker_name: str) -> BrokerClient:
            if is_away:
                raise Unreachable("Nobody is there.", address=broker_name)
            return super().broker(broker_name)

    send(mq, 5)
    with Client(mq.namesrv, clock=clock) as client:
        progress, reached = GroupProgress(client), Offsets("spark-3", {Q0: 5})
        progress.report(reached)
        is_away.clear()
        progress.report(reached)
        assert client.broker("broker-a").query_offset("spark-3", "orders", 0) is None, "not a hundred times a second"
        clock.advance(ms=AGAIN_MS)
        progress.report(reached)
        assert client.broker("broker-a").query_offset("spark-3", "orders", 0) == 5


def test_a_broker_that_forgot_the_last_report_is_told_again_though_nothing_is_new() -> None:
    """One that is killed has lost what it was told in its last seconds: an idle query would look as if it were
    behind."""
    with cluster() as mq, ClusterClient(mq.namesrv) as client:
        with AdminClient(mq.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        send(mq, 5)
        progress, reached = GroupProgress(client), Offsets("spark-4", {Q0: 5})
        progress.report(reached)
        mq.stop_broker("broker-a")
        for table in ("consumerOffset", "subscriptionGroup"):
            for path in (mq.store_dir("broker-a") / "config").glob(f"{table}.json*"):
                path.unlink()
        mq.start_broker("broker-a")
        client.broker("broker-a").capabilities()  # as each look at the cluster asks first
        progress.report(reached)
        assert client.broker("broker-a").query_offset("spark-4", "orders", 0) == 5


def test_progress_in_a_topic_is_none_in_the_next_of_its_name(
    mq: LocalCluster, admin: AdminClient, client: ClusterClient
) -> None:
    """Else whoever reads for the group after the query began behind as many messages."""
    query = in_a_stream(client)
    start = query.latest(query.initial(), None)
    send(mq, 3, Q0)
    reached = start.at({Q0: 3, Q1: 0})
    GroupProgress(client).report(reached)
    assert ClusterView(client, ORDERS, AT_ONCE).committed(reached.group, [Q0]) == {Q0: 3}
    admin.delete_topic("orders")
    admin.create_topic("orders", queues=2)
    send(mq, 5, Q0)
    GroupProgress(client).report(reached)
    view = ClusterView(client, ORDERS, AT_ONCE)
    assert view.committed(reached.group, [Q0, Q1]) == {Q0: None, Q1: None}


def test_nothing_is_reported_when_not_wanted(client: ClusterClient) -> None:
    """commitOffsets=false leaves no trace at the broker."""
    GroupProgress(client, enabled=False).report(Offsets("spark-2", {Q0: 5}))
    assert client.broker("broker-a").query_offset("spark-2", "orders", 0) is None


def test_a_query_from_start_to_end(mq: LocalCluster, client: ClusterClient, clock: ManualClock) -> None:
    """Steps follow each other without gap or overlap until there is nothing more."""
    send(mq, 10)
    send(mq, 4, queue=1)
    view, options = ClusterView(client, ORDERS, AT_ONCE), SourceOptions(ORDERS)
    group, rewinds = WholeGroup(GroupProgress(client)), Rewinds(client, AT_ONCE)
    query = Progress(options, view, group, rewinds, clock=clock, entropy=SystemEntropy(1))
    at = Offsets(query.initial().group, {Q0: 0, Q1: 0}, query.initial().stores, {"orders": 0})
    read = 0
    while (after := query.latest(at, Limits(max_rows=5))) != at:
        read += sum(after.positions.values()) - sum(at.positions.values())
        at = after
    assert read == 14
    assert client.broker("broker-a").query_offset(at.group, "orders", 0) == 10


class Stock:
    """A client whose brokers know nothing but RocketMQ's own requests."""

    def __init__(self, client: ClusterClient) -> None:
        self._client, self.clock, self.outages = client, client.clock, client.outages

    def broker(self, name: str) -> StockBroker:
        return StockBroker(self._client.broker(name))


class StockBroker:
    def __init__(self, broker: BrokerClient) -> None:
        self.name, self.submit_pull, self._able = broker.name, broker.submit_pull, broker.capabilities

    def capabilities(self) -> Capabilities:
        """That of a stock broker, but for the store, which is still the one of the ranges."""
        return Capabilities(store_id=self._able().store_id)


def planned(client: ClusterClient, *wanted: tuple[MessageQueue, int, int]) -> list[QueueRange]:
    """Ranges of the topic that is there now."""
    snapshot = ClusterView(client, ORDERS, AT_ONCE).snapshot()
    return [range_in(snapshot.store_of(queue), queue, start, end) for queue, start, end in wanted]


@pytest.mark.parametrize("stock", [False, True])
def test_reading_by_bulk_and_by_pulls_is_the_same(mq: LocalCluster, client: ClusterClient, stock: bool) -> None:
    """A range of a queue comes exactly, tags filtered, from our brokers and from stock ones."""
    for tags in ("a", "b") * 3:
        send(mq, 25, tags=tags)
    reached = Stock(client) if stock else client
    (wanted,) = planned(client, (Q0, 10, 120))

    def read(tags: str | None) -> list[int]:
        options = TaskOptions(tags=tags, retry=AT_ONCE)
        batches = fetch(reached, wanted, options)  # type: ignore[arg-type]
        return [offset for records in batches for offset in records.queue_offsets.tolist()]

    assert read(None) == list(range(10, 120))
    assert read("b") == [offset for offset in range(10, 120) if offset // 25 % 2]
    assert read("c") == []


class QueueByQueue(Stock):
    """Of such brokers, rmqspark's own that answer about one queue at a time."""

    def broker(self, name: str) -> BrokerClient:
        broker = self._client.broker(name)
        able = broker.capabilities()._replace(topics_read=0)
        broker.capabilities = lambda: able  # type: ignore[method-assign]
        return broker


@pytest.mark.parametrize("tags", [None, "b", "c"])
def test_reading_ranges_together_and_one_by_one_is_the_same(
    mq: LocalCluster, client: ClusterClient, tags: str | None
) -> None:
    """From our brokers, from those that answer about one queue at a time, and from stock ones."""
    for tag in ("a", "b") * 2:
        send(mq, 25, tags=tag)
        send(mq, 25, queue=1, tags=tag)
    wanted = planned(client, (Q0, 10, 60), (Q1, 0, 100), (Q0, 60, 61))
    options = TaskOptions(tags=tags, retry=AT_ONCE)

    def read(reached: Any) -> list[tuple[int, int, bytes]]:
        return [
            (queue_id, offset, body)
            for records in fetch_together(reached, wanted, options)
            for queue_id, offset, body in zip(
                records.queue_ids.tolist(), records.queue_offsets.tolist(), records.checked_bodies(), strict=True
            )
        ]

    together = read(client)
    assert len(together) == {None: 151, "b": 75, "c": 0}[tags]
    assert read(QueueByQueue(client)) == read(Stock(client)) == together


def test_a_process_keeps_one_client_for_each_cluster(mq: LocalCluster) -> None:
    """Tasks of one worker share a connection; a forked worker makes its own; one that was closed is replaced."""
    first = shared.shared_client(mq.namesrv)
    assert shared.shared_client(mq.namesrv) is first
    first.close()
    second = shared.shared_client(mq.namesrv)
    assert second is not first
    shared._forget_parent()
    third = shared.shared_client(mq.namesrv)
    assert third is not second
    second.close()
    third.close()

"""Which brokers there are and what they have, without sockets or time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import Busy, InvalidArgument, InvalidName, NoPermission, ServerFault
from rmqspark.namesrv.registration import Master, Registration
from rmqspark.namesrv.route_table import RouteTable
from rmqspark.namesrv.speaker import Speaker
from rmqspark.protocol.bodies.route import DataVersion, QueueData, TopicConfig, TopicConfigTable

A_MASTER = "10.0.0.1:10911"
A_SLAVE = "10.0.0.2:10911"
B_MASTER = "10.0.0.3:10911"
HOST = "10.0.0.1"  # all brokers here come from it


def topics(*names: str, counter: int = 1, state: int = 0, perm: int = 6, flag: int = 0) -> TopicConfigTable:
    configs = {name: TopicConfig(topicName=name, perm=perm, topicSysFlag=flag) for name in names}
    return TopicConfigTable(configs, DataVersion(counter, state, 0))


def broker(
    name: str = "a",
    broker_id: int = 0,
    address: str = A_MASTER,
    *,
    table: TopicConfigTable | None = None,
    connection_id: int = 1,
    **fields: object,
) -> Registration:
    chosen = topics("orders", "bills") if table is None else table
    here = Speaker(connection_id, HOST)
    defaults: dict[str, object] = {"cluster": "c", "speaker": here, "acting_master": False, "topics": chosen}
    return Registration(name=name, broker_id=broker_id, address=address, **{**defaults, **fields})  # type: ignore[arg-type]


def table_of(*registrations: Registration) -> RouteTable:
    table = RouteTable()
    for registration in registrations:
        table.register(registration, 0)
    return table


def queues_of(table: RouteTable, topic: str) -> dict[str, tuple[int, int]]:
    """Broker name → write queues and permission."""
    route = table.route(topic)
    return {} if route is None else {data.brokerName: (data.writeQueueNums, data.perm) for data in route.queueDatas}


def test_a_registered_topic_has_a_route() -> None:
    """What a broker registers can be found, with all its addresses."""
    table = table_of(broker(), broker(broker_id=1, address=A_SLAVE), broker("b", address=B_MASTER))
    route = table.route("orders")
    assert route is not None
    assert {data.brokerName: data.brokerAddrs for data in route.brokerDatas} == {
        "a": {0: A_MASTER, 1: A_SLAVE},
        "b": {0: B_MASTER},
    }
    assert table.route("unknown") is None


def test_cluster_and_lists() -> None:
    """Clusters, their brokers and their topics are listed."""
    table = table_of(broker(), broker("b", address=B_MASTER, cluster="other", table=topics("x", "y")))
    info = table.cluster_info()
    assert info.clusterAddrTable == {"c": ["a"], "other": ["b"]}
    assert sorted(info.brokerAddrTable) == ["a", "b"]
    assert sorted(table.topics()) == ["bills", "orders", "x", "y"]
    assert table.topics_of_cluster("other") == ["x", "y"]
    assert table.topics_of_cluster("nowhere") == []
    assert sorted(table.system_names()) == ["a", "b", "c", "other"]
    assert table.any_address() == A_MASTER


def test_a_broker_is_in_the_cluster_it_named_last() -> None:
    """A broker that registers under another cluster leaves the one before, which goes with its last broker."""
    table = table_of(broker(), broker("b", address=B_MASTER), broker(cluster="other"))
    assert table.cluster_info().clusterAddrTable == {"c": ["b"], "other": ["a"]}
    found = table.broker("a")
    assert found is not None
    assert found.cluster == "other"
    for number in range(100):
        table.register(broker(cluster=f"renamed-{number}"), 0)
    assert table.cluster_info().clusterAddrTable == {"c": ["b"], "renamed-99": ["a"]}
    table.unregister("a", A_MASTER, Speaker(1, HOST))
    assert table.system_names() == ["c", "b"]


@pytest.mark.parametrize(
    "fields",
    [
        {"address": "h" * 300 + ":1"},
        {"ha_address": "h" * 300},
        {"filter_servers": ("h:1",) * 63},
        {"filter_servers": ("h" * 300,)},
    ],
    ids=["address", "HA address", "many filter servers", "a long filter server"],
)
def test_a_broker_cannot_fill_the_table_with_addresses(fields: dict[str, object]) -> None:
    """What a name server keeps of a broker is bounded, whatever the broker sends."""
    table = RouteTable()
    with pytest.raises(InvalidArgument, match="addresses"):
        table.register(broker(**fields), 0)  # type: ignore[arg-type]
    assert table.route("orders") is None


def test_a_living_broker_cannot_be_replaced() -> None:
    """Nobody takes the place of a broker that is alive."""
    table = table_of(broker())
    with pytest.raises(NoPermission, match=A_MASTER):
        table.register(broker(address="6.6.6.6:10911", connection_id=9, table=topics("orders", "forged")), 1)
    assert table.topics() == ["orders", "bills"]
    found = table.broker("a")
    assert found is not None
    assert found.brokerAddrs == {0: A_MASTER}


ELSEWHERE = Speaker(9, "6.6.6.6")


def test_a_living_broker_is_spoken_for_by_its_host_alone() -> None:
    """From elsewhere nobody registers it with another port for slaves or other topics, takes it off, or keeps it."""
    table = table_of(broker(ha_address="10.0.0.1:10912"), broker(broker_id=1, address=A_SLAVE, connection_id=2))
    for forged in (broker(speaker=ELSEWHERE, ha_address="6.6.6.6:10912"), broker(broker_id=7, speaker=ELSEWHERE)):
        with pytest.raises(NoPermission, match=r"alive, and was registered from 10\.0\.0\.1, not 6\.6\.6\.6"):
            table.register(forged, 1)
    with pytest.raises(NoPermission):
        table.unregister("a", A_MASTER, ELSEWHERE)
    slave = broker(broker_id=1, address=A_SLAVE, connection_id=2)
    assert table.register(slave, 1) == Master(A_MASTER, "10.0.0.1:10912")
    table.heartbeat("a", A_MASTER, ELSEWHERE, 120_000)
    assert [live.address for live in table.expire(120_001)] == [A_MASTER]
    table.register(broker(speaker=ELSEWHERE), 120_002)  # it has moved
    assert table.register(slave, 120_003).address == A_MASTER


def test_where_users_are_on_a_broker_is_spoken_for_by_its_user() -> None:
    """It comes again from wherever it is started, and no other user takes its place, be it on the same machine."""
    table = table_of(broker(speaker=Speaker(1, HOST, "servers")))
    with pytest.raises(NoPermission, match="another user"):
        table.register(broker(speaker=Speaker(2, HOST, "ann")), 1)
    with pytest.raises(NoPermission, match="another user"):
        table.unregister("a", A_MASTER, Speaker(3, HOST))
    table.register(broker(speaker=Speaker(4, "10.0.0.9", "servers")), 1)
    assert table.connection_closed(1) == []
    table.unregister("a", A_MASTER, Speaker(4, "10.0.0.9", "servers"))
    assert table.any_address() is None


def test_nor_under_another_cluster() -> None:
    """Claiming another cluster does not make a living broker's place free."""
    with pytest.raises(NoPermission):
        table_of(broker(), broker(address="6.6.6.6:10911", cluster="forged"))


@pytest.mark.parametrize("how", ["closed", "expired", "unregistered"])
def test_a_dead_broker_can_be_replaced(how: str) -> None:
    """A broker that moved to another machine takes its place again once the old one is gone."""
    table = table_of(broker(), broker(broker_id=1, address=A_SLAVE, connection_id=2, timeout_ms=10**9))
    match how:
        case "closed":
            table.connection_closed(1)
        case "expired":
            table.expire(120_001)
        case "unregistered":
            table.unregister("a", A_MASTER, Speaker(1, HOST))
    table.register(broker(address="10.0.0.9:10911"), 120_001)
    found = table.broker("a")
    assert found is not None
    assert found.brokerAddrs == {0: "10.0.0.9:10911", 1: A_SLAVE}


def test_an_older_state_is_ignored() -> None:
    """A master deposed by a controller that comes back is ignored without an error, as in RocketMQ."""
    table = table_of(broker(table=topics("orders", "bills", state=5)))
    assert table.register(broker(address=A_SLAVE, table=topics("x", "y", state=4)), 1) == Master()
    assert table.route("x") is None


def test_a_slave_that_becomes_master_gives_up_its_old_id() -> None:
    """One address has one id."""
    table = table_of(broker(), broker(broker_id=1, address=A_SLAVE, connection_id=2))
    table.connection_closed(1)
    table.register(broker(address=A_SLAVE, connection_id=2), 1)
    found = table.broker("a")
    assert found is not None
    assert found.brokerAddrs == {0: A_SLAVE}


def test_one_topic_alone_needs_a_known_broker() -> None:
    """A broker that announces a single topic before it is known is refused, as in RocketMQ; it registers whole then."""
    table = RouteTable()
    with pytest.raises(ServerFault, match="register broker failed"):
        table.register(broker(table=topics("orders")), 0)
    assert table.cluster_info().clusterAddrTable == {}
    table.register(broker(), 0)
    table.register(broker(table=topics("new", counter=2)), 0)
    assert sorted(table.topics()) == ["bills", "new", "orders"]


def test_queues_change_with_the_version_only() -> None:
    """What an administrator masked stays masked until the broker has a change of its own."""
    table = table_of(broker())
    assert table.set_write_permission("a", allowed=False) == 2
    table.register(broker(), 1)
    assert queues_of(table, "orders") == {"a": (16, 4)}
    table.register(broker(table=topics("orders", "bills", counter=2)), 2)
    assert queues_of(table, "orders") == {"a": (16, 6)}


def test_write_permission_comes_back_outright() -> None:
    """Giving a broker's write permission back sets read and write, whatever was there."""
    table = table_of(broker(table=topics("orders", "bills", perm=7)))
    assert table.set_write_permission("a", allowed=True) == 2
    assert table.set_write_permission("unknown", allowed=True) == 0
    assert queues_of(table, "orders") == {"a": (16, 6)}


def test_a_missing_topic_is_entered_without_a_new_version() -> None:
    """A topic deleted here by mistake comes back with the broker's next registration."""
    table = table_of(broker())
    table.delete_topic("orders")
    assert table.route("orders") is None
    table.register(broker(), 1)
    assert queues_of(table, "orders") == {"a": (16, 6)}


def test_a_topic_that_was_deleted_unnoticed_goes_with_the_next_registration() -> None:
    """A master that says what all its topics are has no others; what other brokers have of them stays."""
    table = table_of(broker(), broker("b", address=B_MASTER))
    table.register(broker(table=topics("bills", counter=2), all_topics=True), 1)
    assert list(queues_of(table, "orders")) == ["b"]
    assert list(queues_of(table, "bills")) == ["a", "b"]
    table.register(broker("b", address=B_MASTER, table=topics("bills", counter=2), all_topics=True), 1)
    assert table.topics() == ["bills"]


def test_what_an_administrator_entered_stays_until_the_broker_changes() -> None:
    """As a permission that was masked does."""
    table = table_of(broker(all_topics=True))
    table.add_topic("new", [QueueData(brokerName="a")])
    table.register(broker(all_topics=True), 1)
    assert "new" in table.topics()
    table.register(broker(table=topics("orders", "bills", counter=2), all_topics=True), 2)
    assert "new" not in table.topics()


def test_some_topics_are_not_all() -> None:
    """RocketMQ's brokers register what changed, or 800 topics at a time: that deletes nothing. Nor does a slave."""
    table = table_of(broker(), broker(table=topics("new", "newer", counter=2)))
    assert sorted(table.topics()) == ["bills", "new", "newer", "orders"]
    table.connection_closed(1)
    assert table.topics() == []
    table.register(broker(broker_id=2, address=A_MASTER, all_topics=True), 1)
    table.register(broker(broker_id=2, address=A_MASTER, table=topics("bills", counter=2), all_topics=True), 2)
    assert sorted(table.topics()) == ["bills", "orders"]


def test_slaves_do_not_speak_for_topics() -> None:
    """A slave's topics count only while there is no master, and only if it is of version 5 or later."""
    table = table_of(broker(), broker(broker_id=1, address=A_SLAVE, connection_id=2, table=topics("x", "y")))
    assert table.route("x") is None
    table.connection_closed(1)
    slave = broker(broker_id=1, address=A_SLAVE, connection_id=2, table=topics("x", "y", counter=2))
    table.register(replace(slave, acting_master=None), 1)
    assert table.route("x") is None
    table.register(replace(slave, topics=topics("x", "y", counter=3)), 1)
    assert queues_of(table, "x") == {"a": (16, 6)}


def test_an_acting_master_takes_no_messages() -> None:
    """A slave that acts as master is read from only."""
    table = table_of(broker(broker_id=1, address=A_SLAVE, acting_master=True))
    assert queues_of(table, "orders") == {"a": (16, 4)}


def test_the_loss_of_a_master_masks_its_topics_for_acting_masters() -> None:
    """When the master of such a pair goes, its topics lose the write permission."""
    table = table_of(
        broker(acting_master=True), broker(broker_id=1, address=A_SLAVE, connection_id=2, acting_master=True)
    )
    table.connection_closed(1)
    assert queues_of(table, "orders") == {"a": (16, 4)}


def test_a_slave_is_told_its_master() -> None:
    """A slave learns from its registration whom to follow."""
    table = table_of(broker(ha_address="10.0.0.1:10912"))
    slave = broker(broker_id=1, address=A_SLAVE, connection_id=2)
    assert table.register(slave, 1) == Master(A_MASTER, "10.0.0.1:10912")
    table.connection_closed(1)
    assert table.register(slave, 1) == Master()


def test_silence_that_nobody_could_hear_does_not_count() -> None:
    """Of a server that was stopped for a while; nobody is heard later than now for that."""
    table = table_of(broker(timeout_ms=1_000), broker("b", address=B_MASTER, connection_id=2, timeout_ms=2_000))
    table.heartbeat("b", B_MASTER, Speaker(2, HOST), 600_000)
    table.excuse(600_000, 600_500)
    assert table.expire(601_000) == []
    assert [live.address for live in table.expire(601_001)] == [A_MASTER]
    assert table.expire(602_500) == []
    assert [live.address for live in table.expire(602_501)] == [B_MASTER]


def test_expiry() -> None:
    """A broker that falls silent is dropped after its own timeout, not a moment before; a heartbeat keeps it."""
    table = table_of(broker(timeout_ms=1_000), broker("b", address=B_MASTER, connection_id=2, timeout_ms=2_000))
    assert table.expire(1_000) == []
    table.heartbeat("b", B_MASTER, Speaker(2, HOST), 1_000)
    table.heartbeat("nobody", B_MASTER, Speaker(2, HOST), 1_000)
    assert [live.address for live in table.expire(1_001)] == [A_MASTER]
    assert table.expire(3_000) == []
    assert [live.address for live in table.expire(3_001)] == [B_MASTER]
    assert table.topics() == []


def test_a_broken_connection_unregisters_exactly_its_brokers() -> None:
    """When a connection ends, what it registered goes, unless a newer connection registered it again."""
    table = table_of(broker(), broker("b", address=B_MASTER, connection_id=2))
    table.register(broker(connection_id=3), 1)
    assert table.connection_closed(1) == []
    assert [live.name for live in table.connection_closed(2)] == ["b"]
    assert sorted(table.cluster_info().brokerAddrTable) == ["a"]


def test_a_registration_over_an_older_connection_is_late() -> None:
    """The broker has registered over a new one since: what it had no more is not back, what is new does not go, and
    the end of the older connection is not the broker's. A broker whose store was put back has older versions, too."""
    table = table_of(broker(connection_id=1), broker(connection_id=2, table=topics("orders", "new", counter=2)))
    late = broker(connection_id=1, table=topics("orders", "bills"), all_topics=True)
    assert table.register(late, 1) == Master()
    assert (queues_of(table, "new"), table.data_version("a", A_MASTER)) == ({"a": (16, 6)}, DataVersion(2, 0, 0))
    assert table.connection_closed(1) == []
    table.register(replace(late, speaker=Speaker(3, HOST)), 2)
    assert sorted(table.topics()) == ["bills", "orders"]
    table.connection_closed(3)
    table.register(late, 3)
    assert sorted(table.topics()) == ["bills", "orders"]


def test_a_goodbye_over_an_older_connection_is_late() -> None:
    """The broker has come again over a new one since, and stays; what it says there itself is heard."""
    table = table_of(broker(connection_id=1), broker(connection_id=2))
    table.unregister("a", A_MASTER, Speaker(1, HOST))
    assert (queues_of(table, "orders"), table.any_address()) == ({"a": (16, 6)}, A_MASTER)
    table.unregister("a", A_MASTER, Speaker(2, HOST))
    assert table.topics() == []


def test_a_late_registration_of_a_slave_is_answered_as_the_last_one() -> None:
    """It learns its master."""
    table = table_of(broker(), broker(broker_id=1, address=A_SLAVE, connection_id=3))
    assert table.register(broker(broker_id=1, address=A_SLAVE, connection_id=2), 1).address == A_MASTER


def test_topics_are_deleted_by_cluster_or_everywhere() -> None:
    """A topic is deleted on one cluster's brokers only, or on all."""
    table = table_of(broker(), broker("b", address=B_MASTER, cluster="other"))
    table.delete_topic("orders", "other")
    assert list(queues_of(table, "orders")) == ["a"]
    table.delete_topic("orders", "nowhere")
    table.delete_topic("orders")
    table.delete_topic("never there")
    assert table.route("orders") is None


def test_topics_entered_by_hand() -> None:
    """An administrator enters a topic's queues; those of an unknown broker end it."""
    table = table_of(broker())
    table.add_topic("hand", [QueueData("a", 4, 4, 6), QueueData("ghost", 4, 4, 6)])
    assert queues_of(table, "hand") == {"a": (4, 6)}


def test_unit_topics() -> None:
    """Topics are found by their flags."""
    table = table_of(
        broker(table=topics("plain", "other")), broker("b", address=B_MASTER, table=topics("u", "v", flag=1))
    )
    assert table.topics_flagged(lambda flag: flag & 1 != 0) == ["u", "v"]


def test_filter_servers() -> None:
    """Filter servers of 4.x brokers are told with the route, and forgotten when they are not registered any more."""
    table = table_of(broker(filter_servers=("10.0.0.1:9999",)))
    route = table.route("orders")
    assert route is not None
    assert route.filterServerTable == {A_MASTER: ["10.0.0.1:9999"]}
    table.register(broker(), 1)
    route = table.route("orders")
    assert route is not None
    assert route.filterServerTable == {}


@pytest.mark.parametrize("name", ["", "x" * 256, "two words", "line\nbreak", "nul\0", "tab\t"])
@pytest.mark.parametrize("field", ["name", "cluster", "topic"])
def test_names(name: str, field: str) -> None:
    """Names that would spoil logs and lists are refused."""
    wrong = broker(table=topics(name, "other")) if field == "topic" else replace(broker(), **{field: name})
    with pytest.raises(InvalidName):
        RouteTable().register(wrong, 0)


def test_bounds() -> None:
    """The table is bounded: a stranger cannot fill the memory with brokers or topics."""
    table = RouteTable(max_brokers=1, max_topics=2)
    table.register(broker(), 0)
    table.register(broker(), 1)
    with pytest.raises(Busy, match="brokers"):
        table.register(broker("b", address=B_MASTER), 1)
    with pytest.raises(Busy, match="topics"):
        table.register(broker(table=topics("orders", "bills", "third", counter=2)), 1)
    with pytest.raises(Busy, match="topics"):
        table.add_topic("third", [])
    table.add_topic("orders", [])


def test_one_host_takes_half_of_the_room() -> None:
    """Brokers of others find some. Who is there already says what it likes, and who goes makes room."""
    table = RouteTable(max_brokers=5)
    for number in range(3):
        table.register(broker(f"b{number}", address=f"10.0.1.{number}:10911", connection_id=number), 0)
    with pytest.raises(Busy, match="3 brokers are registered from 10.0.0.1 already, of 5"):
        table.register(broker("late", address=B_MASTER, connection_id=9), 0)
    table.register(broker("b0", address="10.0.1.0:10911", connection_id=0), 1)
    table.register(broker("other", address=B_MASTER, speaker=Speaker(10, "10.0.0.9")), 1)
    table.connection_closed(0)
    table.register(broker("late", address=A_SLAVE, connection_id=9), 1)


def test_topics_of_all_brokers_are_bounded_together() -> None:
    """Each broker may say that it has all topics: that memory is theirs times each other."""
    table = RouteTable(max_topics=3)
    many = topics("orders", "bills", "tips")
    for number in range(20):
        table.register(broker(f"b{number}", address=f"10.0.1.{number}:10911", connection_id=number, table=many), 0)
    for _ in range(2):
        table.register(broker("b0", address="10.0.1.0:10911", connection_id=0, table=many), 1)
        with pytest.raises(Busy, match="All brokers together have 60 topics and 3 more would be too many"):
            table.register(broker("late", address=B_MASTER, connection_id=99, table=many), 1)
        with pytest.raises(Busy, match="together"):
            table.add_topic("orders", [])
    table.connection_closed(0)
    table.register(broker("late", address=B_MASTER, connection_id=99, table=many), 1)
    for number in range(1, 20):
        table.connection_closed(number)
    table.connection_closed(99)
    assert (table.topics(), table._topics._places) == ([], 0)


def test_topics_that_a_registration_drops_make_room() -> None:
    """A full name server takes what fits. What other brokers have as well stays, and what it must stay for."""
    table = RouteTable(max_topics=3)
    table.register(broker(table=topics("orders", "bills")), 0)
    table.register(broker("b", address=B_MASTER, connection_id=2, table=topics("bills", "tips")), 0)
    one_too_many = broker(table=topics("orders", "fresh", counter=2), all_topics=True)
    with pytest.raises(Busy, match="topics"):
        table.register(one_too_many, 1)
    assert sorted(table.topics()) == ["bills", "orders", "tips"]
    table.register(broker(table=topics("bills", "fresh", counter=2), all_topics=True), 1)
    assert sorted(table.topics()) == ["bills", "fresh", "tips"]
    with pytest.raises(Busy, match="topics"):
        table.register(broker(table=topics("bills", "other", counter=3)), 1)  # it may have "fresh" still


names = st.sampled_from(["a", "b", "c"])
clusters = st.sampled_from(["c", "d"])
addresses = st.sampled_from([f"10.0.0.{number}:10911" for number in range(4)])
steps = st.one_of(
    st.tuples(st.just("register"), names, st.integers(0, 2), addresses, st.integers(1, 3), st.integers(0, 3), clusters),
    st.tuples(st.just("unregister"), names, addresses),
    st.tuples(st.just("close"), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.integers(0, 90_000)),
    st.tuples(st.just("delete"), st.sampled_from(["t0", "t1", "t2"])),
)


@pytest.mark.property
@given(st.lists(steps, max_size=30))
def test_nothing_points_nowhere(history: list[tuple[object, ...]]) -> None:
    """Whatever brokers do, every route leads to living addresses, no id moves while alive, and nothing is left over."""
    table = RouteTable()
    now_ms = 0
    for step in history:
        before = {name: dict(data.brokerAddrs) for name, data in table.cluster_info().brokerAddrTable.items()}
        match step:
            case ("register", str(name), int(broker_id), str(address), int(connection), int(counter), str(cluster)):
                configs = topics(*(f"t{number}" for number in range(counter)), counter=counter)
                registration = broker(
                    name, broker_id, address, table=configs, connection_id=connection, cluster=cluster
                )
                try:
                    table.register(registration, now_ms)
                except NoPermission:
                    assert before[name][broker_id] != address
                except ServerFault:
                    assert broker_id not in before.get(name, {})
            case ("unregister", str(name), str(address)):
                table.unregister(name, address, Speaker(9, HOST))
            case ("close", int(connection)):
                table.connection_closed(connection)
            case ("wait", int(duration_ms)):
                now_ms += duration_ms
                table.expire(now_ms)
            case ("delete", str(topic)):
                table.delete_topic(topic)
        assert_consistent(table)
    table.expire(now_ms + 120_001)
    assert (table.topics(), table.system_names(), table.any_address()) == ([], [], None)


def assert_consistent(table: RouteTable) -> None:
    info = table.cluster_info()
    assert sorted(name for members in info.clusterAddrTable.values() for name in members) == sorted(
        info.brokerAddrTable
    )
    for name, data in info.brokerAddrTable.items():
        assert name in info.clusterAddrTable[data.cluster]
        assert data.brokerAddrs
        assert len(set(data.brokerAddrs.values())) == len(data.brokerAddrs)
        assert all(table.data_version(name, address) is not None for address in data.brokerAddrs.values())
    for topic in table.topics():
        route = table.route(topic)
        assert route is not None
        assert {data.brokerName for data in route.queueDatas} == {data.brokerName for data in route.brokerDatas}

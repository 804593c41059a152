"""The registry of clients: membership by connection, subscriptions by version, silence."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import pytest

from rmqspark.broker.clients import ClientRegistry
from rmqspark.broker.online_groups import Member
from rmqspark.errors import Busy
from rmqspark.protocol.bodies.client import ConsumerData, SubscriptionData
from tests.bytecodes import bytecodes


def member(connection: int, client: str = "", seen_ms: int = 0, address: str = "10.0.0.1") -> Member:
    peer = SimpleNamespace(id=connection, peer=(address, 50_000 + connection))
    return Member(peer, client or f"c{connection}", "JAVA", 479, seen_ms)


def consumer(*topics: str, version: int = 1, group: str = "g", expression: str = "*", model: str = "CLUSTERING"):
    subscriptions = [SubscriptionData(topic, subString=expression, subVersion=version) for topic in topics]
    return ConsumerData(group, messageModel=model, subscriptionDataSet=subscriptions)


def registry(max_groups: int = 10) -> ClientRegistry:
    return ClientRegistry(expiry_ms=120_000, max_groups=max_groups)


def test_a_group_changes_when_members_or_topics_come_and_go() -> None:
    """Only then its members have to rebalance; a heartbeat that repeats itself disturbs nobody."""
    clients = registry()
    assert clients.register_consumer(consumer("orders"), member(1)) is True
    assert clients.register_consumer(consumer("orders"), member(1)) is False
    assert clients.register_consumer(consumer("orders"), member(2)) is True
    assert clients.register_consumer(consumer("orders", "invoices"), member(1)) is True
    assert clients.register_consumer(consumer("orders"), member(1)) is True
    assert clients.unregister_consumer("g", 1) is True
    assert clients.unregister_consumer("g", 1) is False


def test_how_a_group_is_divided_is_what_those_say_who_are_there() -> None:
    """One that has left, or was never there, leaves no difference behind."""
    clients = registry()
    assert clients.divided_by("g", "c1", "circle") == []
    for number in (1, 2):
        clients.register_consumer(consumer("orders"), member(number))
    assert clients.divided_by("g", "c1", "circle") == ["circle"]
    assert clients.divided_by("g", "c9", "config") == ["circle"]
    assert clients.divided_by("g", "c2", "averagely") == ["averagely", "circle"]
    clients.unregister_consumer("g", 1)
    assert clients.divided_by("g", "c2", "averagely") == ["averagely"]


def test_an_older_subscription_does_not_replace_a_newer_one() -> None:
    """Heartbeats of several members cross each other: the highest subVersion counts."""
    clients = registry()
    clients.register_consumer(consumer("orders", version=5, expression="paid"), member(1))
    clients.register_consumer(consumer("orders", version=4, expression="*"), member(2))
    group = clients.consumer_group("g")
    assert group is not None
    assert group.subscriptions["orders"].subString == "paid"
    clients.register_consumer(consumer("orders", version=6, expression="*"), member(2))
    assert group.subscriptions["orders"].subString == "*"


def test_a_heartbeat_without_subscriptions_keeps_them() -> None:
    """RocketMQ's heartbeat V2 sends them only when they change."""
    clients = registry()
    clients.register_consumer(consumer("orders"), member(1))
    assert clients.register_consumer(consumer(), member(1), keep_subscriptions=True) is False
    assert clients.groups_subscribed_to("orders") == ["g"]


def test_what_consumers_subscribe_to_has_bounds() -> None:
    """All groups of a broker share them; a heartbeat that is too much changes nothing, and what goes makes room."""
    clients = ClientRegistry(expiry_ms=120_000, max_groups=10, max_subscription_bytes=10_000)
    clients.register_consumer(consumer("orders", expression="x" * 4_000), member(1))
    clients.register_consumer(consumer("orders", group="h", expression="x" * 4_000), member(1))
    for group in ("g", "i"):
        with pytest.raises(Busy, match="subscribe"):
            clients.register_consumer(consumer("bills", "orders", group=group, expression="x" * 4_000), member(2))
    assert (clients.groups_subscribed_to("bills"), clients.consumer_group("i")) == ([], None)
    clients.register_consumer(consumer("orders", version=2), member(1))
    clients.drop_connection(1)
    for group in ("g", "h"):
        clients.register_consumer(consumer("orders", group=group, expression="x" * 4_000), member(3))


def test_clients_are_listed_once_in_the_order_they_came() -> None:
    """Also one that came back on a new connection while the old one is not noticed to be dead."""
    clients = registry()
    for connection, client in ((1, "b"), (2, "a"), (3, "b")):
        clients.register_consumer(consumer("orders"), member(connection, client))
    group = clients.consumer_group("g")
    assert group is not None
    assert group.client_ids() == ["b", "a"]


def test_the_end_of_a_connection_ends_all_its_memberships() -> None:
    """And the groups that lost somebody are named, so that the others can be told."""
    clients = registry()
    clients.register_producer("p", member(1))
    clients.register_consumer(consumer("orders", group="g"), member(1))
    clients.register_consumer(consumer("orders", group="h"), member(1))
    clients.register_consumer(consumer("orders", group="h"), member(2))
    assert clients.drop_connection(1) == ["g", "h"]
    assert clients.consumer_group("g") is None
    assert clients.producers("p") == []
    assert clients.drop_connection(1) == []


def test_the_end_of_a_connection_costs_no_more_where_there_are_many_groups() -> None:
    """Thousands end in the moment in which a network fails: a look at all groups for each would stop the broker."""

    def cost(groups: int) -> int:
        clients = registry(max_groups=2 * groups)
        for number in range(groups):
            clients.register_producer(f"p{number}", member(number))
            clients.register_consumer(consumer("orders", group=f"g{number}"), member(number))
        return bytecodes(lambda: clients.drop_connection(groups // 2))

    assert cost(500) == cost(5)


def test_clients_without_heartbeats_are_dropped() -> None:
    """After two minutes of silence, not before."""
    clients = registry()
    clients.register_consumer(consumer("orders"), member(1, seen_ms=0))
    clients.register_consumer(consumer("orders"), member(2, seen_ms=50_000))
    clients.register_producer("p", member(1, seen_ms=0))
    assert clients.expire(120_000) == []
    assert clients.expire(120_001) == ["g"]
    group = clients.consumer_group("g")
    assert group is not None
    assert group.client_ids() == ["c2"]
    assert list(clients.producer_groups()) == []


def test_silence_that_nobody_could_hear_does_not_count() -> None:
    """Of a broker that was stopped for a while: its clients are there still, each as silent as it was before."""
    clients = registry()
    for client, seen_ms in ((1, 0), (2, 50_000)):
        heard = member(client, seen_ms=seen_ms)
        clients.register_consumer(consumer("orders"), heard)
        clients.register_producer("p", heard)
    clients.excuse(600_000, 660_000)
    assert clients.expire(720_000) == []
    assert clients.expire(720_001) == ["g"]
    assert [each.client_id for each in clients.producers("p")] == ["c2"]
    clients.excuse(0, 720_001)
    assert clients.expire(770_001) == ["g"]


def test_a_broker_knows_a_bounded_number_of_groups() -> None:
    """Heartbeats with invented names cannot fill its memory."""
    clients = registry(max_groups=1)
    clients.register_producer("a", member(1))
    clients.register_producer("a", member(2))
    with pytest.raises(Busy):
        clients.register_producer("b", member(1))
    clients.register_consumer(consumer("orders", group="a"), member(1))
    with pytest.raises(Busy):
        clients.register_consumer(consumer("orders", group="b"), member(1))


def test_one_address_makes_half_of_the_groups_at_most() -> None:
    """Others find room, whatever it invents; it may join theirs, and gets its part back when its own have gone."""
    clients = registry(max_groups=4)
    for number, name in enumerate(["a", "b"]):
        clients.register_producer(name, member(number))
        clients.register_consumer(consumer("orders", group=name), member(number))
    for _ in range(2):
        with pytest.raises(Busy, match=r"clients at 10\.0\.0\.1 get 2 of 4 places"):
            clients.register_producer("c", member(2))
        with pytest.raises(Busy, match=r"10\.0\.0\.1 get 2 of 4"):
            clients.register_consumer(consumer("orders", group="c"), member(2))
        clients.register_producer("theirs", member(3, address="10.0.0.2"))
        clients.register_consumer(consumer("orders", group="theirs"), member(3, address="10.0.0.2"))
        clients.register_producer("theirs", member(2))
        clients.register_consumer(consumer("orders", group="theirs"), member(2))
    clients.drop_connection(0)
    clients.register_producer("c", member(2))
    clients.register_consumer(consumer("orders", group="c"), member(2))
    assert clients.expire(1 << 40) != []
    for number in range(2):
        clients.register_producer(f"again{number}", member(9))


def test_connections_are_in_so_many_groups_together() -> None:
    """Each may name thousands in a heartbeat, and one address may have thousands of connections: others find room, who
    is there already stays, and what ends makes room."""
    clients = ClientRegistry(expiry_ms=120_000, max_groups=100, max_memberships=40)
    joined = []
    for number in range(1_000):
        connection, group = number % 50, f"g{number % 7}"
        with suppress(Busy):
            clients.register_producer(group, member(connection))
            joined.append((group, connection))
        with suppress(Busy):
            clients.register_consumer(consumer("orders", group=group), member(connection))
            joined.append((group, connection))
    assert len(set(joined)) <= 20
    with pytest.raises(Busy, match=r"clients at 10\.0\.0\.1 get 20 of 40 places"):
        clients.register_consumer(consumer("orders", group="fresh"), member(60))
    assert clients.consumer_group("fresh") is None
    for number in range(20):
        clients.register_producer("theirs", member(100 + number, address="10.0.0.2"))
    for connection in range(50):
        clients.drop_connection(connection)
    assert len(clients.producers("theirs")) == 20
    for number in range(20):
        clients.register_producer("again", member(200 + number))
        clients.register_producer("again", member(200 + number, seen_ms=7))
    assert clients.expire(1 << 40) == []
    assert clients._memberships._of == {}


def test_broadcasting_groups_are_known_as_such() -> None:
    """They divide nothing, so nobody is told to rebalance."""
    clients = registry()
    clients.register_consumer(consumer("orders", model="BROADCASTING"), member(1))
    group = clients.consumer_group("g")
    assert group is not None
    assert group.broadcasts


def called(clients: ClientRegistry, client_id: str) -> int | None:
    found = clients.producer_called(client_id)
    return None if found is None else found.connection.id


def test_a_producer_is_found_by_its_client_id_while_it_is_in_any_group() -> None:
    """Replies are for a client, whatever its groups; of two connections the one that was heard last counts."""
    clients = registry()
    for group, connection in (("g", 2), ("g", 1), ("h", 1), ("g", 2)):
        clients.register_producer(group, member(connection, "c"))
    assert (called(clients, "c"), called(clients, "d")) == (2, None)
    clients.drop_connection(2)
    clients.unregister_producer("g", 1)
    assert called(clients, "c") == 1
    clients.unregister_producer("h", 1)
    assert called(clients, "c") is None


def test_a_producer_that_changes_its_client_id_is_found_by_the_new_one_alone() -> None:
    """Nothing is left behind of ids that a connection invents with each heartbeat, nor of one that falls silent."""
    clients = registry()
    for number in range(3):
        clients.register_producer("g", member(1, f"c{number}"))
    assert [called(clients, f"c{number}") for number in range(3)] == [None, None, 1]
    clients.expire(now_ms=120_001)
    assert clients._producer_ids._members == {}

"""Changes that are about two brokers, one of which refuses, or is without its master: who asked knows what is done."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.administration.admin_access import create_user, update_user
from rmqspark.client.administration.admin_groups import delete_group
from rmqspark.client.administration.admin_topics import delete_topic
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import Busy, NotWritable, Unreachable
from rmqspark.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, expect, wait_for_close

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.testing.scripted_peer import Step

A, B = "broker-a", "broker-b"
ASKED_BROKERS, ASKED_ROUTE = expect(RequestCode.GET_BROKER_CLUSTER_INFO), expect(RequestCode.GET_ROUTEINFO_BY_TOPIC)
HAS_GROUP = expect(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
UPDATE_USER = expect(RequestCode.AUTH_UPDATE_USER)


def playing(*script: Step) -> ScriptedPeer:
    """One that nothing is to be asked of takes no connection."""
    return ScriptedPeer([*script, wait_for_close()]) if script else ScriptedPeer()


@contextmanager
def client(a: ScriptedPeer, b: ScriptedPeer, asked: Step, *, b_id: int = 0) -> Iterator[ClusterClient]:
    """Of two brokers and the one thing that their name server is asked."""
    there = {A: BrokerData("c", A, {0: a.address}), B: BrokerData("c", B, {b_id: b.address})}
    route = TopicRouteData([QueueData(name, 2, 2, 6) for name in (A, B)], [*there.values()])
    body = ClusterInfo(there, {"c": [A, B]}).encode() if asked is ASKED_BROKERS else route.encode(standard=True)
    with a, b, playing(asked, answer(body=body)) as names, ClusterClient(names.address) as connected:
        yield connected


def test_it_is_said_on_which_servers_a_user_is_changed() -> None:
    """In the message, with which broker refused it, as for topics and groups."""
    a, b = playing(UPDATE_USER, answer()), playing(UPDATE_USER, answer(ResponseCode.SYSTEM_BUSY, remark="busy"))
    with client(a, b, ASKED_BROKERS) as cluster, pytest.raises(Busy) as error:
        update_user(cluster, "ann", None, None, enabled=False)
    assert error.value.message == f"{B}: busy. It is done for {A}, and for nothing behind."


def test_no_user_is_changed_where_a_master_would_not_know() -> None:
    """A slave has its users from its master. On no broker, and not only on those that have one."""
    with (
        client(playing(), playing(), ASKED_BROKERS, b_id=1) as cluster,
        pytest.raises(NotWritable, match=f"Of {B} only a slave is there"),
    ):
        update_user(cluster, "ann", None, None, enabled=False)


def test_a_user_who_is_made_nowhere_is_no_success() -> None:
    """A stock name server has no users, and no broker is registered."""
    nobody = answer(body=ClusterInfo({}, {}).encode())
    unsupported = answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    asked = playing(ASKED_BROKERS, nobody, expect(RequestCode.AUTH_CREATE_USER), unsupported)
    with asked as names, ClusterClient(names.address) as cluster, pytest.raises(Unreachable, match="No broker"):
        create_user(cluster, "ann", "secret", "normal")


def test_a_topic_stays_whose_master_would_bring_it_back() -> None:
    """It is deleted nowhere, and not only where a master is: it would be listed again within seconds."""
    with (
        client(playing(), playing(), ASKED_ROUTE, b_id=1) as cluster,
        pytest.raises(NotWritable, match=f"'orders' is on {B}, too, where only a slave is"),
    ):
        delete_topic(cluster, "orders")


def test_a_group_stays_whose_master_would_bring_it_back() -> None:
    """It is deleted nowhere, and not only where a master is."""
    a, b = playing(HAS_GROUP, answer(body=b"{}")), playing(HAS_GROUP, answer(body=b"{}"))
    with (
        client(a, b, ASKED_BROKERS, b_id=1) as cluster,
        pytest.raises(NotWritable, match=f"'billing' is on {B}, too, where only a slave is"),
    ):
        delete_group(cluster, "billing")

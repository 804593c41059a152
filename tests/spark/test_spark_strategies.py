"""Each way to divide a group's queues between its members, with a real query as one of two."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.group_reading import Member
from rmqspark.model import MessageQueue
from rmqspark.rebalance.strategies import Strategy
from rmqspark.source.groups.membership import Membership
from rmqspark.testing import cluster

from .checkpoints import offset_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Batches, Topic

    from rmqspark.testing import LocalCluster

    Run = Callable[[Any], Batches]

pytestmark = pytest.mark.spark

BROKERS = ("east@a", "west@b")
PLACES = [(broker, queue_id) for broker in BROKERS for queue_id in range(2)]
OTHER = "west@10.0.0.9@other"  # behind every query's client id, which begins with an address or its room


@pytest.fixture(scope="module")
def rooms() -> Iterator[LocalCluster]:
    """Two brokers, each in a machine room of its own."""
    with cluster(brokers=0) as running:
        for name in BROKERS:
            running.start_broker(name)
        yield running


@pytest.fixture
def orders(topic: Topic, rooms: LocalCluster) -> Topic:
    """A topic with two queues on each, and in each queue one message that says which it is."""
    there = replace(topic, namesrv=rooms.namesrv)
    rows = [(f"{broker}/{queue_id}", number) for number, (broker, queue_id) in enumerate(PLACES)]
    frame = topic.spark.createDataFrame(rows, "body string, queueId int").coalesce(1)
    there.write(frame, partitioner="column", autoCreateTopic=True, queues=2)
    return there


@pytest.fixture
def share_of(orders: Topic, run: Run) -> Iterator[Callable[..., set[str]]]:
    """What a query of the group reads, which is called as the topic is, while somebody else is a member, too."""
    queues = [MessageQueue(orders.name, *place) for place in PLACES]
    with ClusterClient(orders.namesrv) as client:
        Membership(client, Member(orders.name, OTHER), None).announce(queues)

        def share(stream: Any) -> set[str]:
            bodies = run(stream).bodies
            assert len(bodies) == len(set(bodies))
            return set(bodies)

        yield share


def shared(orders: Topic, strategy: str) -> dict[str, Any]:
    """The options of a member of the group."""
    of_group = {"group": orders.name, "groupMode": "shared", "groupOffsetReset": "earliest"}
    return of_group | {"allocateStrategy": strategy}


@pytest.mark.parametrize(
    ("strategy", "share"),
    [
        ("circle", {"east@a/0", "west@b/0"}),
        ("machine-room:west", {"west@b/0"}),
        ("machine-room", {"east@a/0", "east@a/1"}),  # all rooms: the first half of what there is
        ("machine-room-nearby:north", {"east@a/0"}),  # the other one lives in the west, nobody in the east
    ],
)
def test_a_share_is_the_strategy_s(
    orders: Topic, share_of: Callable[..., set[str]], strategy: str, share: set[str]
) -> None:
    """A query reads the queues that RocketMQ's strategy gives to the first of two members, and no other."""
    assert share_of(orders.stream("body binary", **shared(orders, strategy))) == share


def test_a_share_by_hash(orders: Topic, share_of: Callable[..., set[str]], tmp_path: Path) -> None:
    """consistent-hash goes by the names of members and queues: the share is that of the name the query has drawn."""
    read = share_of(orders.stream("body binary", **shared(orders, "consistent-hash")))
    member = offset_of(tmp_path / "checkpoint").member
    queues = [MessageQueue(orders.name, *place) for place in PLACES]
    wanted = Strategy("consistent-hash").allocate(member, queues, [member, OTHER])
    assert read == {f"{queue.broker_name}/{queue.queue_id}" for queue in wanted}


def test_a_share_that_is_named(orders: Topic, share_of: Callable[..., set[str]]) -> None:
    """allocateStrategy=config reads what `assign` names, whoever else is a member."""
    reader = orders.spark.readStream.format("rmq").schema("body binary").option("namesrv", orders.namesrv)
    reader.option("assign", json.dumps({orders.name: {"west@b": [1]}})).options(**shared(orders, "config"))
    assert share_of(reader.load()) == {"west@b/1"}

"""Queues of a shared group whose member died just after its last batch was decided, and the coordinator with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rmqspark.fault_points import arm
from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody, GroupLeasesBody, LeasedQueue
from rmqspark.protocol.bodies.txn import InputRange, TxnDecision
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.consume import GroupLeasesRequestHeader

from .test_broker_transactions import T, with_cluster

if TYPE_CHECKING:
    from .test_broker_transactions import Cluster

pytestmark = pytest.mark.integration

LEASE_MS = 300


async def take(cluster: Cluster, member: str) -> GroupLeasesAnswerBody:
    body = GroupLeasesBody(take=[LeasedQueue("out", "b", 0)])
    answer = await cluster.ask(
        "b", RequestCode.RMQ_GROUP_LEASES, GroupLeasesRequestHeader("group", member), body.encode()
    )
    return GroupLeasesAnswerBody.decode(answer.raise_for_code().body)


async def decided_without_a_word(cluster: Cluster) -> None:
    """A member has read the one row of b's queue and written it with a batch. Its coordinator, a, is gone as soon as
    that is decided."""
    await cluster.stop("b")
    await cluster.start("b", consume_group_lock_live_time=LEASE_MS)
    assert await cluster.write("a", "r1", 0, "b") == "COMMITTED"
    prepared = await cluster.prepare("a", "r1", 1)
    held = {"a": [await cluster.hold("a", prepared.epoch, 1, "1")]}
    told = await take(cluster, "m")
    read = InputRange("group", "out", "b", 0, 0, 1, "m", told.held[0].lease, "run", told.run)
    arm("after_decide", "raise")
    answer = await cluster.decide("a", "r1", prepared.epoch, 1, TxnDecision("q", held, rows=1, inputs=[read]))
    assert answer.code != ResponseCode.SUCCESS
    await cluster.stop("a")


async def is_waited_for(cluster: Cluster) -> None:
    """The lease has run out, and a does not answer."""
    while not cluster.brokers["b"]._parts.orphaned_leases._waiting:
        assert (await take(cluster, "other")).held == []
        await asyncio.sleep(0.05)
    assert (await take(cluster, "other")).held == []


async def is_complete(cluster: Cluster) -> None:
    """The rows of a are on its disk, and it knows that."""
    txn = cluster.brokers["a"]._parts.coordination.ledger.require(T)
    while True:
        if "a" not in txn.brokers_left():
            return
        await asyncio.sleep(0.05)


async def place_of_next(cluster: Cluster) -> int:
    """Where the next member of the group begins."""
    while True:
        if held := (await take(cluster, "other")).held:
            return held[0].offset
        await asyncio.sleep(0.05)


@with_cluster("a", "b")
async def test_the_next_member_begins_behind_what_was_decided(cluster: Cluster) -> None:
    """Not before its coordinator is back and has said so: that row would be written twice."""
    await decided_without_a_word(cluster)
    await is_waited_for(cluster)
    await cluster.start("a")
    assert await place_of_next(cluster) == 1


@with_cluster("a", "b")
async def test_that_somebody_is_to_be_asked_outlives_a_restart(cluster: Cluster) -> None:
    """Of the broker that has the queue."""
    await decided_without_a_word(cluster)
    await cluster.stop("b")
    await cluster.start("b", consume_group_lock_live_time=LEASE_MS)
    await is_waited_for(cluster)
    await cluster.start("a")
    assert await place_of_next(cluster) == 1


@with_cluster("a", "b")
async def test_a_word_that_nobody_could_hear_outlives_the_next_starts(cluster: Cluster) -> None:
    """Of the coordinator: the broker that was read from is away meanwhile, and the rows are on all disks."""
    await decided_without_a_word(cluster)
    await cluster.stop("b")
    for _ in range(2):
        await cluster.start("a")
        await is_complete(cluster)
        await cluster.stop("a")
    await cluster.start("a")
    await cluster.start("b", consume_group_lock_live_time=LEASE_MS)
    assert await place_of_next(cluster) == 1


@with_cluster("a", "b")
async def test_who_is_gone_for_good_is_not_waited_for(cluster: Cluster) -> None:
    """What it had decided nobody knows: the group goes on where it was."""
    await decided_without_a_word(cluster)
    await is_waited_for(cluster)
    await cluster.stop("b")
    await cluster.start("b", consume_group_lock_live_time=LEASE_MS, retired_brokers="c;a")
    assert await place_of_next(cluster) == -1


@with_cluster("b")
async def test_nobody_waits_for_who_was_made_up(cluster: Cluster) -> None:
    """A member says who coordinates; it is refused for a name that is no broker's."""
    assert await cluster.write("b", "r1", 0, "b") == "COMMITTED"
    told = await take(cluster, "m")
    header = GroupLeasesRequestHeader("group", "m", told.run, "nobody")
    body = GroupLeasesBody(keep=told.held)
    answer = await cluster.ask("b", RequestCode.RMQ_GROUP_LEASES, header, body.encode())
    assert answer.code != ResponseCode.SUCCESS
    assert "'nobody' is not one of this cluster" in (answer.remark or "")

"""Locks of queues while the master of a broker name is away, and its slave is not."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.group_reading import committed_offsets
from rmqspark.client.pushing.membership import Membership
from rmqspark.client.pushing.subscription import ConsumeFrom
from rmqspark.errors import RmqError
from rmqspark.model import MessageQueue
from rmqspark.testing import cluster

from .test_replicas import SYNC, create, identity, wait_until

pytestmark = pytest.mark.integration


def test_a_slave_is_asked_for_no_locks() -> None:
    """Its master would know nothing of them, as with RocketMQ: while that is away nothing is begun in order."""
    queue = MessageQueue("orders", "broker-a", 0)
    with cluster(broker_config=SYNC) as mq, ClusterClient(mq.namesrv) as client:
        create(mq, queues=1)
        slave = mq.start_slave()
        wait_until(lambda: identity(slave) == identity(mq.brokers["broker-a"]), "the slave knows whose it is")
        member = Membership(client, "billing", ConsumeFrom.parse("latest"))
        assert client.subscribe_queues("orders") == [queue]
        assert member.lock([queue]) == ({queue}, set())
        mq.stop_broker("broker-a")
        wait_until(lambda: committed_by(client, queue), "the slave is found")
        assert member.lock([queue]) == (set(), {queue})
        mq.start_broker("broker-a")
        client.expire_route("orders")
        wait_until(lambda: client.subscribe_queues("orders") and not client.is_headless("broker-a"), "it is back")
        assert member.lock([queue]) == ({queue}, set())


def committed_by(client: ClusterClient, queue: MessageQueue) -> bool:
    """Asks whoever is there; whether that was a slave."""
    with suppress(RmqError):
        committed_offsets(client, "billing", [queue])
        return client.is_headless(queue.broker_name)
    return False

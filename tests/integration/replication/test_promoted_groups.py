"""What a shared group had come to is known to the slave that becomes the master."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.group_reading import Member, lease
from rmqspark.model import MessageQueue, SendStatus
from rmqspark.rebalance.handover import Held, Steps
from rmqspark.testing import cluster

from .test_replicas import QUICK, SYNC, change_places, committed, create, identity, send, wait_until, wait_until_copied

pytestmark = pytest.mark.integration
QUEUE = MessageQueue("orders", "broker-a", 0)


def test_a_promoted_slave_knows_what_a_shared_group_committed_last() -> None:
    """Its next member does not read again what came between the slave's last look at its master's tables and the
    master's end. Were it otherwise, what a decided batch has read would be read, and written, twice."""
    config = replace(SYNC, slave_sync_interval=3_600_000)  # it looks until it knows its master, then no more
    with cluster(broker_config=config) as mq:
        create(mq, queues=1)
        slave = mq.start_slave()
        wait_until(lambda: send(mq, 1) == [SendStatus.OK], "the slave is waited for")
        wait_until(lambda: identity(slave) == identity(mq.brokers["broker-a"]), "the slave has looked")
        send(mq, 9)
        with ClusterClient(mq.namesrv) as client:
            broker, member = client.broker("broker-a"), Member("g", "first")
            number = lease(broker, member, Steps({}, {}, [QUEUE])).result().granted[QUEUE].lease
            lease(broker, member, Steps({QUEUE: Held(number, 7)}, {}, [])).result()
        assert committed(slave).get("orders@g") is None
        change_places(mq)
        assert committed(mq.brokers["broker-a"]).get("orders@g") == {0: 7}


def test_a_promoted_slave_leases_queues_of_a_group_once_all_brokers_were_asked() -> None:
    """Within a second or so, where they answer; its next member begins where the group was."""
    with cluster(brokers=2, broker_config=QUICK) as mq:
        create(mq, queues=1)
        send(mq, 20)  # to both brokers
        slave = mq.start_slave()
        with ClusterClient(mq.namesrv) as client:
            broker, member = client.broker("broker-a"), Member("g", "first")
            number = lease(broker, member, Steps({}, {}, [QUEUE])).result().granted[QUEUE].lease
            lease(broker, member, Steps({QUEUE: Held(number, 7)}, {}, [])).result()
        wait_until(lambda: committed(slave).get("orders@g") == {0: 7}, "the slave has looked")
        wait_until_copied(mq)
        change_places(mq)
        with ClusterClient(mq.namesrv) as client:
            broker, member = client.broker("broker-a"), Member("g", "second")

            def granted() -> int | None:
                grant = lease(broker, member, Steps({}, {}, [QUEUE])).result().granted.get(QUEUE)
                return None if grant is None else grant.committed

            wait_until(lambda: granted() is not None, "all brokers were asked")
            assert granted() == 7

"""How far a reader is behind in queues that are there no longer, or may not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.spark.lag import QueueLag, look
from rmqspark.model import Message, MessageQueue

if TYPE_CHECKING:
    from rmqspark.client.admin import AdminClient
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration


def test_queues_that_have_gone_are_left_out(mq: LocalCluster, admin: AdminClient, topic: str) -> None:
    """A topic that lost a queue, or was deleted, hides nothing of the others."""
    admin.update_topic(topic, queues=1)
    wanted = [MessageQueue(topic, "broker-a", 0), MessageQueue(topic, "broker-a", 3), MessageQueue("no", "broker-a", 0)]
    with ClusterClient(mq.namesrv) as client:
        assert look(client, dict.fromkeys(wanted, 0)) == [QueueLag(wanted[0], 0, 0)]


def test_a_topic_that_is_closed_to_readers_hides_nothing_of_the_others(
    mq: LocalCluster, admin: AdminClient, topic: str
) -> None:
    """What waits in it is counted, though nobody may look since when; the time of the others is known."""
    admin.create_topic(f"{topic}-open", queues=1)
    closed, opened = MessageQueue(topic, "broker-a", 0), MessageQueue(f"{topic}-open", "broker-a", 0)
    with Producer(mq.namesrv) as producer, ClusterClient(mq.namesrv) as client:
        for queue in (closed, opened):
            producer.send(Message(queue.topic, b"paid"), queue=queue)
        admin.update_topic(topic, perm="w")
        found = {lag.queue: lag for lag in look(client, {closed: 0, opened: 0})}
    assert found[closed] == QueueLag(closed, 0, 1)
    assert (found[opened].messages, found[opened].waiting_since_ms is None) == (1, False)

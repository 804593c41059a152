"""How far a reader is behind in queues that are there no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.lag import QueueLag, look
from rmqspark.model import MessageQueue

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

"""Which topics are the users', and which RocketMQ has for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.names import is_system_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.protocol.bodies.route import ClusterInfo


def user_topics(cluster: ClusterClient) -> list[str]:
    """All topics but RocketMQ's own, some of which are named after the cluster and its brokers."""
    info = cluster.cluster_info()
    return users_among(cluster.topics(), info)


def users_among(topics: Iterable[str], info: ClusterInfo) -> list[str]:
    """Those of the names that are users' topics in this cluster."""
    internal = {
        *info.clusterAddrTable,
        *info.brokerAddrTable,
        *(f"{name}_REPLY_TOPIC" for name in info.clusterAddrTable),
    }
    return [topic for topic in topics if not is_system_topic(topic) and topic not in internal]

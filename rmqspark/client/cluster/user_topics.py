"""Which topics are the users', and which RocketMQ has for itself."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rmqspark.errors import RmqError
from rmqspark.options import most_like
from rmqspark.protocol.names import is_system_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.errors import TopicNotFound
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


def with_nearest(cluster: ClusterClient, missing: TopicNotFound) -> TopicNotFound:
    """The same error, whose hint begins with the topic that comes nearest by name, where one is near. It takes requests
    for all names: for people, not for what is tried again and again. Who may not see them is told nothing."""
    with suppress(RmqError):
        if nearest := most_like(missing.topic, user_topics(cluster), cutoff=0.75):
            missing.hint = f"Did you mean {nearest!r}? {missing.hint}"
    return missing

"""Topics as they are on their brokers: settings of each, offsets of each queue. What changes them is in `admin_topics`.

Which topics there are, and on which brokers, the name servers know; the rest only those brokers, and one that is silent
leaves it unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.administration.admin_topics import format_perm, no_topic, route_of
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.descriptions import QueueDescription, TopicDescription, TopicOnBroker
from rmqspark.client.cluster.routes import topic_route
from rmqspark.client.cluster.silence import RollCall

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.routes import TopicRoute
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.protocol.bodies.admin import TopicStatsTable
    from rmqspark.protocol.bodies.route import TopicConfig


def describe_topic(cluster: ClusterClient, topic: str, *, on_silent: OnSilent | None = None) -> TopicDescription:
    """TopicNotFound. A broker of it that does not answer is told to `on_silent` and left out, unless it is the only
    one; without that it is an error."""
    cluster.expire_route(topic)
    route = route_of(cluster, topic)
    roll = RollCall(cluster, on_silent)
    found = _described(roll, {topic: route})
    roll.insist_on_one(route.brokers)
    if not found:
        raise no_topic(cluster, topic)
    return found[0]


def describe_topics(
    cluster: ClusterClient, topics: Collection[str], *, on_silent: OnSilent | None = None
) -> list[TopicDescription]:
    """Those of the topics that are there still, by name: all are asked about at once, where `describe_topic` waits for
    each answer. `on_silent` as there; of a topic whose brokers are all silent nothing but the name is known, and where
    all brokers are it is an error."""
    routes = cluster.name_servers.known_routes(sorted(topics))
    there = {topic: topic_route(topic, routes[topic]) for topic in sorted(routes)}
    roll = RollCall(cluster, on_silent)
    found = _described(roll, there)
    roll.insist_on_any()
    return found


def queue_bounds(cluster: ClusterClient, topic: str, broker_name: str) -> list[QueueDescription]:
    """The queues that one broker has of the topic, with their offsets."""
    return bounds_in(BrokerAdmin(cluster.broker(broker_name)).topic_stats(topic))


def bounds_in(stats: TopicStatsTable) -> list[QueueDescription]:
    return [
        QueueDescription(queue, bounds.minOffset, bounds.maxOffset, bounds.lastUpdateTimestamp)
        for queue, bounds in sorted(stats.offsetTable.items())
    ]


def _described(roll: RollCall, routes: Mapping[str, TopicRoute]) -> list[TopicDescription]:
    pairs = [(broker_name, topic) for topic, route in routes.items() for broker_name in sorted(route.brokers)]
    configs = roll.ask(pairs, lambda broker, topic: BrokerAdmin(broker).submit_topic_config(topic))
    stats = roll.ask(pairs, lambda broker, topic: BrokerAdmin(broker).submit_topic_stats(topic))
    found: dict[str, TopicDescription] = {}
    for broker_name, topic in pairs:
        described = found.setdefault(topic, TopicDescription(topic, [], []))
        config, table = configs.get((broker_name, topic)), stats.get((broker_name, topic))
        if config is not None and table is not None:  # else it is on its way out of this broker, or nobody says
            described.brokers.append(_on_broker(broker_name, config))
            described.queues.extend(bounds_in(table))
        elif roll.is_silent(broker_name):
            described.silent[broker_name] = roll.silent[broker_name]
    return [each for each in found.values() if each.brokers or each.silent]


def _on_broker(broker_name: str, config: TopicConfig) -> TopicOnBroker:
    return TopicOnBroker(
        broker_name, config.readQueueNums, config.writeQueueNums, format_perm(config.perm), config.attributes
    )

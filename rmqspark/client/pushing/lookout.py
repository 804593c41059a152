"""What a push consumer sees of its topics: their queues, and who else is there. Each look asks brokers, and waits."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias

from rmqspark.client.pushing.assignment import View
from rmqspark.errors import NoBrokers, RmqError, TopicNotFound
from rmqspark.protocol.names import is_made_by_brokers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.routes import TopicRoute
    from rmqspark.client.pushing.membership import Membership
    from rmqspark.client.pushing.subscription import Subscription
    from rmqspark.message_queue import MessageQueue

    Seen: TypeAlias = TopicRoute | RmqError | None
    """A topic's route, None where there is no such topic, or what kept it from being seen."""
    Members: TypeAlias = Mapping[str, Collection[str] | None]
    """By broker, those that could be asked."""

_log = logging.getLogger(__name__)


class Lookout:
    """Looks for one member, of whom every broker hears that it sees (HEART_BEAT)."""

    def __init__(self, cluster: ClusterClient, membership: Membership, *, asks_for_members: bool) -> None:
        self._cluster = cluster
        self._membership = membership
        self._asks_for_members = asks_for_members
        self._at_first: dict[str, frozenset[MessageQueue]] = {}  # the queues that a topic had when it was first seen
        self._missed: set[str] = set()  # topics that could not be seen, which is told once
        self._deaf: set[str] = set()  # brokers that take no heartbeat, which is told once
        self.brokers: frozenset[str] = frozenset()  # that have heard of this member, or were to

    def look(self, subscriptions: Mapping[str, Subscription], *, fresh: bool) -> dict[str, View | None]:
        """By topic what there is to be seen, None where something kept it from being seen.

        With `fresh` name servers are asked, too, however young the routes are. Raises Unreachable and the like where
        not a single topic could be seen; not while no broker is registered, for that is soon over where one runs.
        """
        seen = {topic: self._seen(topic, fresh=fresh) for topic in subscriptions}
        failures = [each for each in seen.values() if isinstance(each, RmqError) and not isinstance(each, NoBrokers)]
        if failures and len(failures) == len(seen):
            raise failures[0]
        reached = self._announce(seen.values(), subscriptions.values())
        members = self._membership.members(sorted(reached)) if self._asks_for_members else {}
        return {topic: self._view(topic, each, members) for topic, each in seen.items()}

    def is_later(self, queue: MessageQueue) -> bool:
        """Whether its topic did not have the queue when it was first seen."""
        return queue not in self._at_first.get(queue.topic, ())

    def forget(self, topic: str) -> None:
        """It was deleted: whatever queues it has later, it did not have before."""
        self._at_first[topic] = frozenset()

    def _seen(self, topic: str, *, fresh: bool) -> Seen:
        if fresh:
            self._cluster.expire_route(topic)
        try:
            route = self._cluster.route(topic)
        except TopicNotFound as error:
            if topic not in self._missed and not is_made_by_brokers(topic):
                _log.warning("%s Group %s waits for it.", error, self._membership.group)
            self._missed.add(topic)
            return None
        except RmqError as error:
            if topic not in self._missed:
                _log.warning("Topic %s cannot be seen: %s", topic, error)
            self._missed.add(topic)
            return error
        self._missed.discard(topic)
        return route

    def _announce(self, seen: Iterable[Seen], subscriptions: Iterable[Subscription]) -> frozenset[str]:
        """Returns the brokers that have heard of this member just now."""
        routes = [each for each in seen if each is not None and not isinstance(each, RmqError)]
        self.brokers = frozenset(name for route in routes for name in route.brokers)
        heard = self._membership.announce(sorted(self.brokers), list(subscriptions))
        return frozenset(name for name, error in heard.items() if self._has_heard(name, error))

    def _has_heard(self, broker_name: str, error: RmqError | None) -> bool:
        """Tells once of one that has not."""
        if error is not None:
            if broker_name not in self._deaf:
                _log.warning("%s takes no heartbeat of group %s: %s", broker_name, self._membership.group, error)
            self._deaf.add(broker_name)
            return False
        self._deaf.discard(broker_name)
        return True

    def _view(self, topic: str, seen: Seen, members: Members) -> View | None:
        """A member is whoever any of the topic's brokers knows: one that has just started has heard of those alone that
        were the first to notice. (RocketMQ's go by any one of them.)"""
        if isinstance(seen, NoBrokers):  # who subscribes just now is to get what is sent from now on
            self._at_first.setdefault(topic, frozenset())
        if isinstance(seen, RmqError):
            return None
        queues = [] if seen is None else list(seen.subscribe_queues)
        self._at_first.setdefault(topic, frozenset(queues))
        if not queues or seen is None or not self._asks_for_members:
            return View(queues, None)
        told = [members.get(name) for name in seen.brokers]
        known = [each for each in told if each is not None]
        return View(queues, frozenset().union(*known) if known else None)

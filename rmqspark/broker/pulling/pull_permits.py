"""Which messages a pull may have: its checks, in RocketMQ's order (PullMessageProcessor; spec: requests, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.broker.pulling.subscriptions import parse_subscription
from rmqspark.errors import (
    FilterNotFound,
    InvalidFilter,
    NoPermission,
    SubscriptionNotFound,
    SubscriptionOutdated,
)
from rmqspark.protocol.bodies.client import SQL92
from rmqspark.protocol.headers.consume import PullFlag

if TYPE_CHECKING:
    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.pulling.subscriptions import Filter
    from rmqspark.broker.state.groups import SubscriptionGroups
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
    from rmqspark.protocol.bodies.route import TopicConfig
    from rmqspark.protocol.headers.consume import PullMessageRequestHeader

_NO_FILTER: Final = "The broker's consumer filter data is not exist!Your expression may be wrong!"  # RocketMQ's words


class PullPermit(NamedTuple):
    """What a pull may have: who asks, of which topic, and which of its messages."""

    topic: TopicConfig
    group: SubscriptionGroupConfig
    wanted: Filter


class PullPermits:
    """Gives them by what is known of topics, groups and consumers at that moment."""

    def __init__(
        self,
        topics: TopicTable,
        groups: SubscriptionGroups,
        clients: ClientRegistry,
        clock: Clock,
        *,
        property_filter: bool,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._clock = clock
        self._property_filter = property_filter

    def of(self, header: PullMessageRequestHeader) -> PullPermit:
        """Raises what the pull is refused with. Makes the group where that is allowed."""
        group = self._groups.permit(header.consumerGroup, self._clock.now_ms())
        topic = self._topics.require_readable(header.topic, header.queueId)
        if header.sysFlag & PullFlag.SUBSCRIPTION:
            return PullPermit(topic, group, self._parse(header.subscription, header.expressionType))
        return PullPermit(topic, group, self._subscribed(header, group))

    def _subscribed(self, header: PullMessageRequestHeader, group: SubscriptionGroupConfig) -> Filter:
        online = self._clients.consumer_group(header.consumerGroup)
        if online is None:
            raise SubscriptionNotFound(f"No consumer of group {header.consumerGroup!r} is known to be online.")
        if online.broadcasts and not group.consumeBroadcastEnable:
            raise NoPermission(f"Group {group.groupName!r} is not allowed to consume by broadcast.")
        if not self._groups.may_pull(group.groupName, header.topic):
            raise NoPermission(f"Group {group.groupName!r} is forbidden to consume topic {header.topic!r}.")
        subscription = online.subscriptions.get(header.topic)
        if subscription is None:
            raise SubscriptionNotFound(f"Group {group.groupName!r} does not subscribe to topic {header.topic!r}.")
        if subscription.subVersion < header.subVersion:
            raise SubscriptionOutdated(f"The subscription of group {group.groupName!r} known here is an older one.")
        try:
            return self._parse(subscription.subString, subscription.expressionType)
        except InvalidFilter as error:
            if subscription.expressionType != SQL92:
                raise
            raise FilterNotFound(f"{_NO_FILTER} {error}") from None

    def _parse(self, expression: str | None, expression_type: str | None) -> Filter:
        return parse_subscription(expression, expression_type, property_filter=self._property_filter)

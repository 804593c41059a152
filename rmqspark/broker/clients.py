"""Who is connected: producers and consumers by group, as their heartbeats tell. Pure: the caller says what time it is.

RocketMQ: ProducerManager, ConsumerManager, ConsumerGroupInfo; spec: requests, section 5 (codes 34, 35, 38).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqspark.broker.online_groups import OnlineGroup, OnlineGroups
from rmqspark.broker.producer_ids import ProducerIds
from rmqspark.broker.shares import Shares
from rmqspark.errors import Busy
from rmqspark.protocol.bodies.client import BROADCASTING, SubscriptionData

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqspark.broker.online_groups import Member
    from rmqspark.protocol.bodies.client import ConsumerData

_SUBSCRIPTION_BYTES = 400  # without its texts
_ITEM_BYTES = 40  # of a list


@dataclass(slots=True)
class ConsumerGroup(OnlineGroup):
    """The consumers of one group that are online, and what they subscribe to."""

    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)  # by topic
    strategies: dict[str, str] = field(default_factory=dict)  # by client id, of queries that share the group

    @property
    def broadcasts(self) -> bool:
        return self.message_model == BROADCASTING

    def has_others(self, client_id: str) -> bool:
        return any(member.client_id != client_id for member in self.members.values())

    def client_ids(self) -> list[str]:
        """Every client once, in the order they came."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

    def divided_by(self, client_id: str, strategy: str) -> list[str]:
        """All strategies by which members divide the group's queues, as they say, this one by `strategy`."""
        online = self.client_ids()
        known = self.strategies | {client_id: strategy}
        self.strategies = {each: known[each] for each in online if each in known}
        return sorted(set(self.strategies.values()))

    def merged(self, subscriptions: Sequence[SubscriptionData]) -> dict[str, SubscriptionData]:
        """What the group subscribes to when it says this; an older subVersion does not replace a newer one."""
        merged: dict[str, SubscriptionData] = {}
        for subscription in subscriptions:
            topic = subscription.topic
            known = merged.get(topic) or self.subscriptions.get(topic)
            merged[topic] = subscription if known is None or subscription.subVersion > known.subVersion else known
        return merged


class ClientRegistry:
    """All clients of one broker; at most `max_groups` groups of each kind, half of them made by one address, and about
    so many bytes of memory for what consumers subscribe to. A connection is in as many groups as it says: at most
    `max_memberships` of all connections and groups, those of one address half of them."""

    def __init__(
        self,
        *,
        expiry_ms: int,
        max_groups: int,
        max_memberships: int = 400_000,  # a hundred megabytes
        max_subscription_bytes: int = 128 << 20,
    ) -> None:
        self._expiry_ms = expiry_ms
        self._memberships = Shares(max_memberships)
        self._producers: OnlineGroups[OnlineGroup] = OnlineGroups(max_groups, self._memberships)
        self._consumers: OnlineGroups[ConsumerGroup] = OnlineGroups(max_groups, self._memberships)
        self._producer_ids = ProducerIds()
        self._max_subscription_bytes = max_subscription_bytes
        self._subscription_bytes = 0

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        return self._consumers.get(group)

    def divided_by(self, group: str, client_id: str, strategy: str) -> list[str]:
        """How the members of a group divide its queues, one of them by `strategy`, as far as they are online."""
        known = self._consumers.get(group)
        return [] if known is None else known.divided_by(client_id, strategy)

    def consumer_groups(self) -> list[ConsumerGroup]:
        """Those that are online."""
        return list(self._consumers)

    def producers(self, group: str) -> list[Member]:
        known = self._producers.get(group)
        return [] if known is None else list(known.members.values())

    def producer_called(self, client_id: str) -> Member | None:
        """The producer with this client id, whatever its groups."""
        return self._producer_ids.find(client_id)

    def producer_groups(self) -> Iterator[tuple[str, list[Member]]]:
        for group in self._producers:
            yield group.name, list(group.members.values())

    def groups_subscribed_to(self, topic: str) -> list[str]:
        return [group.name for group in self._consumers if topic in group.subscriptions]

    def register_producer(self, group: str, member: Member) -> None:
        """Raises Busy where there is no room for more."""
        self._producers.require_room(group, member)
        known = self._producers.get(group) or OnlineGroup(group, member.address)
        before = self._producers.join(known, member)
        if before is not None:
            self._producer_ids.remove(group, before)
        self._producer_ids.add(group, member)

    def register_consumer(self, data: ConsumerData, member: Member, *, keep_subscriptions: bool = False) -> bool:
        """One group of a heartbeat. Returns whether members or topics changed, so that the others must be told.

        `keep_subscriptions`: the heartbeat carries none and the known ones stay (RocketMQ's heartbeat V2). Raises Busy
        where there is no room for more; then nothing has changed.
        """
        self._consumers.require_room(data.groupName, member)
        group = self._consumers.get(data.groupName) or ConsumerGroup(data.groupName, member.address)
        subscriptions = group.subscriptions if keep_subscriptions else group.merged(data.subscriptionDataSet)
        # Topics that came or went: of all that subscriptions say, only that makes clients rebalance.
        has_changed = subscriptions.keys() != group.subscriptions.keys()
        self._take_subscriptions(group, subscriptions)
        before = self._consumers.join(group, member)
        group.consume_type, group.message_model = data.consumeType, data.messageModel
        group.consume_from_where = data.consumeFromWhere
        return has_changed or before is None or before.client_id != member.client_id

    def unregister_producer(self, group: str, connection_id: int) -> None:
        left = self._producers.leave(group, connection_id)
        if left is not None:
            self._producer_ids.remove(group, left)

    def unregister_consumer(self, group: str, connection_id: int) -> bool:
        """Returns whether the group lost a member."""
        known = self._consumers.get(group)
        if known is None or self._consumers.leave(group, connection_id) is None:
            return False
        if not known.members:
            self._subscription_bytes -= _size(known.subscriptions)
        return True

    def drop_connection(self, connection_id: int) -> list[str]:
        """Forgets everything about a connection that ended; returns the consumer groups that lost a member."""
        for group in self._producers.of_connection(connection_id):
            self.unregister_producer(group, connection_id)
        consuming = self._consumers.of_connection(connection_id)
        return [group for group in consuming if self.unregister_consumer(group, connection_id)]

    def excuse(self, ms: int, now_ms: int) -> None:
        """Counts so many ms of all silence as none: nobody could be heard."""
        if not ms:
            return
        members = (member for group in (*self._producers, *self._consumers) for member in group.members.values())
        for member in {id(each): each for each in members}.values():
            member.seen_ms = min(now_ms, member.seen_ms + ms)

    def expire(self, now_ms: int) -> list[str]:
        """Drops members without a heartbeat for too long; returns the consumer groups that lost one."""
        for group, connection_id in self._producers.silent(self._expiry_ms, now_ms):
            self.unregister_producer(group, connection_id)
        silent = self._consumers.silent(self._expiry_ms, now_ms)
        for group, connection_id in silent:
            self.unregister_consumer(group, connection_id)
        return list(dict.fromkeys(group for group, _ in silent))

    def _take_subscriptions(self, group: ConsumerGroup, subscriptions: dict[str, SubscriptionData]) -> None:
        more = _size(subscriptions) - _size(group.subscriptions)
        if more > 0 and self._subscription_bytes + more > self._max_subscription_bytes:
            raise Busy(
                f"This broker has {self._max_subscription_bytes} bytes of memory for what consumers subscribe to.",
                hint="Stop some consumers, or shorten their filters.",
            )
        group.subscriptions = subscriptions
        self._subscription_bytes += more


def _size(subscriptions: Mapping[str, SubscriptionData]) -> int:
    """About how many bytes of memory they take."""
    return sum(
        _SUBSCRIPTION_BYTES
        + sys.getsizeof(each.topic)
        + sys.getsizeof(each.subString)
        + sum(map(sys.getsizeof, each.tagsSet))
        + _ITEM_BYTES * (len(each.tagsSet) + len(each.codeSet))
        for each in subscriptions.values()
    )

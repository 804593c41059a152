"""Who is connected: producers and consumers by group, as their heartbeats tell. Pure: the caller says what time it is.

A member is a connection, not a client id: when the connection ends the member is gone, whatever its last heartbeat.
RocketMQ: ProducerManager, ConsumerManager, ConsumerGroupInfo; spec: requests, section 5 (codes 34, 35, 38).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqspark.broker.producer_ids import ProducerIds
from rmqspark.broker.shares import Shares
from rmqspark.errors import Busy
from rmqspark.protocol.bodies.client import BROADCASTING, SubscriptionData
from rmqspark.remoting.request import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqspark.protocol.bodies.client import ConsumerData

_SUBSCRIPTION_BYTES = 400  # without its texts
_ITEM_BYTES = 40  # of a list


@dataclass(slots=True)
class Member:
    """One client of one group."""

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_ms: int  # monotonic, last heartbeat

    @property
    def address(self) -> str:
        """Without the port."""
        return self.connection.peer[0]


@dataclass(slots=True)
class ProducerGroup:
    """The producers of one group that are online."""

    founder: str
    members: dict[int, Member] = field(default_factory=dict)  # by connection id


@dataclass(slots=True)
class ConsumerGroup:
    """The consumers of one group that are online, and what they subscribe to."""

    name: str
    founder: str = ""  # the address whose client was the first in it
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    members: dict[int, Member] = field(default_factory=dict)  # by connection id
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)  # by topic

    @property
    def broadcasts(self) -> bool:
        return self.message_model == BROADCASTING

    def has_others(self, client_id: str) -> bool:
        return any(member.client_id != client_id for member in self.members.values())

    def client_ids(self) -> list[str]:
        """Every client once, in the order they came."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

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
        self._producing_places, self._consuming_places = Shares(max_groups), Shares(max_groups)
        self._memberships = Shares(max_memberships)
        self._max_subscription_bytes = max_subscription_bytes
        self._subscription_bytes = 0
        self._producers: dict[str, ProducerGroup] = {}
        self._producer_ids = ProducerIds()
        self._consumers: dict[str, ConsumerGroup] = {}
        # By connection id, the groups it is in: of ten thousand, a connection that ends is in a few.
        self._producing: dict[int, dict[str, None]] = {}
        self._consuming: dict[int, dict[str, None]] = {}

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        return self._consumers.get(group)

    def consumer_groups(self) -> list[ConsumerGroup]:
        """Those that are online."""
        return list(self._consumers.values())

    def producers(self, group: str) -> list[Member]:
        known = self._producers.get(group)
        return [] if known is None else list(known.members.values())

    def producer_called(self, client_id: str) -> Member | None:
        """The producer with this client id, whatever its groups."""
        return self._producer_ids.find(client_id)

    def producer_groups(self) -> Iterator[tuple[str, list[Member]]]:
        for group, known in self._producers.items():
            yield group, list(known.members.values())

    def groups_subscribed_to(self, topic: str) -> list[str]:
        return [group.name for group in self._consumers.values() if topic in group.subscriptions]

    def register_producer(self, group: str, member: Member) -> None:
        known = self._producers.get(group)
        if known is None:
            _require_room(self._producing_places, member.address)
            known = ProducerGroup(member.address)
        before = known.members.get(member.connection.id)
        self._join(known.members, member, self._producing, group)
        if before is not None:
            self._producer_ids.remove(group, before)
        self._producer_ids.add(group, member)
        if group not in self._producers:
            self._producing_places.take(known.founder)
            self._producers[group] = known

    def register_consumer(self, data: ConsumerData, member: Member, *, keep_subscriptions: bool = False) -> bool:
        """One group of a heartbeat. Returns whether members or topics changed, so that the others must be told.

        `keep_subscriptions`: the heartbeat carries none and the known ones stay (RocketMQ's heartbeat V2). Raises Busy
        where there is no room for more; then nothing has changed.
        """
        group = self._consumers.get(data.groupName)
        if group is None:
            _require_room(self._consuming_places, member.address)
            group = ConsumerGroup(data.groupName, member.address)
        subscriptions = group.subscriptions if keep_subscriptions else group.merged(data.subscriptionDataSet)
        # Topics that came or went: of all that subscriptions say, only that makes clients rebalance.
        has_changed = subscriptions.keys() != group.subscriptions.keys()
        known = group.members.get(member.connection.id)
        if known is None:
            self._require_membership(member)
        self._take_subscriptions(group, subscriptions)
        self._join(group.members, member, self._consuming, group.name)
        if group.name not in self._consumers:
            self._consuming_places.take(group.founder)
            self._consumers[group.name] = group
        group.consume_type, group.message_model = data.consumeType, data.messageModel
        group.consume_from_where = data.consumeFromWhere
        joined = known is None or known.client_id != member.client_id
        return has_changed or joined

    def unregister_producer(self, group: str, connection_id: int) -> None:
        known = self._producers.get(group)
        left = None if known is None else self._leave(known.members, connection_id, self._producing, group)
        if known is None or left is None:
            return
        self._producer_ids.remove(group, left)
        if not known.members:
            self._producing_places.give_back(known.founder)
            del self._producers[group]

    def unregister_consumer(self, group: str, connection_id: int) -> bool:
        """Returns whether the group lost a member."""
        known = self._consumers.get(group)
        if known is None or self._leave(known.members, connection_id, self._consuming, group) is None:
            return False
        if not known.members:
            self._subscription_bytes -= _size(known.subscriptions)
            self._consuming_places.give_back(known.founder)
            del self._consumers[group]
        return True

    def drop_connection(self, connection_id: int) -> list[str]:
        """Forgets everything about a connection that ended; returns the consumer groups that lost a member."""
        for group in list(self._producing.get(connection_id, ())):
            self.unregister_producer(group, connection_id)
        consuming = list(self._consuming.get(connection_id, ()))
        return [group for group in consuming if self.unregister_consumer(group, connection_id)]

    def excuse(self, ms: int, now_ms: int) -> None:
        """Counts so many ms of all silence as none: nobody could be heard."""
        if not ms:
            return
        of_groups = [*(group.members for group in self._producers.values())]
        of_groups += (group.members for group in self._consumers.values())
        for member in {id(each): each for members in of_groups for each in members.values()}.values():
            member.seen_ms = min(now_ms, member.seen_ms + ms)

    def expire(self, now_ms: int) -> list[str]:
        """Drops members without a heartbeat for too long; returns the consumer groups that lost one."""
        for group, producers in list(self._producers.items()):
            for connection_id in self._silent(producers.members, now_ms):
                self.unregister_producer(group, connection_id)
        changed = []
        for group, consumers in list(self._consumers.items()):
            silent = self._silent(consumers.members, now_ms)
            if any([self.unregister_consumer(group, connection_id) for connection_id in silent]):
                changed.append(group)
        return changed

    def _join(
        self, members: dict[int, Member], member: Member, groups_of: dict[int, dict[str, None]], group: str
    ) -> None:
        if member.connection.id not in members:
            self._require_membership(member)
            self._memberships.take(member.address)
            groups_of.setdefault(member.connection.id, {})[group] = None
        members[member.connection.id] = member

    def _leave(
        self, members: dict[int, Member], connection_id: int, groups_of: dict[int, dict[str, None]], group: str
    ) -> Member | None:
        """The one of this connection in this group, which is not in it any more."""
        member = members.pop(connection_id, None)
        if member is None:
            return None
        self._memberships.give_back(member.address)
        groups = groups_of[connection_id]
        del groups[group]
        if not groups:
            del groups_of[connection_id]
        return member

    def _require_membership(self, member: Member) -> None:
        if shortage := self._memberships.shortage(member.address):
            raise Busy(
                f"This broker knows of as many clients in their groups as it may: {shortage}.",
                hint="A client is in each group that its heartbeats name.",
            )

    def _silent(self, members: dict[int, Member], now_ms: int) -> list[int]:
        return [key for key, member in members.items() if now_ms - member.seen_ms > self._expiry_ms]

    def _take_subscriptions(self, group: ConsumerGroup, subscriptions: dict[str, SubscriptionData]) -> None:
        more = _size(subscriptions) - _size(group.subscriptions)
        if more > 0 and self._subscription_bytes + more > self._max_subscription_bytes:
            raise Busy(
                f"This broker has {self._max_subscription_bytes} bytes of memory for what consumers subscribe to.",
                hint="Stop some consumers, or shorten their filters.",
            )
        group.subscriptions = subscriptions
        self._subscription_bytes += more


def _require_room(places: Shares, address: str) -> None:
    if shortage := places.shortage(address):
        raise Busy(f"This broker knows as many groups online as it may: {shortage}.")


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

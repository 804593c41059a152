"""HEART_BEAT (34), UNREGISTER_CLIENT (35), CHECK_CLIENT_CONFIG (46), GET_CONSUMER_LIST_BY_GROUP (38): who is there.

RocketMQ's ClientManageProcessor and ConsumerManageProcessor; spec: requests, section 5. When the members or topics of a
group change, all its members are told (40) and rebalance. A SQL92 expression that is none is the pulls' to refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from rmqspark.broker.online_groups import Member
from rmqspark.broker.pulling.subscriptions import difference, parse_subscription
from rmqspark.errors import GroupNotFound, InvalidArgument, InvalidFilter, InvalidName, ServerFault
from rmqspark.protocol.bodies.client import SQL92, CheckClientConfigBody, ConsumerListBody, HeartbeatData
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.filters import MAX_EXPRESSION_BYTES, MAX_SQL_BYTES
from rmqspark.protocol.headers.consume import ConsumerGroupRequestHeader, UnregisterClientRequestHeader
from rmqspark.protocol.names import check_client_id, check_group, may_be_topic
from rmqspark.remoting.reply import Reply, reply_after
from rmqspark.remoting.router import Route, Routes
from rmqspark.told_once import ToldOnce

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.state.groups import SubscriptionGroups
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.broker.topic_publisher import TopicPublisher
    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.client import ConsumerData, SubscriptionData
    from rmqspark.remoting.request import Connection, Request
    from rmqspark.remoting.router import NoFields

_MOST_SUBSCRIPTIONS: Final = 1024  # of one group
_LONGEST_WORD: Final = 64
_LONGEST_PRODUCER_GROUP: Final = 255
_SHOWN: Final = 100  # characters of an expression
_HEARTBEAT_V2 = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}

log = structlog.get_logger("rmqspark.broker")


class HeartbeatHandlers:
    """Keeps the registry of clients, and tells groups when they change."""

    def __init__(
        self,
        clients: ClientRegistry,
        groups: SubscriptionGroups,
        topics: TopicTable,
        publisher: TopicPublisher,
        clock: Clock,
        *,
        property_filter: bool,
    ) -> None:
        self._property_filter = property_filter
        self._clients = clients
        self._groups = groups
        self._topics = topics
        self._publisher = publisher
        self._clock = clock
        self._told: ToldOnce[str] = ToldOnce(log, "groups whose members want different messages")

    def routes(self) -> Routes:
        return {
            RequestCode.HEART_BEAT: Route(None, self.heartbeat),
            RequestCode.UNREGISTER_CLIENT: Route(UnregisterClientRequestHeader, self.unregister),
            RequestCode.CHECK_CLIENT_CONFIG: Route(None, self.check_config),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: Route(ConsumerGroupRequestHeader, self.consumer_list),
        }

    def heartbeat(self, request: Request[NoFields]) -> Reply | Awaitable[Reply]:
        data = HeartbeatData.decode_request(request.body)
        _check(data)
        member = Member(
            request.connection, data.clientID, request.language, request.version, self._clock.monotonic_ms()
        )
        for producer in data.producerDataSet:
            self._clients.register_producer(producer.groupName, member)
        made_topics = [self._register(consumer, member, data.withoutSub) for consumer in data.consumerDataSet]
        reply = Reply(extra=_HEARTBEAT_V2)
        return reply_after(self._publisher.publish, reply) if any(made_topics) else reply

    def unregister(self, request: Request[UnregisterClientRequestHeader]) -> Reply:
        header, connection_id = request.header, request.connection.id
        if header.producerGroup:
            self._clients.unregister_producer(header.producerGroup, connection_id)
        if header.consumerGroup and self._clients.unregister_consumer(header.consumerGroup, connection_id):
            self._notify([header.consumerGroup])
        return Reply()

    def check_config(self, request: Request[NoFields]) -> Reply:
        """Whether the broker can filter as the client is going to ask; clients only ask if it is not by tags."""
        subscription = CheckClientConfigBody.decode_request(request.body).subscriptionData
        parse_subscription(subscription.subString, subscription.expressionType, property_filter=self._property_filter)
        return Reply()

    def consumer_list(self, request: Request[ConsumerGroupRequestHeader]) -> Reply:
        group = self._clients.consumer_group(request.header.consumerGroup)
        if group is None:
            raise ServerFault(f"no consumer for this group, {request.header.consumerGroup}")  # RocketMQ's words
        return Reply(body=ConsumerListBody(group.client_ids()).encode())

    def connection_closed(self, connection: Connection) -> None:
        """The server's `on_close`: whoever used the connection is gone."""
        self._notify(self._clients.drop_connection(connection.id))

    def expire(self, deaf_ms: int = 0) -> None:
        """Drops clients that have been silent for too long, but for the last `deaf_ms`, in which nobody could be heard.
        To be called every ten seconds."""
        now_ms = self._clock.monotonic_ms()
        self._clients.excuse(deaf_ms, now_ms)
        self._notify(self._clients.expire(now_ms))

    def _register(self, data: ConsumerData, member: Member, keep_subscriptions: bool) -> bool:
        """One consumer group of a heartbeat; returns whether its retry topic had to be made.

        A group that cannot be is left out in silence, as in RocketMQ: its pulls are refused. So is a topic that cannot
        be, to which some client subscribes among others: to refuse all for it would stop its consumer.
        """
        try:
            config = self._groups.find_or_create(check_group(data.groupName), self._clock.now_ms())
        except (GroupNotFound, InvalidName):
            return False
        possible = [each for each in data.subscriptionDataSet if may_be_topic(each.topic)]
        data = msgspec.structs.replace(data, subscriptionDataSet=possible)
        made_topic = self._topics.ensure_retry(data.groupName, config.retryQueueNums, self._clock.now_ms())
        self._tell_of_difference(data, member)
        if self._clients.register_consumer(data, member, keep_subscriptions=keep_subscriptions):
            self._notify([data.groupName])
        return made_topic

    def _tell_of_difference(self, data: ConsumerData, member: Member) -> None:
        """RocketMQ's goes by what was subscribed last. Either way each member passes over what it does not want in the
        queues that are its own, and the group has consumed it."""
        group = self._clients.consumer_group(data.groupName)
        if group is None or group.broadcasts or not group.has_others(member.client_id):
            return
        found = difference(group.subscriptions, data.subscriptionDataSet)
        if found is not None and self._told.is_news(group.name):
            log.warning(
                "members of a group want different messages: what one passes over in its queues, none of them gets",
                group=group.name,
                client=member.client_id,
                topic=found.topic,
                one=found.one[:_SHOWN],
                another=found.another[:_SHOWN],
            )

    def _notify(self, groups: Iterable[str]) -> None:
        """Has the members of changed groups rebalance. Broadcasting groups have nothing to divide."""
        for name in groups:
            group, config = self._clients.consumer_group(name), self._groups.get(name)
            if group is None or group.broadcasts or (config and not config.notifyConsumerIdsChangedEnable):
                continue
            for member in group.members.values():
                member.connection.send_request_oneway(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumerGroupRequestHeader(name)
                )


def _check(data: HeartbeatData) -> None:
    """Raises InvalidArgument before anything of a heartbeat is taken in that has more than is kept.

    Producers may call their group anything, as in RocketMQ: it is only ever compared.
    """
    check_client_id(data.clientID)
    for producer in data.producerDataSet:
        if not 0 < len(producer.groupName) <= _LONGEST_PRODUCER_GROUP:
            raise InvalidArgument(f"The name of a producer's group has 1 to {_LONGEST_PRODUCER_GROUP} characters.")
    for consumer in data.consumerDataSet:
        if len(consumer.subscriptionDataSet) > _MOST_SUBSCRIPTIONS:
            raise InvalidArgument(f"Group {consumer.groupName!r} subscribes to more than {_MOST_SUBSCRIPTIONS} topics.")
        _check_words(consumer.consumeType, consumer.messageModel, consumer.consumeFromWhere)
        for subscription in consumer.subscriptionDataSet:
            _check_words(subscription.expressionType)
            _check_expression(subscription)


def _check_words(*words: str) -> None:
    """They are kept as they come; what they mean is the clients' business."""
    if any(len(word) > _LONGEST_WORD for word in words):
        raise InvalidArgument(
            f"A heartbeat has a word of more than {_LONGEST_WORD} characters where RocketMQ has an enum."
        )


def _check_expression(subscription: SubscriptionData) -> None:
    tags = subscription.tagsSet
    size = len(subscription.subString) + sum(map(len, tags))
    most = MAX_SQL_BYTES if subscription.expressionType == SQL92 else 2 * MAX_EXPRESSION_BYTES
    if size > most or len(tags) + len(subscription.codeSet) > MAX_EXPRESSION_BYTES:
        raise InvalidFilter(f"The subscription to {subscription.topic!r} is longer than {most} bytes.")

"""Who is connected, for operators: GET_CONSUMER_CONNECTION_LIST (203), GET_PRODUCER_CONNECTION_LIST (204),
GET_ALL_PRODUCER_INFO (328), QUERY_SUBSCRIPTION_BY_CONSUMER (345).

RocketMQ's AdminBrokerProcessor; spec: requests, sections 5 and 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import ServerFault
from rmqspark.protocol.bodies.admin import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
    SubscriptionOfGroup,
)
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import (
    GetProducerConnectionListRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
)
from rmqspark.protocol.headers.consume import ConsumerGroupRequestHeader
from rmqspark.remoting.address import format_address
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.online_groups import Member
    from rmqspark.clock import Clock
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields


class ConnectionHandlers:
    """Shows the registry of clients."""

    def __init__(self, clients: ClientRegistry, clock: Clock) -> None:
        self._clients = clients
        self._clock = clock

    def routes(self) -> Routes:
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: Route(ConsumerGroupRequestHeader, self.consumers),
            RequestCode.GET_PRODUCER_CONNECTION_LIST: Route(GetProducerConnectionListRequestHeader, self.producers),
            RequestCode.GET_ALL_PRODUCER_INFO: Route(None, self.all_producers),
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: Route(
                QuerySubscriptionByConsumerRequestHeader, self.subscription
            ),
        }

    def consumers(self, request: Request[ConsumerGroupRequestHeader]) -> Reply:
        name = request.header.consumerGroup
        group = self._clients.consumer_group(name)
        if group is None:
            raise ServerFault(f"the consumer group[{name}] not online", code=ResponseCode.CONSUMER_NOT_ONLINE)
        body = ConsumerConnection(
            connectionSet=[_connection(member) for member in group.members.values()],
            subscriptionTable=group.subscriptions,
            consumeType=group.consume_type,
            messageModel=group.message_model,
            consumeFromWhere=group.consume_from_where,
        )
        return Reply(body=body.encode())

    def producers(self, request: Request[GetProducerConnectionListRequestHeader]) -> Reply:
        name = request.header.producerGroup
        members = self._clients.producers(name)
        if not members:
            raise ServerFault(f"the producer group[{name}] not exist")  # RocketMQ's words
        return Reply(body=ProducerConnection([_connection(member) for member in members]).encode())

    def all_producers(self, request: Request[NoFields]) -> Reply:
        del request
        table = {
            group: [self._info(member) for member in members] for group, members in self._clients.producer_groups()
        }
        return Reply(body=ProducerTable(table).encode())

    def subscription(self, request: Request[QuerySubscriptionByConsumerRequestHeader]) -> Reply:
        header = request.header
        group = self._clients.consumer_group(header.group)
        found = group.subscriptions.get(header.topic or "") if group else None
        return Reply(body=SubscriptionOfGroup(header.group, header.topic or "", found).encode())

    def _info(self, member: Member) -> ProducerInfo:
        """Heartbeats are timed by the monotonic clock; operators want the time of day."""
        silent_ms = self._clock.monotonic_ms() - member.seen_ms
        return ProducerInfo(
            clientId=member.client_id,
            remoteIP=member.connection.peer[0],
            language=member.language,
            version=member.version,
            lastUpdateTimestamp=self._clock.now_ms() - silent_ms,
        )


def _connection(member: Member) -> Connection:
    address = format_address(*member.connection.peer)
    return Connection(member.client_id, address, member.language, member.version)

"""GET_CONSUMER_RUNNING_INFO (307), CONSUME_MESSAGE_DIRECTLY (309) and INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223):
what operators ask consumers. The broker passes it on, over the consumer's own connection, and its answer back.

RocketMQ's AdminBrokerProcessor.callConsumer and Broker2Client, whose words are kept; spec: requests, section 7. Unlike
there, the members of a group are asked for their status all at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import RequestTimeout, RmqError, ServerFault
from rmqspark.protocol.bodies.admin import ConsumerStatusBody
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.consume import (
    ConsumeMessageDirectlyRequestHeader,
    ConsumerStatusRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    import msgspec

    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.online_groups import Member
    from rmqspark.broker.state.groups import SubscriptionGroups
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.remoting.reply import Body
    from rmqspark.remoting.request import Request
    from rmqspark.store.message_store import MessageStore

CALL_TIMEOUT_MS: Final = 10_000
STATUS_TIMEOUT_MS: Final = 5_000

log = structlog.get_logger("rmqspark.broker")


class ConsumerCallHandlers:
    """Asks the consumers that are online."""

    def __init__(
        self,
        broker_name: str,
        store: MessageStore,
        topics: TopicTable,
        groups: SubscriptionGroups,
        clients: ClientRegistry,
    ) -> None:
        self._broker_name = broker_name
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients

    def routes(self) -> Routes:
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: Route(GetConsumerRunningInfoRequestHeader, self.running_info),
            RequestCode.CONSUME_MESSAGE_DIRECTLY: Route(ConsumeMessageDirectlyRequestHeader, self.consume_directly),
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Route(ConsumerStatusRequestHeader, self.status),
        }

    async def running_info(self, request: Request[GetConsumerRunningInfoRequestHeader]) -> Reply:
        header = request.header
        return await self._call(request.code, header, b"", header.consumerGroup, header.clientId)

    async def consume_directly(self, request: Request[ConsumeMessageDirectlyRequestHeader]) -> Reply:
        """The consumer is given the message that is stored at `msgId`."""
        header = request.header
        _, physical_offset = parse_offset_msg_id(header.msgId or "")
        topic = self._topics.get(header.topic or "")
        group = self._groups.get(header.consumerGroup)
        header.brokerName = self._broker_name
        header.topicSysFlag = topic.topicSysFlag if topic else None
        header.groupSysFlag = group.groupSysFlag if group else None
        body = self._store.records.message_at(physical_offset)
        return await self._call(request.code, header, body, header.consumerGroup, header.clientId or "")

    async def status(self, request: Request[ConsumerStatusRequestHeader]) -> Reply:
        """How far each member has come, of those that answer."""
        header = request.header
        group = self._clients.consumer_group(header.group)
        if group is None:
            raise ServerFault(f"No Any Consumer online in the consumer group: [{header.group}]")
        asked = [each for each in group.members.values() if (header.clientAddr or each.client_id) == each.client_id]
        told = await asyncio.gather(*[self._status_of(each, header) for each in asked])
        table = {
            each.client_id: status.messageQueueTable or {}
            for each, status in zip(asked, told, strict=True)
            if status is not None
        }
        return Reply(body=ConsumerStatusBody(consumerTable=table).encode())

    async def _status_of(self, member: Member, header: ConsumerStatusRequestHeader) -> ConsumerStatusBody | None:
        question = ConsumerStatusRequestHeader(header.topic, header.group)
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        try:
            answer = await member.connection.call(code, question, timeout_ms=STATUS_TIMEOUT_MS)
            return ConsumerStatusBody.decode_request(answer.raise_for_code().body)
        except RmqError as error:
            log.info("a consumer does not say how far it is", client_id=member.client_id, reason=str(error))
            return None

    async def _call(self, code: int, header: msgspec.Struct, body: Body, group: str, client_id: str) -> Reply:
        """The consumer's answer, whatever it is."""
        member = self._member(group, client_id)
        try:
            answer = await member.connection.call(code, header, body, timeout_ms=CALL_TIMEOUT_MS)
        except RequestTimeout as error:
            words = f"consumer <{group}> <{client_id}> Timeout: {error}"
            raise ServerFault(words, code=ResponseCode.CONSUME_MSG_TIMEOUT) from error
        except RmqError as error:
            raise ServerFault(f"invoke consumer <{group}> <{client_id}> Exception: {error}") from error
        return Reply(body=answer.body, code=answer.code, remark=answer.remark)

    def _member(self, group: str, client_id: str) -> Member:
        online = self._clients.consumer_group(group)
        members = online.members.values() if online is not None else ()
        found = next((each for each in members if each.client_id == client_id), None)
        if found is None:
            raise ServerFault(f"The Consumer <{group}> <{client_id}> not online")
        return found

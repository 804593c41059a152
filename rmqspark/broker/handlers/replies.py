"""SEND_REPLY_MESSAGE_V2 (325) and SEND_REPLY_MESSAGE (324): a consumer replies to who asked, a producer that waits.

RocketMQ's ReplyMessageProcessor, whose words are kept; spec: requests, section 4. The reply goes to the producer over
its own connection, and then into the log, where nobody reads it but who looks for what was said. It goes at once: one
that asks for a delay or is a half message is refused. Unlike there, the log keeps of a compressed one that it is, and
who does not answer holds only so many bytes of replies in memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rmqspark.broker.sending.sends import AwaitedSend
from rmqspark.errors import Busy, InvalidMessage, RmqError, ServerFault
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.produce import (
    PushReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from rmqspark.protocol.records.properties import Property, decode_properties, encode_properties
from rmqspark.remoting.address import format_address
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.sending.intake import Admitted, Intake
    from rmqspark.broker.sending.receipts import Receipts
    from rmqspark.broker.sending.sends import SendRequest
    from rmqspark.broker.whereabouts import Whereabouts
    from rmqspark.clock import Clock
    from rmqspark.remoting.reply import Reply
    from rmqspark.remoting.request import Request

PUSH_TIMEOUT_MS: Final = 10_000
MOST_WAITING_BYTES: Final = 64 << 20
MOST_WAITING_BYTES_OF_ONE: Final = 16 << 20


class WaitingBytes:
    """Bodies of replies whose askers have not answered yet, all together and by their connections."""

    def __init__(self) -> None:
        self._total = 0
        self._of: Counter[int] = Counter()

    @contextmanager
    def holding(self, connection_id: int, size_bytes: int) -> Iterator[None]:
        """Counts a body for as long as its block runs. Busy where there is no room for it."""
        total, of_one = self._total + size_bytes, self._of[connection_id] + size_bytes
        if total > MOST_WAITING_BYTES or of_one > MOST_WAITING_BYTES_OF_ONE:
            raise Busy("Too many bytes of replies wait for who asked to take them.")
        self._total, self._of[connection_id] = total, of_one
        try:
            yield
        finally:
            self._total -= size_bytes
            self._of[connection_id] -= size_bytes
            if not self._of[connection_id]:
                del self._of[connection_id]


class ReplyHandlers:
    """Hands replies over. Only success of that is answered as success."""

    def __init__(
        self,
        config: BrokerConfig,
        intake: Intake,
        appender: Appender,
        receipts: Receipts,
        clients: ClientRegistry,
        whereabouts: Whereabouts,
        clock: Clock,
    ) -> None:
        self._keeps = config.store_reply_message_enable
        self._intake = intake
        self._appender = appender
        self._receipts = receipts
        self._clients = clients
        self._whereabouts = whereabouts
        self._clock = clock
        self._waiting = WaitingBytes()

    def routes(self) -> Routes:
        return {
            RequestCode.SEND_REPLY_MESSAGE_V2: Route(SendMessageRequestHeaderV2, self.reply_v2),
            RequestCode.SEND_REPLY_MESSAGE: Route(SendMessageRequestHeader, self.reply_v1),
        }

    async def reply_v2(self, request: Request[SendMessageRequestHeaderV2]) -> Reply:
        return await self._reply(request, request.header)

    async def reply_v1(self, request: Request[SendMessageRequestHeader]) -> Reply:
        return await self._reply(request, SendMessageRequestHeaderV2.from_v1(request.header))

    async def _reply(self, request: SendRequest, header: SendMessageRequestHeaderV2) -> Reply:
        try:
            admitted = self._admit(request, header)
            refusal = await self._push(request, header)
        except RmqError as error:
            return self._receipts.refusal(error)
        stored = await self._keep(admitted) if self._keeps else None
        if refusal is not None:
            return self._receipts.refusal(refusal)
        if stored is not None and stored.header is not None:
            return stored
        return self._receipts.of_reply(admitted)

    def _admit(self, request: SendRequest, header: SendMessageRequestHeaderV2) -> Admitted:
        admitted = self._intake.admit(header, request.body, request.connection.peer)
        if admitted.topic != header.b:
            raise InvalidMessage("A reply goes at once.", hint="Send it without a delay, and outside of transactions.")
        return admitted

    async def _push(self, request: SendRequest, header: SendMessageRequestHeaderV2) -> RmqError | None:
        """Why the one who asked does not have it. Raises Busy where it may not wait for him."""
        properties = decode_properties((header.i or "").encode("utf-8", "replace"))
        client_id = properties.get(Property.REPLY_TO_CLIENT)
        if client_id is None:
            return ServerFault("reply message properties[REPLY_TO_CLIENT] is null")
        producer = self._clients.producer_called(client_id)
        if producer is None:
            return ServerFault(f"push reply message fail, channel of <{client_id}> not found.")
        pushed = self._pushed(header, properties, request.connection.peer)
        code, connection = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, producer.connection
        with self._waiting.holding(connection.id, len(request.body)):
            try:
                answer = await connection.call(code, pushed, request.body, timeout_ms=PUSH_TIMEOUT_MS)
                answer.raise_for_code()
            except RmqError as error:
                return ServerFault(f"push reply message to {client_id} fail. {error}")
        return None

    def _pushed(
        self, header: SendMessageRequestHeaderV2, properties: dict[str, str], peer: tuple[str, int]
    ) -> PushReplyMessageRequestHeader:
        """What the one who asked is told beside the body."""
        now_ms = self._clock.now_ms()
        properties[Property.PUSH_REPLY_TIME] = str(now_ms)
        return PushReplyMessageRequestHeader(
            producerGroup=header.a,
            topic=header.b,
            defaultTopic=header.c,
            defaultTopicQueueNums=header.d,
            queueId=header.e,
            sysFlag=header.f,
            bornTimestamp=header.g,
            flag=header.h,
            bornHost=format_address(*peer),
            storeHost=format_address(self._whereabouts.ip, self._whereabouts.port),
            storeTimestamp=now_ms,
            properties=encode_properties(properties).decode(),
            reconsumeTimes=header.j,
            unitMode=header.k,
        )

    async def _keep(self, admitted: Admitted) -> Reply:
        stored: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        try:
            self._appender.submit(AwaitedSend(admitted, stored, self._receipts))
        except RmqError as error:
            return self._receipts.refusal(error)
        return await stored

"""SEND_MESSAGE_V2 (310), SEND_MESSAGE (10), SEND_BATCH_MESSAGE (320): messages come in.

RocketMQ's SendMessageProcessor; spec: requests, section 4, semantics, sections 2.1 and 4. What a message must be like
is the business of `sending/intake.py`, how it gets into the log that of `sending/appender.py`. Left out so far:
topics with queue.type BatchCQ cannot be created.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rmqspark.broker.sending.sends import AwaitedBatch, AwaitedSend, BatchSend, SingleSend
from rmqspark.errors import RmqError, TopicNotFound
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.produce import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rmqspark.protocol.names import HALF_TOPIC, RETRY_PREFIX
from rmqspark.remoting.reply import CarriedOut
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rmqspark.broker.dead_letters import DeadLetters
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.sending.intake import Admitted, Intake, OnStored
    from rmqspark.broker.sending.new_topics import NewTopics
    from rmqspark.broker.sending.receipts import Receipts
    from rmqspark.broker.sending.sends import SendRequest
    from rmqspark.broker.sending.usual_sends import UsualSends
    from rmqspark.broker.transactions.half_messages import HalfMessages
    from rmqspark.remoting.reply import Reply
    from rmqspark.remoting.request import Request


class SendHandlers:
    """Stores messages that clients send, those for new topics once these are made."""

    def __init__(
        self,
        intake: Intake,
        usual: UsualSends,
        appender: Appender,
        receipts: Receipts,
        halves: HalfMessages,
        dead_letters: DeadLetters,
        new_topics: NewTopics,
    ) -> None:
        self._intake = intake
        self._usual = usual
        self._halves = halves
        self._dead_letters = dead_letters
        self._appender = appender
        self._receipts = receipts
        self._new_topics = new_topics

    def routes(self) -> Routes:
        return {
            RequestCode.SEND_MESSAGE_V2: Route(SendMessageRequestHeaderV2, self.send_v2, self._usual.take),
            RequestCode.SEND_MESSAGE: Route(SendMessageRequestHeader, self.send_v1, self._usual.take),
            RequestCode.SEND_BATCH_MESSAGE: Route(SendMessageRequestHeaderV2, self.send_batch),
        }

    def send_v2(self, request: Request[SendMessageRequestHeaderV2]) -> Reply | Awaitable[Reply] | None:
        header = request.header
        return self._send_batch(request, header) if header.m else self._send(request, header)

    def send_v1(self, request: Request[SendMessageRequestHeader]) -> Reply | Awaitable[Reply] | None:
        header = SendMessageRequestHeaderV2.from_v1(request.header)
        return self._send_batch(request, header) if header.m else self._send(request, header)

    def send_batch(self, request: Request[SendMessageRequestHeaderV2]) -> Reply | Awaitable[Reply] | None:
        return self._send_batch(request, request.header)

    def _send(self, request: SendRequest, header: SendMessageRequestHeaderV2) -> Reply | Awaitable[Reply] | None:
        on_stored = None
        try:
            if header.b.startswith(RETRY_PREFIX):
                header, on_stored = self._dead_letters.divert(header)
            self._appender.submit(SingleSend(self._admit(request, header, on_stored), request, self._receipts))
        except TopicNotFound:
            return self._send_to_new_topic(request, header, is_batch=False, on_stored=on_stored)
        except RmqError as error:
            return self._receipts.refusal(error)
        return None

    def _admit(self, request: SendRequest, header: SendMessageRequestHeaderV2, on_stored: OnStored | None) -> Admitted:
        admitted = self._intake.admit(header, request.body, request.connection.peer)
        admitted.on_stored = on_stored
        if admitted.topic == HALF_TOPIC:
            self._halves.check_room(self._appender.gathered)
            admitted.on_stored = self._halves.stored
        return admitted

    def _send_batch(self, request: SendRequest, header: SendMessageRequestHeaderV2) -> Reply | Awaitable[Reply] | None:
        try:
            batch = self._intake.admit_batch(header, request.body, request.connection.peer)
            self._appender.submit_batch(BatchSend(batch, request, self._receipts))
        except TopicNotFound:
            return self._send_to_new_topic(request, header, is_batch=True)
        except RmqError as error:
            return self._receipts.refusal(error)
        return None

    def _send_to_new_topic(
        self,
        request: SendRequest,
        header: SendMessageRequestHeaderV2,
        *,
        is_batch: bool,
        on_stored: OnStored | None = None,
    ) -> Reply | Awaitable[Reply]:
        """Makes the topic, stores the message, and answers when both are there to stay.

        The message goes into the log at once, not after the topic's file is written: what is sent behind it must not
        overtake it.
        """
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        try:
            self._new_topics.make(header)
            if is_batch:
                batch = self._intake.admit_batch(header, request.body, request.connection.peer)
                self._appender.submit_batch(AwaitedBatch(batch, reply, self._receipts))
            else:
                self._appender.submit(AwaitedSend(self._admit(request, header, on_stored), reply, self._receipts))
        except RmqError as error:
            return self._receipts.refusal(error)
        return CarriedOut(self._once_topic_is_saved(reply))

    async def _once_topic_is_saved(self, reply: asyncio.Future[Reply]) -> Reply:
        await self._new_topics.saved()
        return await reply

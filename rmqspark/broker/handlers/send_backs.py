"""CONSUMER_SEND_MSG_BACK (36): a consumer failed and wants the message again later.

RocketMQ's SendMessageProcessor.consumerSendMsgBack; spec: requests, section 5, semantics, section 8.9. Three
things differ on purpose: only what consumers can read may be sent back, it comes to a queue that they read, and under
SYNC_FLUSH the answer waits for the disk, as SYNC_MASTER's does for slaves. That none of these has it is no error, as
in RocketMQ: a consumer that hears of one sends the message besides, and of each copy there would be two the next time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rmqspark.broker.metrics.if_memory_allows import IF_MEMORY_ALLOWS
from rmqspark.broker.transactions.known_messages import is_called
from rmqspark.errors import DecodeError, FlushSlaveTimeout, MessageNotFound, ServerFault, SlaveNotAvailable
from rmqspark.protocol.codes import RequestCode, Version
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.protocol.names import NOT_SENDABLE
from rmqspark.protocol.records.record import Record, decode_record
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.metrics.counted import Counted
    from rmqspark.broker.redelivery import Redelivery, Returned
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.topic_publisher import TopicPublisher
    from rmqspark.remoting.request import Request
    from rmqspark.store.message_store import MessageStore


class SendBackHandlers:
    """Stores the message anew, for its group alone."""

    def __init__(
        self,
        store: MessageStore,
        redelivery: Redelivery,
        appender: Appender,
        publisher: TopicPublisher,
        counted: Counted,
    ) -> None:
        self._store = store
        self._redelivery = redelivery
        self._appender = appender
        self._publisher = publisher
        self._counted = counted

    def routes(self) -> Routes:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: Route(ConsumerSendMsgBackRequestHeader, self.send_back)}

    async def send_back(self, request: Request[ConsumerSendMsgBackRequestHeader]) -> Reply:
        """Answered when the message is as safe as the flush mode promises, and its topic there to stay. What a group
        without queues for retries sends back is dropped, as in RocketMQ."""
        header = request.header
        group = self._redelivery.group(header.group)
        if group is None:
            return Reply()
        record = self._record(header.offset, header.originMsgId)
        max_times = header.maxReconsumeTimes if request.version >= Version.V3_4_9 else None
        returned = self._redelivery.of(record, group, header.delayLevel, max_times)
        await self._stored(returned)
        with IF_MEMORY_ALLOWS:
            origin = self._redelivery.origin(record)
            self._counted.send_backs.of((origin, group.groupName))[0] += 1
            if returned.is_dead_letter:
                self._counted.dead_letters.of((group.groupName, origin))[0] += 1
        return Reply()

    def _record(self, physical_offset: int, msg_id: str | None) -> Record:
        """The message there, if it is one that consumers read, and the one that is meant. The consumer sends its own
        else."""
        try:
            record = decode_record(self._store.records.at(physical_offset))
        except (MessageNotFound, DecodeError):
            record = None
        if (
            record is None
            or record.topic in NOT_SENDABLE
            or not self._store.queues.holds(record)
            or not is_called(record, msg_id)
        ):
            raise ServerFault(f"look message by offset failed, {physical_offset}")  # RocketMQ's words
        return record

    async def _stored(self, returned: Returned) -> None:
        """Returns when it is safe, or no slave has had it in time. Raises what it is refused with."""
        place = self._appender.append_together([returned.draft], again=True)[0]
        if returned.is_topic_new:
            self._publisher.hurry()
            await self._publisher.save()
        with suppress(SlaveNotAvailable, FlushSlaveTimeout):
            await self._appender.safe(place.end_offset)

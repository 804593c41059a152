"""CONSUMER_SEND_MSG_BACK (36): a consumer failed and wants the message again later.

RocketMQ's SendMessageProcessor.consumerSendMsgBack; spec: requests, section 5, semantics, section 8.9. Three
things differ on purpose: only what consumers can read may be sent back, it comes to a queue that they read, and under
SYNC_FLUSH the answer waits for the disk, as SYNC_MASTER's does for slaves. That none of these has it is no error, as
in RocketMQ: a consumer that hears of one sends the message besides, and of each copy there would be two the next time.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from rmqspark.broker.flush_waiters import settle
from rmqspark.broker.known_messages import is_called
from rmqspark.broker.metrics.if_memory_allows import IF_MEMORY_ALLOWS
from rmqspark.broker.redelivery import dead_letter_draft, is_dead, retry_draft
from rmqspark.errors import (
    DecodeError,
    FlushSlaveTimeout,
    MessageNotFound,
    RmqError,
    ServerFault,
    SlaveNotAvailable,
)
from rmqspark.protocol.codes import RequestCode, Version
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.protocol.names import NOT_SENDABLE, retry_topic
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import Record, decode_record
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.groups import SubscriptionGroups
    from rmqspark.broker.metrics.counted import Counted
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.topic_publisher import TopicPublisher
    from rmqspark.broker.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
    from rmqspark.remoting.request import Request
    from rmqspark.store.draft import Draft
    from rmqspark.store.message_store import MessageStore


class SendBackHandlers:
    """Stores the message anew, for its group alone, and makes the topic it needs for that."""

    def __init__(
        self,
        store: MessageStore,
        appender: Appender,
        topics: TopicTable,
        groups: SubscriptionGroups,
        publisher: TopicPublisher,
        counted: Counted,
        clock: Clock,
        entropy: Entropy,
        *,
        delay_levels: int,
    ) -> None:
        self._store = store
        self._appender = appender
        self._topics = topics
        self._groups = groups
        self._publisher = publisher
        self._counted = counted
        self._clock = clock
        self._entropy = entropy
        self._delay_levels = delay_levels

    def routes(self) -> Routes:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: Route(ConsumerSendMsgBackRequestHeader, self.send_back)}

    async def send_back(self, request: Request[ConsumerSendMsgBackRequestHeader]) -> Reply:
        """Answered when the message is as safe as the flush mode promises, and its topic there to stay.

        A group that has no queues for retries wants none: its messages are dropped, as in RocketMQ. One that is not
        there, since an operator has deleted it say, is made by use, if that is allowed.
        """
        header = request.header
        group = self._groups.find_or_create(header.group, self._clock.now_ms())
        if group.retryQueueNums <= 0:
            return Reply()
        record = self._record(header.offset, header.originMsgId)
        limit = header.maxReconsumeTimes if request.version >= Version.V3_4_9 else None
        is_given_up = is_dead(record, header.delayLevel, group.retryMaxTimes if limit is None else limit)
        if is_given_up:
            is_new = self._topics.ensure_dead_letters(group.groupName, self._clock.now_ms())
            draft = dead_letter_draft(record, group.groupName)
        else:
            is_new = self._topics.ensure_retry(group.groupName, group.retryQueueNums, self._clock.now_ms())
            draft = self._retry(record, group, header.delayLevel)
        await self._stored(draft, is_new_topic=is_new)
        with IF_MEMORY_ALLOWS:
            origin = self._origin(record)
            self._counted.send_backs.of((origin, group.groupName))[0] += 1
            if is_given_up:
                self._counted.dead_letters.of((group.groupName, origin))[0] += 1
        return Reply()

    def _retry(self, record: Record, group: SubscriptionGroupConfig, delay_level: int) -> Draft:
        """For one of the queues that its topic has: the group may have been given more since that was made. RocketMQ
        stores in these, too, and no consumer reads them."""
        topic = self._topics.require(retry_topic(group.groupName))
        queues = min(group.retryQueueNums, topic.readQueueNums, topic.writeQueueNums)
        queue_id = self._entropy.below(max(1, queues))
        return retry_draft(record, group.groupName, queue_id, delay_level, self._delay_levels)

    def _origin(self, record: Record) -> str:
        """The topic it was sent to first; where it names one that is not there, the one that it was read of."""
        named = record.property_map().get(Property.RETRY_TOPIC, "")
        return record.topic if self._topics.get(named) is None else named

    def _record(self, physical_offset: int, msg_id: str | None) -> Record:
        """The message there, if it is one that consumers read, and the one that is meant. The consumer sends its own
        else."""
        try:
            record = decode_record(self._store.read_at(physical_offset))
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

    async def _stored(self, draft: Draft, *, is_new_topic: bool) -> None:
        """Returns when it is safe, or no slave has had it in time. Raises what it is refused with."""
        place = self._appender.append_together([draft], again=True)[0]
        safe: asyncio.Future[RmqError | None] = asyncio.get_running_loop().create_future()
        self._appender.when_safe(place.physical_offset + place.size, partial(settle, safe))
        if is_new_topic:
            self._publisher.hurry()
            await self._publisher.save()
        error = await safe
        if error is not None and not isinstance(error, (SlaveNotAvailable, FlushSlaveTimeout)):
            raise error

"""QUERY_CONSUMER_OFFSET (14), UPDATE_CONSUMER_OFFSET (15), INVOKE_BROKER_TO_RESET_OFFSET (222),
GET_ALL_CONSUMER_OFFSET (43): how far groups have come. And ours, RMQ_GROUP_RESETS (30030).

RocketMQ's ConsumerManageProcessor and, for 222, AdminBrokerProcessor with useServerSideResetOffset; spec: requests,
sections 5 and 7, observed. A commit for a group that does not exist is refused; so is, though RocketMQ takes it, one
beyond the end of a queue where the log has lost one. A reset is kept here and told to the next pull; clients of
versions that want it pushed (220) are told the same way, and queries of ours ask for it (30030). It is answered when it
is on disk: an operator who was told that a group is set need not look again, nor is a query set back twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.state.resets import GroupQueue
from rmqspark.errors import GroupNotFound, InvalidArgument, InvalidQueue, NotSupported, OffsetNotFound, ServerFault
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.admin import ResetOffsetBody
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import ResetOffsetRequestHeader
from rmqspark.protocol.headers.consume import (
    ConsumerGroupRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqspark.remoting.reply import Reply, reply_after
from rmqspark.remoting.router import Route, Routes
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.shared_groups.group_leases import GroupLeases
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.route import TopicConfig
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields
    from rmqspark.store.message_store import MessageStore

_PREVIOUSLY_RESET = "Offset has been previously reset"
_NO_OFFSET = -1


class ConsumerOffsetHandlers:
    """Reads and moves the committed offsets of groups."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, tables: BrokerTables, leases: GroupLeases, clock: Clock
    ) -> None:
        self._broker_name = config.broker_name
        self._is_slave = config.is_slave
        self._resets_here = config.use_server_side_reset_offset
        self._store = store
        self._tables = tables
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._leases = leases
        self._clock = clock

    def routes(self) -> Routes:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: Route(QueryConsumerOffsetRequestHeader, self.query),
            RequestCode.UPDATE_CONSUMER_OFFSET: Route(UpdateConsumerOffsetRequestHeader, self.update),
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Route(ResetOffsetRequestHeader, self.reset),
            RequestCode.GET_ALL_CONSUMER_OFFSET: Route(None, self.all),
            RequestCode.RMQ_GROUP_RESETS: Route(ConsumerGroupRequestHeader, self.resets),
        }

    def query(self, request: Request[QueryConsumerOffsetRequestHeader]) -> Reply:
        """Nothing stored is 0 while message 0 of the queue is still recent, and unknown otherwise.

        So a new group on a young topic starts at the beginning, whatever its consumeFromWhere says; also one whose
        consumer asks before the broker has heard of it.
        """
        header = request.header
        offset = self._offsets.committed(header.consumerGroup, header.topic, header.queueId)
        if offset is None:
            if header.setZeroIfNotFound is False or not self._is_young(header.topic, header.queueId):
                raise OffsetNotFound("Not found, maybe this group consumer boot first")  # RocketMQ's words
            offset = 0
        return Reply(OffsetResponseHeader(offset))

    def update(self, request: Request[UpdateConsumerOffsetRequestHeader]) -> Reply | Awaitable[Reply]:
        header = request.header
        self._groups.require(header.consumerGroup)
        if header.decided:
            return self._follow(header)
        self._check_queue(self._topics.require(header.topic), header.queueId)
        self._store.deletions.require_not_remade(header.topic, header.topicDeleted)
        self._check_offset(header)
        if self._offsets.commit(header.consumerGroup, header.topic, header.queueId, header.commitOffset):
            return Reply()
        return Reply(remark=_PREVIOUSLY_RESET)

    def _follow(self, header: UpdateConsumerOffsetRequestHeader) -> Reply | Awaitable[Reply]:
        """What a decided batch has read; of a queue that lost some of that, up to its end. Of a topic that was deleted
        nothing is to be said again: that comes before there is none of its name."""
        self._store.deletions.require_not_remade(header.topic, header.topicDeleted)
        self._check_queue(self._topics.require(header.topic), header.queueId)
        queue = MessageQueue(header.topic, self._broker_name, header.queueId)
        self._leases.follow(header.consumerGroup, {queue: header.commitOffset})
        return Reply() if self._leases.is_safe else reply_after(self._leases.make_safe, Reply())

    def reset(self, request: Request[ResetOffsetRequestHeader]) -> Awaitable[Reply]:
        """Moves a group to an offset or a time, in one queue or all; the body says where each queue stands now."""
        header = request.header
        if not self._resets_here:
            raise NotSupported("Offset resets by clients are not supported.", hint="Set use_server_side_reset_offset.")
        topic = self._topics.require(header.topic)
        if self._groups.get(header.group) is None:
            raise GroupNotFound(header.group)
        queue_id = _NO_OFFSET if header.queueId is None else header.queueId
        if queue_id >= 0:
            self._check_queue(topic, queue_id)
        queue_ids = [queue_id] if queue_id >= 0 else range(topic.readQueueNums)
        targets = {each: self._reset_target(header, each) for each in queue_ids}
        for each, offset in targets.items():
            self._offsets.reset(header.group, header.topic, each, offset)
        table = {MessageQueue(header.topic, self._broker_name, each): offset for each, offset in targets.items()}
        return reply_after(self._tables.save, Reply(body=ResetOffsetBody(table).encode()))

    def resets(self, request: Request[ConsumerGroupRequestHeader]) -> Reply | Awaitable[Reply]:
        """What the reader says it has carried out is settled; the answer is what it has not.

        What is settled is on disk before it is answered, also to who asks again after an error: the reader reads on
        then, and a start that still knew the reset would send it back there once more.
        """
        group, pending = request.header.consumerGroup, self._offsets.resets
        self._groups.find_or_create(group, self._clock.now_ms())
        settled = ResetOffsetBody.decode_request(request.body).offsetTable
        for queue, offset in settled.items():
            pending.settle(GroupQueue(group, queue.topic, queue.queue_id), offset)
        table = {
            MessageQueue(queue.topic, self._broker_name, queue.queue_id): offset
            for queue, offset in pending.of(group).items()
        }
        reply = Reply(body=ResetOffsetBody(table).encode())
        is_safe = not settled or self._tables.reset_file.is_saved
        return reply if is_safe else reply_after(self._tables.save, reply)

    def all(self, request: Request[NoFields]) -> Reply:
        del request
        return Reply(body=self._offsets.table(self._clock.now_ms()).encode())

    def _reset_target(self, header: ResetOffsetRequestHeader, queue_id: int) -> int:
        low, high = self._store.queues.bounds(header.topic, queue_id)
        if header.queueId is not None and header.queueId >= 0 and header.offset not in (None, _NO_OFFSET):
            if not low <= header.offset <= high + 1:
                raise ServerFault(f"Offset {header.offset} is not within {low} to {high + 1} of queue {queue_id}.")
            return header.offset
        if header.timestamp < 0:
            return high
        return self._store.queues.offset_by_time(header.topic, queue_id, header.timestamp, "LOWER")

    def _is_young(self, topic: str, queue_id: int) -> bool:
        return self._store.queues.min_offset(topic, queue_id) <= 0 and self._store.queues.is_recent(topic, queue_id)

    def _check_offset(self, header: UpdateConsumerOffsetRequestHeader) -> None:
        """Who is ahead of a queue that may have lost messages speaks of those: what came in their places is not
        consumed. But a slave may lag behind."""
        offset, end = header.commitOffset, self._store.queues.max_offset(header.topic, header.queueId)
        if offset < 0:
            raise InvalidArgument(f"{offset} is no offset to commit.")
        if offset > end and not self._is_slave and self._store.may_have_lost(header.topic):
            raise InvalidArgument(
                f"{offset} is no offset to commit: queue {header.queueId} of {header.topic} ends at {end}.",
                hint="What was there has been lost with the end of the log, or was deleted with its topic.",
            )

    def _check_queue(self, topic: TopicConfig, queue_id: int) -> None:
        if not 0 <= queue_id < topic.queue_count:
            raise InvalidQueue(
                f"Topic {topic.topicName!r} has {counted(topic.readQueueNums, 'queue')}, there is no {queue_id}."
            )

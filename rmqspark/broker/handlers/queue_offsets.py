"""SEARCH_OFFSET_BY_TIMESTAMP (29), GET_MAX_OFFSET (30), GET_MIN_OFFSET (31), GET_EARLIEST_MSG_STORETIME (32): what a
queue holds. RocketMQ's AdminBrokerProcessor; spec: requests, section 5, storage, section 3.

RMQ_QUEUE_BOUNDS (30006) is rmqspark's own: what 30 and 31 tell, of up to a thousand queues. A query of a thousand
topics asks with each of its batches, and all the time while it waits for one.

A topic or queue that is not there is answered like one that is empty, as RocketMQ does: 0, or -1 for the store time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.bulk import MAX_BOUNDED_QUEUES, BoundsOfQueues, QueueBounds, QueuesOfTopics
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    MaxOffsetResponseHeader,
    OffsetResponseHeader,
    SearchOffsetRequestHeader,
)
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.replica.copied_queues import CopiedQueues
    from rmqspark.protocol.bodies.bulk import QueueOfTopic
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields
    from rmqspark.store.message_store import MessageStore
    from rmqspark.store.reading.time_search import Boundary


class QueueOffsetHandlers:
    """Answers from the store's queues."""

    def __init__(self, store: MessageStore, copied: CopiedQueues) -> None:
        self._store = store
        self._copied = copied

    def routes(self) -> Routes:
        return {
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Route(SearchOffsetRequestHeader, self.search),
            RequestCode.GET_MAX_OFFSET: Route(GetMaxOffsetRequestHeader, self.max_offset),
            RequestCode.GET_MIN_OFFSET: Route(GetMinOffsetRequestHeader, self.min_offset),
            RequestCode.GET_EARLIEST_MSG_STORETIME: Route(GetEarliestMsgStoretimeRequestHeader, self.earliest),
            RequestCode.RMQ_QUEUE_BOUNDS: Route(None, self.bounds),
        }

    def search(self, request: Request[SearchOffsetRequestHeader]) -> Reply:
        header = request.header
        self._copied.require_proven()
        boundary: Boundary = "UPPER" if (header.boundaryType or "").upper() == "UPPER" else "LOWER"
        offset = self._store.queues.offset_by_time(header.topic, header.queueId, header.timestamp, boundary)
        if offset <= self._store.queues.min_offset(header.topic, header.queueId):
            self._copied.require_begin(header.topic, header.queueId)
        return Reply(OffsetResponseHeader(offset))

    def max_offset(self, request: Request[GetMaxOffsetRequestHeader]) -> Reply:
        """With when a topic of this name was last deleted, in a field of ours, so that readers notice."""
        self._copied.require_proven()
        topic, queue_id = request.header.topic, request.header.queueId
        deleted_ms = self._store.deletions.deleted_ms(topic) or None
        return Reply(MaxOffsetResponseHeader(self._store.queues.max_offset(topic, queue_id), deleted_ms))

    def min_offset(self, request: Request[GetMinOffsetRequestHeader]) -> Reply:
        topic, queue_id = request.header.topic, request.header.queueId
        self._copied.require_begin(topic, queue_id)
        return Reply(OffsetResponseHeader(self._store.queues.min_offset(topic, queue_id)))

    def earliest(self, request: Request[GetEarliestMsgStoretimeRequestHeader]) -> Reply:
        timestamp = self._store.queues.earliest_store_time(request.header.topic, request.header.queueId)
        return Reply(GetEarliestMsgStoretimeResponseHeader(timestamp))

    def bounds(self, request: Request[NoFields]) -> Reply:
        asked = QueuesOfTopics.decode_request(request.body).queues
        if len(asked) > MAX_BOUNDED_QUEUES:
            raise InvalidArgument(f"{len(asked)} queues in one request; {MAX_BOUNDED_QUEUES} are allowed.")
        return Reply(body=BoundsOfQueues([self._bounds(queue) for queue in asked]).encode())

    def _bounds(self, queue: QueueOfTopic) -> QueueBounds:
        topic, queue_id = queue.topic, queue.queueId
        begin, end = self._store.queues.bounds(topic, queue_id)
        return QueueBounds(begin, end, self._store.deletions.deleted_ms(topic))

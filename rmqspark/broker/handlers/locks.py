"""LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42): leases on queues for orderly consumers.

RocketMQ's AdminBrokerProcessor and RebalanceLockManager; spec: requests, section 5, semantics, section 8.8. Queues that
this broker does not have are not locked, so that the table stays as small as the topics are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import LockBatchBody, LockBatchResponseBody, Queue
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.names import check_client_id
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.state.groups import SubscriptionGroups
    from rmqspark.broker.state.locks import QueueLocks
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields


class LockHandlers:
    """Locks queues for consumers of known groups."""

    def __init__(
        self, config: BrokerConfig, locks: QueueLocks, topics: TopicTable, groups: SubscriptionGroups, clock: Clock
    ) -> None:
        self._broker_name = config.broker_name
        self._locks = locks
        self._topics = topics
        self._groups = groups
        self._clock = clock

    def routes(self) -> Routes:
        return {
            RequestCode.LOCK_BATCH_MQ: Route(None, self.lock),
            RequestCode.UNLOCK_BATCH_MQ: Route(None, self.unlock),
        }

    def lock(self, request: Request[NoFields]) -> Reply:
        body = LockBatchBody.decode_request(request.body)
        check_client_id(body.clientId)
        self._groups.find_or_create(body.consumerGroup, self._clock.now_ms())
        queues = list(self._queues_here(body))
        owned = self._locks.lock(body.consumerGroup, body.clientId, queues, self._clock.monotonic_ms())
        answer = LockBatchResponseBody([Queue(queue.topic, queue.broker_name, queue.queue_id) for queue in owned])
        return Reply(body=answer.encode())

    def unlock(self, request: Request[NoFields]) -> Reply:
        body = LockBatchBody.decode_request(request.body)
        self._locks.unlock(body.consumerGroup, body.clientId, self._queues_here(body))
        return Reply()

    def _queues_here(self, body: LockBatchBody) -> Iterator[MessageQueue]:
        for queue in body.mqSet:
            topic = self._topics.get(queue.topic)
            if topic is not None and queue.brokerName == self._broker_name and 0 <= queue.queueId < topic.readQueueNums:
                yield MessageQueue(queue.topic, queue.brokerName, queue.queueId)

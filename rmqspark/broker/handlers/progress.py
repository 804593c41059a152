"""How full topics are and how far their consumers: GET_TOPIC_STATS_INFO (202), GET_CONSUME_STATS (208),
QUERY_TOPIC_CONSUME_BY_WHO (300), QUERY_TOPICS_BY_CONSUMER (343).

RocketMQ's AdminBrokerProcessor; spec: requests, sections 5 and 7. `consumeTps` goes by committed offsets
(`broker/consumption.py`); rates per topic are not counted and are 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.admin import ConsumeStats, GroupList, OffsetWrapper, TopicOffset, TopicStatsTable
from rmqspark.protocol.bodies.route import TopicList
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import (
    GetConsumeStatsRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    TopicRequestHeader,
)
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.consumption import ConsumptionRates
    from rmqspark.broker.offsets import ConsumerOffsets
    from rmqspark.broker.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.remoting.request import Request
    from rmqspark.store.message_store import MessageStore


class ProgressHandlers:
    """Puts together what store, offset table and registry know."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        clients: ClientRegistry,
        rates: ConsumptionRates,
        clock: Clock,
    ) -> None:
        self._broker_name = config.broker_name
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._rates = rates
        self._clock = clock

    def routes(self) -> Routes:
        return {
            RequestCode.GET_TOPIC_STATS_INFO: Route(TopicRequestHeader, self.topic_stats),
            RequestCode.GET_CONSUME_STATS: Route(GetConsumeStatsRequestHeader, self.consume_stats),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Route(TopicRequestHeader, self.consumers_of),
            RequestCode.QUERY_TOPICS_BY_CONSUMER: Route(QueryTopicsByConsumerRequestHeader, self.topics_of),
        }

    def topic_stats(self, request: Request[TopicRequestHeader]) -> Reply:
        topic = self._topics.require(request.header.topic)
        table = {
            self._queue(topic.topicName, queue_id): self._extent(topic.topicName, queue_id)
            for queue_id in range(max(topic.readQueueNums, topic.writeQueueNums))
        }
        return Reply(body=TopicStatsTable(table).encode())

    def consume_stats(self, request: Request[GetConsumeStatsRequestHeader]) -> Reply:
        group = request.header.consumerGroup
        table, per_second = {}, 0.0
        for name in self._consumed_topics(request.header):
            topic = self._topics.get(name)
            if topic is not None:
                per_second += self._rates.per_second(group, name, self._clock.monotonic_ms())
                for queue_id in range(topic.readQueueNums):
                    table[self._queue(name, queue_id)] = self._progress(group, name, queue_id)
        return Reply(body=ConsumeStats(table, per_second).encode())

    def consumers_of(self, request: Request[TopicRequestHeader]) -> Reply:
        topic = request.header.topic
        groups = {*self._clients.groups_subscribed_to(topic), *self._offsets.groups_of(topic)}
        return Reply(body=GroupList(sorted(groups)).encode())

    def topics_of(self, request: Request[QueryTopicsByConsumerRequestHeader]) -> Reply:
        return Reply(body=TopicList(self._offsets.topics_of(request.header.group)).encode())

    def _consumed_topics(self, header: GetConsumeStatsRequestHeader) -> Iterable[str]:
        """Those of a list as they are. Else the one named, or those the group has offsets in; while it is online only
        those it subscribes to."""
        if header.topicList:
            return [name for name in dict.fromkeys(header.topicList.split(";")) if name]
        topics = [header.topic] if header.topic else self._offsets.topics_of(header.consumerGroup)
        online = self._clients.consumer_group(header.consumerGroup)
        return topics if online is None else [name for name in topics if name in online.subscriptions]

    def _extent(self, topic: str, queue_id: int) -> TopicOffset:
        low, high = self._store.queues.bounds(topic, queue_id)
        last_ms = self._store.queues.store_time_at(topic, queue_id, high - 1) if high > low else 0
        return TopicOffset(minOffset=low, maxOffset=high, lastUpdateTimestamp=max(0, last_ms))

    def _progress(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        committed = max(0, self._offsets.committed(group, topic, queue_id) or 0)
        pulled = self._offsets.pull_offset(group, topic, queue_id) or 0
        last_ms = self._store.queues.store_time_at(topic, queue_id, committed - 1) if committed else 0
        return OffsetWrapper(
            brokerOffset=self._store.queues.max_offset(topic, queue_id),
            consumerOffset=committed,
            pullOffset=max(committed, pulled),
            lastTimestamp=max(0, last_ms),
        )

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._broker_name, queue_id)

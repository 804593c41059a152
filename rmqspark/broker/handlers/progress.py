"""How full topics are and how far their consumers: GET_TOPIC_STATS_INFO (202), GET_CONSUME_STATS (208),
QUERY_TOPIC_CONSUME_BY_WHO (300), QUERY_CONSUME_TIME_SPAN (303), QUERY_TOPICS_BY_CONSUMER (343).

RocketMQ's AdminBrokerProcessor; spec: requests, sections 5 and 7. `consumeTps` goes by committed offsets
(`broker/consumption.py`). To 303 a group waits for what it did not consume of what is there; RocketMQ has it wait since
1970 where it committed nothing, or where its next message has expired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.bodies.admin import ConsumeStats, GroupList, QueueTimeSpans, TopicOffset, TopicStatsTable
from rmqspark.protocol.bodies.route import TopicList
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import (
    GetConsumeStatsRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    TopicRequestHeader,
)
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.metrics.statistics import Statistics
    from rmqspark.broker.progress import Progress
    from rmqspark.broker.state.offsets import ConsumerOffsets
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.remoting.request import Request
    from rmqspark.store.message_store import MessageStore


class ProgressHandlers:
    """Puts together what store, offset table and registry know."""

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        clients: ClientRegistry,
        progress: Progress,
        statistics: Statistics,
    ) -> None:
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._progress = progress
        self._statistics = statistics

    def routes(self) -> Routes:
        return {
            RequestCode.GET_TOPIC_STATS_INFO: Route(TopicRequestHeader, self.topic_stats),
            RequestCode.GET_CONSUME_STATS: Route(GetConsumeStatsRequestHeader, self.consume_stats),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Route(TopicRequestHeader, self.consumers_of),
            RequestCode.QUERY_CONSUME_TIME_SPAN: Route(QueryConsumeTimeSpanRequestHeader, self.time_spans),
            RequestCode.QUERY_TOPICS_BY_CONSUMER: Route(QueryTopicsByConsumerRequestHeader, self.topics_of),
        }

    def topic_stats(self, request: Request[TopicRequestHeader]) -> Reply:
        topic = self._topics.require(request.header.topic)
        table = {
            self._progress.queue(topic.topicName, queue_id): self._extent(topic.topicName, queue_id)
            for queue_id in range(topic.queue_count)
        }
        puts = self._statistics.find("TOPIC_PUT_NUMS", topic.topicName)
        return Reply(body=TopicStatsTable(table, puts.statsMinute.tps if puts else 0.0).encode())

    def consume_stats(self, request: Request[GetConsumeStatsRequestHeader]) -> Reply:
        group = request.header.consumerGroup
        stats = ConsumeStats({})
        for name in self._consumed_topics(request.header):
            topic = self._topics.get(name)
            if topic is not None:
                of_topic = self._progress.of(group, name, range(topic.readQueueNums))
                stats.offsetTable |= of_topic.offsetTable
                stats.consumeTps += of_topic.consumeTps
        return Reply(body=stats.encode())

    def consumers_of(self, request: Request[TopicRequestHeader]) -> Reply:
        topic = request.header.topic
        groups = {*self._clients.groups_subscribed_to(topic), *self._offsets.groups_of(topic)}
        return Reply(body=GroupList(sorted(groups)).encode())

    def time_spans(self, request: Request[QueryConsumeTimeSpanRequestHeader]) -> Reply:
        group, topic = request.header.group, self._topics.require(request.header.topic)
        queues = range(topic.queue_count)
        spans = [self._progress.time_span(group, topic.topicName, queue_id) for queue_id in queues]
        return Reply(body=QueueTimeSpans(spans).encode())

    def topics_of(self, request: Request[QueryTopicsByConsumerRequestHeader]) -> Reply:
        return Reply(body=TopicList(self._offsets.topics_of(request.header.group)).encode())

    def _consumed_topics(self, header: GetConsumeStatsRequestHeader) -> Iterable[str]:
        """Those of a list as they are. Else the one named, or those the group has offsets in; while it is online only
        those it subscribes to."""
        if header.topicList:
            return [name for name in dict.fromkeys(header.topicList.split(";")) if name]
        topics = [header.topic] if header.topic else self._offsets.topics_of(header.consumerGroup)
        return [name for name in topics if self._progress.goes_on(header.consumerGroup, name)]

    def _extent(self, topic: str, queue_id: int) -> TopicOffset:
        low, high = self._store.queues.bounds(topic, queue_id)
        last_ms = self._store.queues.store_time_at(topic, queue_id, high - 1) if high > low else 0
        return TopicOffset(minOffset=low, maxOffset=high, lastUpdateTimestamp=max(0, last_ms))

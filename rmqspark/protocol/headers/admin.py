"""Headers of what administration tools ask a broker (spec: requests, sections 5 and 7)."""

from __future__ import annotations

from rmqspark.protocol.headers.types import Header, Int32, Int64


class CreateTopicRequestHeader(Header):
    """UPDATE_AND_CREATE_TOPIC. `attributes` is `+name=value,-name`."""

    topic: str
    defaultTopic: str
    readQueueNums: Int32
    writeQueueNums: Int32
    perm: Int32
    topicFilterType: str
    topicSysFlag: Int32 | None = None
    order: bool | None = None
    attributes: str | None = None
    force: bool | None = None


class TopicRequestHeader(Header):
    """Requests that name a topic and nothing else: delete, get configuration, statistics, who consumes it."""

    topic: str


class DeleteSubscriptionGroupRequestHeader(Header):
    groupName: str
    cleanOffset: bool | None = None


class GetSubscriptionGroupConfigRequestHeader(Header):
    group: str


class GetConsumeStatsRequestHeader(Header):
    consumerGroup: str
    topic: str | None = None
    topicList: str | None = None  # joined by semicolons, since 5.3


class GetProducerConnectionListRequestHeader(Header):
    producerGroup: str


class ResetOffsetRequestHeader(Header):
    """INVOKE_BROKER_TO_RESET_OFFSET: to `offset` if one is given (not -1), else to `timestamp` (below 0: the end)."""

    topic: str
    group: str
    timestamp: Int64
    isForce: bool
    queueId: Int32 | None = None
    offset: Int64 | None = None


class GetBrokerConfigResponseHeader(Header):
    version: str


class CloneGroupOffsetRequestHeader(Header):
    srcGroup: str
    destGroup: str
    topic: str | None = None
    offline: bool | None = None


class ViewBrokerStatsDataRequestHeader(Header):
    statsName: str
    statsKey: str


class GetBrokerConsumeStatsRequestHeader(Header):
    isOrder: bool


class QueryConsumeQueueRequestHeader(Header):
    topic: str
    queueId: Int32
    index: Int64
    count: Int32
    consumerGroup: str | None = None


class ResumeCheckHalfMessageRequestHeader(Header):
    topic: str | None = None
    msgId: str | None = None


class GroupForbiddenRequestHeader(Header):
    group: str
    topic: str
    readable: bool | None = None


class QueryTopicsByConsumerRequestHeader(Header):
    group: str


class QuerySubscriptionByConsumerRequestHeader(Header):
    group: str
    topic: str | None = None


class QueryConsumeTimeSpanRequestHeader(Header):
    topic: str
    group: str

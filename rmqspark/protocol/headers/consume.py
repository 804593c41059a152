"""Headers of what consumers ask: pull, offsets, membership, send-back, queries (spec: requests, section 5)."""

from __future__ import annotations

from enum import IntFlag
from typing import Final

from rmqspark.protocol.headers.types import Header, Int32, Int64

OFFSET_RESET: Final = "OFFSET_RESET"
"""Remark of a PULL_OFFSET_MOVED that an operator caused, who moved this group (spec: requests, section 7)."""
DELETION_NOT_KNOWN: Final = -1
"""The `topicDeleted` of a slave."""
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
"""Extra field beside QueryMessageRequestHeader; "true": its `key` is a UNIQ_KEY."""


class PullFlag(IntFlag):
    """Bits of PullMessageRequestHeader.sysFlag (RocketMQ's PullSysFlag)."""

    COMMIT_OFFSET = 1  # commitOffset is to be stored
    SUSPEND = 2  # the broker may hold the request until something comes
    SUBSCRIPTION = 4  # the subscription fields are valid
    CLASS_FILTER = 8
    LITE_PULL = 16


class PullMessageRequestHeader(Header):
    """PULL_MESSAGE and LITE_PULL_MESSAGE. `topicDeleted` is ours: when a topic of this name had last been deleted, ms,
    as the reader knows (0: never); what it commits counts for nothing where that was later."""

    consumerGroup: str
    topic: str
    queueId: Int32
    queueOffset: Int64
    maxMsgNums: Int32
    sysFlag: Int32  # PullFlag
    commitOffset: Int64
    suspendTimeoutMillis: Int64
    subVersion: Int64
    subscription: str | None = None
    expressionType: str | None = None  # TAG or SQL92; None is TAG
    maxMsgBytes: Int32 | None = None
    bname: str | None = None
    topicDeleted: Int64 | None = None


class PullMessageResponseHeader(Header):
    """Codes 0, 19, 20 and 21 carry all four numbers: without them a client stands still (spec: requests, section 5).
    `topicDeleted` is ours, as in MaxOffsetResponseHeader; below 0 of a slave, which does not know."""

    suggestWhichBrokerId: Int64
    nextBeginOffset: Int64
    minOffset: Int64
    maxOffset: Int64
    offsetDelta: Int64 | None = None
    topicSysFlag: Int32 | None = None
    groupSysFlag: Int32 | None = None
    forbiddenType: Int32 | None = None
    topicDeleted: Int64 | None = None


class QueryConsumerOffsetRequestHeader(Header):
    consumerGroup: str
    topic: str
    queueId: Int32
    setZeroIfNotFound: bool | None = None
    bname: str | None = None


class UpdateConsumerOffsetRequestHeader(Header):
    """`topicDeleted` as in PullMessageRequestHeader. `decided`: a batch that was decided has read up to there for
    the group, which this never takes back, and which is as safe there as the decision when it is answered."""

    consumerGroup: str
    topic: str
    queueId: Int32
    commitOffset: Int64
    bname: str | None = None
    topicDeleted: Int64 | None = None
    decided: bool | None = None


class SearchOffsetRequestHeader(Header):
    topic: str
    queueId: Int32
    timestamp: Int64
    boundaryType: str | None = None  # UPPER, in any case; all else is LOWER
    bname: str | None = None


class GetMaxOffsetRequestHeader(Header):
    topic: str
    queueId: Int32
    committed: bool | None = None
    bname: str | None = None


class GetMinOffsetRequestHeader(Header):
    topic: str
    queueId: Int32
    bname: str | None = None


class GetEarliestMsgStoretimeRequestHeader(Header):
    topic: str
    queueId: Int32
    bname: str | None = None


class OffsetResponseHeader(Header):
    """Answers QUERY_CONSUMER_OFFSET, SEARCH_OFFSET_BY_TIMESTAMP, GET_MAX_OFFSET and GET_MIN_OFFSET."""

    offset: Int64


class MaxOffsetResponseHeader(Header):
    """Answers GET_MAX_OFFSET. `topicDeleted` is ours: when a topic of this name was last deleted on this broker, ms;
    absent if never. Offsets from before then belong to messages that are gone."""

    offset: Int64
    topicDeleted: Int64 | None = None


class GetEarliestMsgStoretimeResponseHeader(Header):
    timestamp: Int64  # ms; -1 if the queue is empty


class HeartbeatRequestHeader(Header):
    """Nothing that a server needs; older clients send no fields at all."""

    bname: str | None = None


class UnregisterClientRequestHeader(Header):
    clientID: str
    producerGroup: str | None = None
    consumerGroup: str | None = None


class ConsumerGroupRequestHeader(Header):
    """GET_CONSUMER_LIST_BY_GROUP, NOTIFY_CONSUMER_IDS_CHANGED and GET_CONSUMER_CONNECTION_LIST."""

    consumerGroup: str


class GroupLeasesRequestHeader(Header):
    """RMQ_GROUP_LEASES. `run` is the number that this broker gave the client's run; absent in its first request.
    `coordinator` is the broker that asks for the client, to decide what was read under the leases. `strategy` is how
    the client divides the group's queues; a broker of before passes over it."""

    consumerGroup: str
    clientId: str
    run: Int64 | None = None
    coordinator: str | None = None
    strategy: str | None = None


class ConsumerSendMsgBackRequestHeader(Header):
    offset: Int64  # physical offset of the message
    group: str
    delayLevel: Int32
    originMsgId: str | None = None
    originTopic: str | None = None
    unitMode: bool | None = None
    maxReconsumeTimes: Int32 | None = None
    bname: str | None = None


class QueryMessageRequestHeader(Header):
    topic: str
    key: str
    maxNum: Int32
    beginTimestamp: Int64
    endTimestamp: Int64
    belowPhyOffset: Int64 | None = None  # ours: the newest of those that lie below
    indexType: str | None = None  # T: `key` is a message's tags (RocketMQ 5.5)


class QueryMessageResponseHeader(Header):
    indexLastUpdateTimestamp: Int64
    indexLastUpdatePhyoffset: Int64
    walkedToPhyOffset: Int64 | None = None  # ours, where belowPhyOffset was said: none is left between; -1 none at all


class ViewMessageRequestHeader(Header):
    offset: Int64  # physical offset
    topic: str | None = None


class ResetOffsetToClientRequestHeader(Header):
    """RESET_CONSUMER_CLIENT_OFFSET, broker to client (RocketMQ's ResetOffsetRequestHeader)."""

    topic: str
    group: str
    timestamp: Int64
    isForce: bool
    queueId: Int32 | None = None
    offset: Int64 | None = None


class ConsumerStatusRequestHeader(Header):
    """GET_CONSUMER_STATUS_FROM_CLIENT and INVOKE_BROKER_TO_GET_CONSUMER_STATUS."""

    topic: str
    group: str
    clientAddr: str | None = None


class GetConsumerRunningInfoRequestHeader(Header):
    consumerGroup: str
    clientId: str
    jstackEnable: bool | None = None


class ConsumeMessageDirectlyRequestHeader(Header):
    consumerGroup: str
    clientId: str | None = None
    msgId: str | None = None
    brokerName: str | None = None
    topic: str | None = None
    topicSysFlag: Int32 | None = None
    groupSysFlag: Int32 | None = None

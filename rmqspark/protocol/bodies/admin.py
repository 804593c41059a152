"""Bodies of administration: groups, offsets, statistics, connections (spec: requests, sections 1, 6 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rmqspark.message_queue import MessageQueue
from rmqspark.protocol import fastjson
from rmqspark.protocol.bodies.base import Body
from rmqspark.protocol.bodies.client import Queue, SubscriptionData
from rmqspark.protocol.bodies.route import DataVersion, TopicConfig
from rmqspark.protocol.headers.types import Int32, Int64

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ExponentialRetryPolicy(Body):
    initial: Int64 = 5_000  # ms, as is max
    max: Int64 = 7_200_000
    multiplier: Int64 = 2


class CustomizedRetryPolicy(Body):
    next: list[Int64] | None = None  # ms, by how often it was tried; None: the delay levels


class GroupRetryPolicy(Body):
    """After which times POP consumers get a message again; kept for RocketMQ's brokers, which go by it."""

    type: str = "CUSTOMIZED"  # or EXPONENTIAL
    exponentialRetryPolicy: ExponentialRetryPolicy | None = None
    customizedRetryPolicy: CustomizedRetryPolicy | None = None


class SimpleSubscriptionData(Body):
    """What a group is said to subscribe to in its configuration; kept, too."""

    topic: str = ""
    expressionType: str | None = None
    expression: str | None = None
    version: Int64 = 0


class SubscriptionGroupConfig(Body):
    """One consumer group as a broker keeps it."""

    groupName: str = ""
    consumeEnable: bool = True
    consumeFromMinEnable: bool = True
    consumeBroadcastEnable: bool = True
    consumeMessageOrderly: bool = False
    retryQueueNums: Int32 = 1
    retryMaxTimes: Int32 = 16
    groupRetryPolicy: GroupRetryPolicy = msgspec.field(default_factory=GroupRetryPolicy)
    brokerId: Int64 = 0
    whichBrokerWhenConsumeSlowly: Int64 = 1
    notifyConsumerIdsChangedEnable: bool = True
    groupSysFlag: Int32 = 0
    consumeTimeoutMinute: Int32 = 15
    subscriptionDataSet: list[SimpleSubscriptionData] | None = None
    attributes: dict[str, str] = {}


class SubscriptionGroupTable(Body):
    """A broker's groups, as answered to GET_ALL_SUBSCRIPTIONGROUP_CONFIG and kept in subscriptionGroup.json.

    `forbiddenTable` has what is forbidden to a group of a topic: bits, of which 4 is to pull by its subscription.
    """

    subscriptionGroupTable: dict[str, SubscriptionGroupConfig] = {}
    forbiddenTable: dict[str, dict[str, Int32]] = {}
    dataVersion: DataVersion = msgspec.field(default_factory=DataVersion)


class SubscriptionGroupList(Body):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST."""

    groupConfigList: list[SubscriptionGroupConfig] = []


class GroupForbidden(Body):
    """Answers UPDATE_AND_GET_GROUP_FORBIDDEN."""

    group: str = ""
    topic: str = ""
    readable: bool = True


class TopicConfigList(Body):
    """UPDATE_AND_CREATE_TOPIC_LIST."""

    topicConfigList: list[TopicConfig] = []


class ConsumerOffsetTable(Body):
    """Committed offsets by `topic@group` and queue id, as answered to GET_ALL_CONSUMER_OFFSET and kept on disk.

    `knownDeletionMs` is ours, and only on disk: the newest deletion of a topic that the table has heard of.
    """

    offsetTable: dict[str, dict[Int32, Int64]] = {}
    dataVersion: DataVersion | None = None
    knownDeletionMs: Int64 | None = None


class DelayOffsetTable(Body):
    """How far each level of delayed messages is delivered, as answered to GET_ALL_DELAY_OFFSET and kept on disk.

    `logOffset` is ours: where the log ended when that was so.
    """

    offsetTable: dict[Int32, Int64] = {}
    dataVersion: DataVersion | None = None
    logOffset: Int64 | None = None


class TimerTable(Body):
    """How far messages with a deliver time are delivered; ours, and only on disk (config/timerOffset.json).

    Of the messages before `queueOffset` of the timer topic those that were due before `readTimeMs` have been delivered,
    when the log ended at `logOffset`; all before `firstOffset` have. `timerCheck` is RocketMQ's note as it was then.
    """

    readTimeMs: Int64 = 0
    queueOffset: Int64 = 0
    firstOffset: Int64 = 0
    logOffset: Int64 = 0
    timerCheck: str = ""


class TopicOffset(Body):
    minOffset: Int64 = 0
    maxOffset: Int64 = 0
    lastUpdateTimestamp: Int64 = 0  # ms; 0 if nothing was ever stored


class TopicStatsTable(Body):
    """Answers GET_TOPIC_STATS_INFO."""

    offsetTable: dict[MessageQueue, TopicOffset] = {}
    topicPutTps: float = 0.0


class OffsetWrapper(Body):
    """How far a group is in one queue. `lastTimestamp` is the store time of the last message consumed, ms."""

    brokerOffset: Int64 = 0
    consumerOffset: Int64 = 0
    pullOffset: Int64 = 0
    lastTimestamp: Int64 = 0


class ConsumeStats(Body):
    """Answers GET_CONSUME_STATS."""

    offsetTable: dict[MessageQueue, OffsetWrapper] = {}
    consumeTps: float = 0.0


class ConsumeStatsList(Body):
    """Answers GET_BROKER_CONSUME_STATS. Of each group what it consumes, one item for a topic."""

    consumeStatsList: list[dict[str, list[ConsumeStats]]] = []
    brokerAddr: str = ""
    totalDiff: Int64 = 0
    totalInflightDiff: Int64 = 0

    @classmethod
    def join(cls, encoded: Mapping[str, Sequence[bytes]], broker_addr: str, diff: int, inflight_diff: int) -> bytes:
        """The body, of groups and their stats that are encoded already: there may be very many."""
        frame = cls([], broker_addr, diff, inflight_diff).encode()
        groups = b",".join(b"{%b:[%b]}" % (fastjson.dumps(name), b",".join(stats)) for name, stats in encoded.items())
        return frame.replace(b'"consumeStatsList":[]', b'"consumeStatsList":[%b]' % groups, 1)


class ConsumeQueueData(Body):
    """One entry of a consume queue. `eval`: whether the group's compiled filter lets it pass."""

    physicOffset: Int64 = 0
    physicSize: Int32 = 0
    tagsCode: Int64 = 0
    eval: bool = False


class ConsumeQueueEntries(Body):
    """Answers QUERY_CONSUME_QUEUE. `maxQueueIndex` is one past the last."""

    subscriptionData: SubscriptionData | None = None
    filterData: str | None = None
    queueData: list[ConsumeQueueData] = []
    maxQueueIndex: Int64 = 0
    minQueueIndex: Int64 = 0


class QueueTimeSpan(Body):
    """When the first and the last message of a queue were stored, and the last one that a group consumed; ms, -1 where
    there is none. `delayTime`: for how long the next one has been waiting."""

    messageQueue: Queue = msgspec.field(default_factory=Queue)
    minTimeStamp: Int64 = -1
    maxTimeStamp: Int64 = -1
    consumeTimeStamp: Int64 = -1
    delayTime: Int64 = 0


class QueueTimeSpans(Body):
    """Answers QUERY_CONSUME_TIME_SPAN."""

    consumeTimeSpanSet: list[QueueTimeSpan] = []


class BrokerStatsItem(Body):
    """One counter within some time: by how much it grew, how much of that a second, and how much each time."""

    sum: Int64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body):
    """Answers VIEW_BROKER_STATS_DATA."""

    statsMinute: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    statsHour: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)
    statsDay: BrokerStatsItem = msgspec.field(default_factory=BrokerStatsItem)


class ResetOffsetBody(Body):
    """Answers INVOKE_BROKER_TO_RESET_OFFSET, and is RESET_CONSUMER_CLIENT_OFFSET's body.

    RMQ_GROUP_RESETS has one both ways: what the reader has carried out, and what is still to be.
    """

    offsetTable: dict[MessageQueue, Int64] = {}


class ConsumerStatusBody(Body):
    """Answers GET_CONSUMER_STATUS_FROM_CLIENT (the first map) and INVOKE_BROKER_TO_GET_CONSUMER_STATUS (the second)."""

    messageQueueTable: dict[MessageQueue, Int64] | None = None
    consumerTable: dict[str, dict[MessageQueue, Int64]] | None = None


class Connection(Body):
    clientId: str = ""
    clientAddr: str = ""
    language: str = "JAVA"
    version: Int32 = 0


class ConsumerConnection(Body):
    """Answers GET_CONSUMER_CONNECTION_LIST."""

    connectionSet: list[Connection] = []
    subscriptionTable: dict[str, SubscriptionData] = {}
    consumeType: str | None = None
    messageModel: str | None = None
    consumeFromWhere: str | None = None


class ProducerConnection(Body):
    """Answers GET_PRODUCER_CONNECTION_LIST."""

    connectionSet: list[Connection] = []


class ProducerInfo(Body):
    clientId: str = ""
    remoteIP: str = ""
    language: str = "JAVA"
    version: Int32 = 0
    lastUpdateTimestamp: Int64 = 0  # ms


class ProducerTable(Body):
    """Answers GET_ALL_PRODUCER_INFO."""

    data: dict[str, list[ProducerInfo]] = {}


class GroupList(Body):
    """Answers QUERY_TOPIC_CONSUME_BY_WHO."""

    groupList: list[str] = []


class SubscriptionOfGroup(Body):
    """Answers QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str = ""
    topic: str = ""
    subscriptionData: SubscriptionData | None = None


class ProcessQueueInfo(Body):
    """What a push consumer holds of a queue; times in ms. Of those that read in order `transactionMsg…` is what the
    listener has."""

    commitOffset: Int64 = 0
    cachedMsgMinOffset: Int64 = 0
    cachedMsgMaxOffset: Int64 = 0
    cachedMsgCount: Int32 = 0
    cachedMsgSizeInMiB: Int32 = 0
    transactionMsgMinOffset: Int64 = 0
    transactionMsgMaxOffset: Int64 = 0
    transactionMsgCount: Int32 = 0
    locked: bool = False
    tryUnlockTimes: Int64 = 0
    lastLockTimestamp: Int64 = 0
    droped: bool = False
    lastPullTimestamp: Int64 = 0
    lastConsumeTimestamp: Int64 = 0


class ConsumeStatus(Body):
    """A consumer's figures for a topic: of the last minute, times in ms, and failures of the last hour."""

    pullRT: float = 0.0
    pullTPS: float = 0.0
    consumeRT: float = 0.0
    consumeOKTPS: float = 0.0
    consumeFailedTPS: float = 0.0
    consumeFailedMsgs: Int64 = 0


class ConsumerRunningInfo(Body):
    """Answers GET_CONSUMER_RUNNING_INFO."""

    properties: dict[str, str] = {}
    subscriptionSet: list[SubscriptionData] = []
    mqTable: dict[MessageQueue, ProcessQueueInfo] = {}
    mqPopTable: dict[str, str] = {}  # we pop nothing
    statusTable: dict[str, ConsumeStatus] = {}
    userConsumerInfo: dict[str, str] = {}
    jstack: str | None = None


class ConsumeMessageDirectlyResult(Body):
    """Answers CONSUME_MESSAGE_DIRECTLY. `consumeResult` is CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION and the like."""

    consumeResult: str | None = None
    order: bool = False
    autoCommit: bool = True
    remark: str | None = None
    spentTimeMills: Int64 = 0

"""Bodies of clients: heartbeats, subscriptions, locks, assignments (spec: requests, section 5)."""

from __future__ import annotations

from typing import Final

import msgspec

from rmqspark.protocol.bodies.base import Body
from rmqspark.protocol.headers.types import Int32, Int64

CONSUME_PASSIVELY: Final = "CONSUME_PASSIVELY"  # push consumers
CONSUME_ACTIVELY: Final = "CONSUME_ACTIVELY"  # pull consumers
CONSUME_POP: Final = "CONSUME_POP"
CLUSTERING: Final = "CLUSTERING"
BROADCASTING: Final = "BROADCASTING"
CONSUME_FROM_LAST_OFFSET: Final = "CONSUME_FROM_LAST_OFFSET"
CONSUME_FROM_FIRST_OFFSET: Final = "CONSUME_FROM_FIRST_OFFSET"
CONSUME_FROM_TIMESTAMP: Final = "CONSUME_FROM_TIMESTAMP"
TAG: Final = "TAG"
SQL92: Final = "SQL92"


class Queue(Body):
    """A message queue where JSON has it as a value; as a map's key it is `model.MessageQueue`."""

    topic: str = ""
    brokerName: str = ""
    queueId: Int32 = 0


class SubscriptionData(Body):
    """What a group wants of a topic. `subVersion` is the client's clock in ms when it subscribed."""

    topic: str = ""
    subString: str = "*"
    tagsSet: list[str] = []
    codeSet: list[Int32] = []
    subVersion: Int64 = 0
    expressionType: str = TAG  # or SQL92; null is TAG
    classFilterMode: bool = False


class ProducerData(Body):
    groupName: str = ""


class ConsumerData(Body):
    groupName: str = ""
    consumeType: str = CONSUME_PASSIVELY
    messageModel: str = CLUSTERING
    consumeFromWhere: str = CONSUME_FROM_LAST_OFFSET
    subscriptionDataSet: list[SubscriptionData] = []
    unitMode: bool = False


class HeartbeatData(Body):
    """HEART_BEAT. With `withoutSub` the subscriptions are those of the last full heartbeat."""

    clientID: str = ""
    producerDataSet: list[ProducerData] = []
    consumerDataSet: list[ConsumerData] = []
    heartbeatFingerprint: Int32 = 0
    withoutSub: bool = False


class CheckClientConfigBody(Body):
    """CHECK_CLIENT_CONFIG."""

    clientId: str = ""
    group: str = ""
    subscriptionData: SubscriptionData = msgspec.field(default_factory=SubscriptionData)
    namespace: str | None = None


class ConsumerListBody(Body):
    """Answers GET_CONSUMER_LIST_BY_GROUP."""

    consumerIdList: list[str] = []


class LockBatchBody(Body):
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    consumerGroup: str = ""
    clientId: str = ""
    mqSet: list[Queue] = []
    onlyThisBroker: bool = False


class LockBatchResponseBody(Body):
    """Answers LOCK_BATCH_MQ: the queues that are the client's now."""

    lockOKMQSet: list[Queue] = []


class LeasedQueue(Body):
    """A queue in RMQ_GROUP_LEASES. `offset` is what the group is to commit, or has committed; -1 is none. In the answer
    to RMQ_TXN_GROUP_OFFSETS, `topicDeleted` is when a topic of the name had last been deleted, ms, as the reader knew.
    """

    topic: str = ""
    brokerName: str = ""
    queueId: Int32 = 0
    lease: Int64 = 0
    offset: Int64 = -1
    topicDeleted: Int64 | None = None


class LeasedQueues(Body):
    """RMQ_TXN_GROUP_OFFSETS; in the answer those that a group has to go on in, and where."""

    queues: list[LeasedQueue] = []


class GroupLeasesBody(Body):
    """RMQ_GROUP_LEASES: leases to renew with a commit, then those to give up, then queues to lease."""

    keep: list[LeasedQueue] = []
    release: list[LeasedQueue] = []
    take: list[LeasedQueue] = []


class GroupLeasesAnswerBody(Body):
    """Answers RMQ_GROUP_LEASES: of `keep` and `take`, those that were the client's; a lease not renewed lasts
    `leaseMs`. `run` is the number of the client's run. `strategies` are those by which the members of the group divide
    its queues, where these are several."""

    leaseMs: Int64 = 0
    held: list[LeasedQueue] = []
    run: Int64 = 0
    strategies: list[str] | None = None


class QueueLease(Body):
    """A lease as it is kept on disk."""

    group: str = ""
    topic: str = ""
    brokerName: str = ""
    queueId: Int32 = 0
    clientId: str = ""
    number: Int64 = 0
    run: Int64 = 0
    coordinator: str = ""


class QueueLeaseTable(Body):
    """config/queueLeases.json. Numbers up to `lastNumber` have been given out, to leases and to runs. Where another
    broker was the master before, `trustedGroups` are at least where brokers have decided: all have been asked since."""

    lastNumber: Int64 = 0
    leases: list[QueueLease] = []
    knownDeletionMs: Int64 | None = None  # as in ConsumerOffsetTable
    trustedGroups: list[str] = []


class QueryAssignmentBody(Body):
    """QUERY_ASSIGNMENT."""

    topic: str = ""
    consumerGroup: str = ""
    clientId: str = ""
    strategyName: str = ""
    messageModel: str = CLUSTERING


class MessageRequestModeBody(Body):
    """SET_MESSAGE_REQUEST_MODE."""

    topic: str = ""
    consumerGroup: str = ""
    mode: str = "PULL"  # or POP
    popShareQueueNum: Int32 = 0


class CapabilitiesBody(Body):
    """Answers RMQ_CAPABILITIES: who is there, which store it has, and the version of each request of ours it takes."""

    product: str = "rmqspark"
    version: str = ""
    brokerName: str = ""  # addresses change hands; "" where it does not say
    storeId: str = ""  # 32 hex digits drawn when the store was first made
    incarnation: Int64 = 0  # raised when a recovery cut off what may have been read
    opening: str = ""  # drawn when the store was opened; "" where it does not say
    storePath: str = ""  # absolute, on the broker's machine; for direct reads, which check that it is this store
    slave: bool = False  # it serves reads, and leaves all that changes anything to its master
    delayLevels: Int32 = 0  # so many there are; 0 of this, and of the next, where it does not say
    maxDelaySec: Int64 = 0  # how far ahead the deliver time of a message may be
    capabilities: dict[str, Int32] = {}

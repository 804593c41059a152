"""Headers between clients, brokers and name servers: routes, registration, replication (spec: requests, 2, 3, 6)."""

from __future__ import annotations

from rmqspark.protocol.headers.types import Header, Int32, Int64


class GetRouteInfoRequestHeader(Header):
    topic: str
    acceptStandardJsonOnly: bool | None = None


class GetTopicsByClusterRequestHeader(Header):
    cluster: str


class PutKVConfigRequestHeader(Header):
    namespace: str
    key: str
    value: str


class GetKVConfigRequestHeader(Header):
    """GET_KV_CONFIG and DELETE_KV_CONFIG."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(Header):
    value: str | None = None


class GetKVListByNamespaceRequestHeader(Header):
    namespace: str


class WritePermOfBrokerRequestHeader(Header):
    """WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER."""

    brokerName: str


class WipeWritePermOfBrokerResponseHeader(Header):
    wipeTopicCount: Int32


class AddWritePermOfBrokerResponseHeader(Header):
    addTopicCount: Int32


class DeleteTopicFromNamesrvRequestHeader(Header):
    topic: str
    clusterName: str | None = None


class RegisterTopicRequestHeader(Header):
    topic: str


class RegisterBrokerRequestHeader(Header):
    """`bodyCrc32` is RocketMQ's, of the body as sent, with the sign bit cleared; 0 or None: not to be checked.
    `allTopics` (ours) says that the broker has no other topics than these; of one that does not say so nobody knows."""

    brokerName: str
    brokerAddr: str
    clusterName: str
    haServerAddr: str
    brokerId: Int64
    heartbeatTimeoutMillis: Int64 | None = None
    enableActingMaster: bool | None = None
    compressed: bool | None = None
    bodyCrc32: Int32 | None = None
    allTopics: bool | None = None


class RegisterBrokerResponseHeader(Header):
    haServerAddr: str | None = None
    masterAddr: str | None = None


class UnregisterBrokerRequestHeader(Header):
    """UNREGISTER_BROKER and QUERY_DATA_VERSION."""

    brokerName: str
    brokerAddr: str
    clusterName: str
    brokerId: Int64


class QueryDataVersionResponseHeader(Header):
    changed: bool


class BrokerHeartbeatRequestHeader(Header):
    clusterName: str
    brokerAddr: str
    brokerName: str
    brokerId: Int64 | None = None
    epoch: Int32 | None = None
    maxOffset: Int64 | None = None
    confirmOffset: Int64 | None = None
    heartbeatTimeoutMills: Int64 | None = None  # RocketMQ's spelling
    electionPriority: Int32 | None = None


class GetBrokerMemberGroupRequestHeader(Header):
    clusterName: str
    brokerName: str


class NotifyMinBrokerIdChangeRequestHeader(Header):
    minBrokerId: Int64 | None = None
    brokerName: str | None = None
    minBrokerAddr: str | None = None
    offlineBrokerAddr: str | None = None
    haBrokerAddr: str | None = None


class GetAllTopicConfigRequestHeader(Header):
    """4.x sends no fields and wants everything; 5.x asks page by page. `deletions` is ours: a slave wants them, too."""

    topicSeq: Int32 | None = None
    dataVersion: str | None = None
    maxTopicNum: Int32 | None = None
    deletions: bool | None = None


class GetAllTopicConfigResponseHeader(Header):
    totalTopicNum: Int32


class GetAllSubscriptionGroupRequestHeader(Header):
    groupSeq: Int32 | None = None
    dataVersion: str | None = None
    maxGroupNum: Int32 | None = None


class GetAllSubscriptionGroupResponseHeader(Header):
    totalGroupNum: Int32


class ExchangeHAInfoHeader(Header):
    """EXCHANGE_BROKER_HA_INFO, request and response."""

    masterHaAddress: str | None = None
    masterFlushOffset: Int64 | None = None
    masterAddress: str | None = None


class ResetMasterFlushOffsetHeader(Header):
    masterFlushOffset: Int64

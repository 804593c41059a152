"""Bodies of name servers and of registration: routes, clusters, topic tables (spec: requests, sections 1 to 3)."""

from __future__ import annotations

from typing import Any

import msgspec

from rmqspark.protocol.bodies.base import Body
from rmqspark.protocol.headers.types import Int32, Int64


class DataVersion(Body):
    """Moves with every change of the table it belongs to; equal versions mean equal tables."""

    counter: Int64 = 0
    stateVersion: Int64 = 0
    timestamp: Int64 = 0  # ms

    def next(self, now_ms: int) -> DataVersion:
        return DataVersion(self.counter + 1, self.stateVersion, now_ms)


class TopicConfig(Body):
    """One topic on one broker. `topicFilterType` is SINGLE_TAG or MULTI_TAG; `perm` is bits of `names.Perm`."""

    topicName: str = ""
    readQueueNums: Int32 = 16
    writeQueueNums: Int32 = 16
    perm: Int32 = 6
    topicFilterType: str = "SINGLE_TAG"
    topicSysFlag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] = {}

    @property
    def queue_count(self) -> int:
        """Of all there are: while a topic is given more queues or fewer, some are only read, or only written."""
        return max(self.readQueueNums, self.writeQueueNums)


class TopicConfigTable(Body):
    """A broker's topics (RocketMQ's TopicConfigSerializeWrapper). The mapping members are 5.x's, for static topics.

    `knownDeletionMs` is ours, and only on disk: the newest deletion of a topic that the table has heard of. So is
    `deletions`, for a slave: the last one of each topic, as in deletedtopics.json; and `brokerName`, who answers.
    """

    topicConfigTable: dict[str, TopicConfig] = {}
    dataVersion: DataVersion = msgspec.field(default_factory=DataVersion)
    mappingDataVersion: DataVersion | None = None
    topicQueueMappingDetailMap: dict[str, Any] | None = None
    topicQueueMappingInfoMap: dict[str, Any] | None = None
    knownDeletionMs: Int64 | None = None
    deletions: dict[str, tuple[Int64, Int64, bool]] | None = None
    brokerName: str | None = None


class RegisterBrokerBody(Body):
    """What a broker registers. `register.py` knows its compressed form and its checksum."""

    topicConfigSerializeWrapper: TopicConfigTable = msgspec.field(default_factory=TopicConfigTable)
    filterServerList: list[str] = []


class BrokerData(Body):
    """One broker name: its addresses by broker id, 0 the master."""

    cluster: str = ""
    brokerName: str = ""
    brokerAddrs: dict[Int64, str] = {}
    enableActingMaster: bool = False
    zoneName: str | None = None


class QueueData(Body):
    """A topic's queues on one broker name. 4.x brokers call the last member topicSynFlag."""

    brokerName: str = ""
    readQueueNums: Int32 = 0
    writeQueueNums: Int32 = 0
    perm: Int32 = 0
    topicSysFlag: Int32 = 0


class TopicRouteData(Body):
    """Where a topic's queues are. `orderTopicConf` is `broker-a:4;broker-b:4`."""

    queueDatas: list[QueueData] = []
    brokerDatas: list[BrokerData] = []
    filterServerTable: dict[str, list[str]] = {}
    orderTopicConf: str | None = None
    topicQueueMappingByBroker: dict[str, Any] | None = None


class ClusterInfo(Body):
    """All brokers by name, and the broker names of each cluster."""

    brokerAddrTable: dict[str, BrokerData] = {}
    clusterAddrTable: dict[str, list[str]] = {}


class BrokerMemberGroup(Body):
    cluster: str = ""
    brokerName: str = ""
    brokerAddrs: dict[Int64, str] = {}


class BrokerMemberGroupBody(Body):
    """Answers GET_BROKER_MEMBER_GROUP."""

    brokerMemberGroup: BrokerMemberGroup = msgspec.field(default_factory=BrokerMemberGroup)


class KVTable(Body):
    table: dict[str, str] = {}


class TopicList(Body):
    topicList: list[str] = []
    brokerAddr: str | None = None

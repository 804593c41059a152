"""Topics as operators see them: UPDATE_AND_CREATE_TOPIC (17) and its list (18), DELETE_TOPIC_IN_BROKER (215),
GET_TOPIC_CONFIG (351, 22), GET_ALL_TOPIC_CONFIG (21), GET_TOPIC_NAME_LIST (23), GET_SYSTEM_TOPIC_LIST_FROM_BROKER
(305).

RocketMQ's AdminBrokerProcessor; spec: requests, sections 6 and 7. A change is answered when it is on disk and, where
they can be reached in a moment, known to the name servers; a deletion when no crash brings queues or messages back.
Left out: static topics.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from rmqspark.broker.paging import page_of
from rmqspark.broker.sending.intake import MULTI_TAG
from rmqspark.broker.state.attributes import MESSAGE_TYPE, change_attributes, check_attributes, plainly
from rmqspark.errors import InvalidArgument, InvalidName, NotWritable, RmqError
from rmqspark.protocol.bodies.admin import TopicConfigList
from rmqspark.protocol.bodies.route import TopicConfig, TopicConfigTable, TopicList
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import CreateTopicRequestHeader, TopicRequestHeader
from rmqspark.protocol.headers.cluster import GetAllTopicConfigRequestHeader, GetAllTopicConfigResponseHeader
from rmqspark.protocol.names import Perm, check_topic
from rmqspark.remoting.reply import Reply, reply_after
from rmqspark.remoting.router import Route, Routes
from rmqspark.store.disk_errors import advice

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.metrics.creation_times import Creation, CreationTimes
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.broker.topic_deletion import TopicDeletion
    from rmqspark.broker.topic_publisher import TopicPublisher
    from rmqspark.clock import Clock
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields

_ALL_PERMS: Final = int(Perm.READ | Perm.WRITE | Perm.INHERIT)


class TopicHandlers:
    """Creates, changes, deletes and lists topics."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        publisher: TopicPublisher,
        deletion: TopicDeletion,
        creations: CreationTimes,
        clock: Clock,
    ) -> None:
        self._broker_name = config.broker_name
        self._max_queues = config.max_queue_nums
        self._allows_mixed = config.enable_mixed_message_type
        self._topics = topics
        self._publisher = publisher
        self._deletion = deletion
        self._creations = creations
        self._clock = clock

    def routes(self) -> Routes:
        config_of = Route(TopicRequestHeader, self.config)
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: Route(CreateTopicRequestHeader, self.update),
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: Route(None, self.update_list),
            RequestCode.DELETE_TOPIC_IN_BROKER: Route(TopicRequestHeader, self.delete),
            RequestCode.GET_TOPIC_CONFIG: config_of,
            RequestCode.GET_TOPIC_CONFIG_LIST: config_of,
            RequestCode.GET_ALL_TOPIC_CONFIG: Route(GetAllTopicConfigRequestHeader, self.all),
            RequestCode.GET_TOPIC_NAME_LIST: Route(None, self.names),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Route(None, self.system_names),
        }

    def update(self, request: Request[CreateTopicRequestHeader]) -> Awaitable[Reply]:
        header = request.header
        creation = self._creations.of_topic(is_system=self._topics.is_system(header.topic))
        try:
            return self._put_all([self._config_of(header)], creation)
        except RmqError:
            creation.failed()
            raise

    def _config_of(self, header: CreateTopicRequestHeader) -> TopicConfig:
        known = self._topics.get(header.topic)
        attributes = change_attributes(known.attributes if known else {}, header.attributes, creating=known is None)
        return TopicConfig(
            topicName=header.topic,
            readQueueNums=header.readQueueNums,
            writeQueueNums=header.writeQueueNums,
            perm=header.perm,
            topicFilterType=header.topicFilterType,
            topicSysFlag=header.topicSysFlag or 0,
            order=bool(header.order),
            attributes=attributes,
        )

    def update_list(self, request: Request[NoFields]) -> Awaitable[Reply]:
        configs = TopicConfigList.decode_request(request.body).topicConfigList
        plain = [msgspec.structs.replace(each, attributes=plainly(each.attributes)) for each in configs]
        creation = self._creations.of_topic()
        try:
            return self._put_all(plain, creation)
        except RmqError:
            creation.failed()
            raise

    def delete(self, request: Request[TopicRequestHeader]) -> Awaitable[Reply]:
        topic = request.header.topic
        check_topic(topic)
        if self._topics.is_system(topic):
            raise InvalidName(f"Topic {topic!r} belongs to the broker.", hint="Only topics of users can be deleted.")
        try:
            self._deletion.forget(topic)
        except OSError as error:
            raise NotWritable(f"Topic {topic!r} cannot be deleted: {error}.", hint=advice(error)) from error
        return reply_after(self._publisher.publish)

    def config(self, request: Request[TopicRequestHeader]) -> Reply:
        return Reply(body=self._topics.require(request.header.topic).encode())

    def all(self, request: Request[GetAllTopicConfigRequestHeader]) -> Reply:
        """The table, or a page of it."""
        header, table = request.header, self._topics.table()
        names = page_of(
            table.topicConfigTable,
            table.dataVersion,
            first=header.topicSeq,
            count=header.maxTopicNum,
            known_version=header.dataVersion,
        )
        page = TopicConfigTable(
            topicConfigTable={name: table.topicConfigTable[name] for name in names},
            dataVersion=table.dataVersion,
            mappingDataVersion=table.mappingDataVersion,
            topicQueueMappingDetailMap={},
            topicQueueMappingInfoMap={},
            deletions=self._deletion.all() if header.deletions else None,
            brokerName=self._broker_name if header.deletions else None,
        )
        return Reply(GetAllTopicConfigResponseHeader(len(table.topicConfigTable)), page.encode())

    def names(self, request: Request[NoFields]) -> Reply:
        del request
        return Reply(body=TopicList([config.topicName for config in self._topics]).encode())

    def system_names(self, request: Request[NoFields]) -> Reply:
        del request
        return Reply(body=TopicList(self._topics.system_names()).encode())

    def _put_all(self, configs: list[TopicConfig], creation: Creation) -> Awaitable[Reply]:
        """All are checked before the first is taken."""
        for config in configs:
            self._check(config)
        self._topics.require_room([config.topicName for config in configs])
        now_ms = self._clock.now_ms()
        if any([self._topics.put(config, now_ms) for config in configs]):
            return reply_after(partial(creation.until, self._publisher.publish))
        # The request before, which made it so, may have met a full disk.
        return reply_after(partial(creation.until, self._publisher.save))

    def _check(self, config: TopicConfig) -> None:
        name = check_topic(config.topicName)
        if self._topics.is_system(name):
            raise InvalidName(f"Topic {name!r} belongs to the broker.", hint="Choose another name.")
        check_attributes(config.attributes)
        if config.attributes.get(MESSAGE_TYPE) == "MIXED" and not self._allows_mixed:
            raise InvalidArgument(
                "This broker makes no topics for MIXED messages.",
                hint="Make a topic for each kind, or start the broker with enable_mixed_message_type = true.",
            )
        if not 0 <= config.readQueueNums <= self._max_queues or not 0 <= config.writeQueueNums <= self._max_queues:
            raise InvalidArgument(
                f"Topic {name!r} cannot have {config.readQueueNums} read and {config.writeQueueNums} write queues.",
                hint=f"Choose 0 to {self._max_queues} of each.",
            )
        if config.perm & ~_ALL_PERMS:
            raise InvalidArgument(f"There is no permission {config.perm}.", hint="2 writes, 4 reads, 6 does both.")
        if config.topicFilterType not in ("SINGLE_TAG", MULTI_TAG):
            raise InvalidArgument(f"There is no filter type {config.topicFilterType!r}: SINGLE_TAG or MULTI_TAG.")

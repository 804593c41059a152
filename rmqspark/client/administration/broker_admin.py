"""Administration of one broker: typed calls, one request each (spec: requests, sections 5 to 7)."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, TypeVar

from rmqspark.client.administration.broker_facts import config_of, metrics_of, runtime_of, setting_line
from rmqspark.client.cluster.futures import then
from rmqspark.errors import GroupNotFound, MessageNotFound, NotFound, ServerFault
from rmqspark.protocol.bodies.admin import (
    ConsumerConnection,
    ConsumeStats,
    GroupList,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    TopicStatsTable,
)
from rmqspark.protocol.bodies.route import TopicConfig, TopicList
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import (
    CreateTopicRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    GetConsumeStatsRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    ResetOffsetRequestHeader,
    TopicRequestHeader,
)
from rmqspark.protocol.headers.consume import (
    UNIQUE_KEY_QUERY,
    ConsumerGroupRequestHeader,
    QueryMessageRequestHeader,
    ViewMessageRequestHeader,
)
from rmqspark.protocol.names import AUTO_CREATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    import msgspec

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.remoting.response import Response

ADMIN_TIMEOUT_MS = 5_000  # RocketMQ's admin client
QUERY_TIMEOUT_MS = 18_000
LATEST_MS = (1 << 63) - 1

T = TypeVar("T")


class BrokerAdmin:
    """Administration of the broker that `broker` talks to."""

    def __init__(self, broker: BrokerClient) -> None:
        self.broker = broker

    def _call(self, code: RequestCode, header: msgspec.Struct | None = None, body: bytes = b"") -> Response:
        return self.broker.call(code, header, body, timeout_ms=ADMIN_TIMEOUT_MS)

    def _submit(self, code: RequestCode, header: msgspec.Struct | None, read: Callable[[Response], T]) -> Future[T]:
        return then(self.broker.submit(code, header, timeout_ms=ADMIN_TIMEOUT_MS), read)

    # --- topics ------------------------------------------------------------------------------------------------------

    def put_topic(self, config: TopicConfig) -> None:
        """Creates the topic, or changes it to be like this."""
        header = CreateTopicRequestHeader(
            topic=config.topicName,
            defaultTopic=AUTO_CREATE_TOPIC,
            readQueueNums=config.readQueueNums,
            writeQueueNums=config.writeQueueNums,
            perm=config.perm,
            topicFilterType=config.topicFilterType,
            topicSysFlag=config.topicSysFlag,
            order=config.order,
            attributes=",".join(f"+{name}={value}" for name, value in config.attributes.items()) or None,
        )
        self._call(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    def topic_config(self, topic: str) -> TopicConfig:
        response = self._call(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader(topic))
        return TopicConfig.decode(response.body)

    def submit_topic_config(self, topic: str) -> Future[TopicConfig | None]:
        """The same without waiting; None where it has no such topic."""
        return self._submit(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader(topic), _topic_config)

    def delete_topic(self, topic: str) -> None:
        """Returns when no crash of the broker brings it back."""
        self._call(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader(topic))

    def topic_stats(self, topic: str) -> TopicStatsTable:
        response = self._call(RequestCode.GET_TOPIC_STATS_INFO, TopicRequestHeader(topic))
        return TopicStatsTable.decode(response.body)

    def submit_topic_stats(self, topic: str) -> Future[TopicStatsTable]:
        """The same without waiting; an empty table where it has no such topic."""
        return self._submit(RequestCode.GET_TOPIC_STATS_INFO, TopicRequestHeader(topic), _topic_stats)

    # --- groups ------------------------------------------------------------------------------------------------------

    def groups(self) -> dict[str, SubscriptionGroupConfig]:
        return self.submit_groups().result()

    def submit_groups(self) -> Future[dict[str, SubscriptionGroupConfig]]:
        """The same without waiting."""
        return self._submit(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None, _groups)

    def has_group(self, group: str) -> bool:
        """Whether it knows the group. Unlike `groups` it takes no right to see all others, and brings none of them."""
        try:
            self._call(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GetSubscriptionGroupConfigRequestHeader(group))
        except GroupNotFound:
            return False
        return True

    def put_group(self, config: SubscriptionGroupConfig) -> None:
        """Makes a group, or changes one."""
        self._call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode())

    def delete_group(self, group: str) -> None:
        """Its committed offsets go with it."""
        header = DeleteSubscriptionGroupRequestHeader(group, cleanOffset=True)
        self._call(RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    def reset_offset(self, group: str, queue: MessageQueue, queue_offset: int) -> None:
        """The group goes on at `queue_offset`; who reads for it is told. GroupNotFound."""
        header = ResetOffsetRequestHeader(
            queue.topic, group, timestamp=0, isForce=True, queueId=queue.queue_id, offset=queue_offset
        )
        self._call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)

    def group_topics(self, group: str) -> list[str]:
        """Topics for which the group has offsets here."""
        return self.submit_group_topics(group).result()

    def submit_group_topics(self, group: str) -> Future[list[str]]:
        """The same without waiting."""
        header = QueryTopicsByConsumerRequestHeader(group)
        return self._submit(RequestCode.QUERY_TOPICS_BY_CONSUMER, header, _topic_list)

    def groups_reading(self, topic: str) -> list[str]:
        """The groups that have offsets of the topic here, or are connected here and subscribe to it."""
        return self.submit_groups_reading(topic).result()

    def submit_groups_reading(self, topic: str) -> Future[list[str]]:
        """The same without waiting."""
        return self._submit(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicRequestHeader(topic), _group_list)

    def consumers(self, group: str) -> ConsumerConnection | None:
        """Its consumers that are connected here, and what they subscribe to; None where there are none."""
        return self.submit_consumers(group).result()

    def submit_consumers(self, group: str) -> Future[ConsumerConnection | None]:
        """The same without waiting."""
        header = ConsumerGroupRequestHeader(group)
        return self._submit(RequestCode.GET_CONSUMER_CONNECTION_LIST, header, _consumers)

    def submit_consumed_per_second(self, group: str) -> Future[float]:
        """How many messages a second it consumes here, lately; 0.0 too where the broker does not count that."""
        return self._submit(RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequestHeader(group), _consumed_per_second)

    # --- messages ----------------------------------------------------------------------------------------------------

    def message_at(self, physical_offset: int) -> bytes | bytearray | memoryview:
        """The record at that place of the broker's log."""
        header = ViewMessageRequestHeader(physical_offset)
        try:
            return self.broker.call(RequestCode.VIEW_MESSAGE_BY_ID, header, timeout_ms=6_000).body
        except ServerFault as fault:
            if fault.code != ResponseCode.SYSTEM_ERROR:
                raise
            hint = self._where_the_log_is(physical_offset)
            raise MessageNotFound(f"{self.broker.name} has no message at {physical_offset}.", hint=hint) from fault

    def _where_the_log_is(self, physical_offset: int) -> str:
        """Why nothing is there; "" of a broker that does not say."""
        facts = self.runtime()
        begin, end = facts.get("commitLogMinOffset", ""), facts.get("commitLogMaxOffset", "")
        if not (begin.isdecimal() and end.isdecimal()):
            return ""
        if int(begin) <= physical_offset < int(end):
            return "The id is of no message: none begins there."
        expired = ", what was before has expired" if physical_offset < int(begin) else ""
        return f"Its log goes from {begin} to {end}{expired}."

    def submit_query(
        self,
        topic: str,
        key: str,
        *,
        unique: bool,
        max_count: int,
        begin_ms: int = 0,
        end_ms: int = LATEST_MS,
        below: int | None = None,
    ) -> Future[Response]:
        """Records whose key, or unique id, has this hash; what else has it is for the caller to sort out. `below` is a
        place in the log, which RocketMQ's brokers pass over."""
        header = QueryMessageRequestHeader(topic, key, max_count, begin_ms, end_ms, below)
        extra = {UNIQUE_KEY_QUERY: "true" if unique else "false"}
        return self.broker.submit(RequestCode.QUERY_MESSAGE, header, timeout_ms=QUERY_TIMEOUT_MS, extra=extra)

    # --- the broker itself -------------------------------------------------------------------------------------------

    def config(self) -> dict[str, str]:
        """Its settings, names and values as RocketMQ writes them; of secrets that there is one."""
        return config_of(self._call(RequestCode.GET_BROKER_CONFIG))

    def update_config(self, settings: Mapping[str, str]) -> None:
        """Sets these, under RocketMQ's names. NoPermission where that takes a restart, InvalidArgument for what is no
        line of Java's properties."""
        body = "".join(starmap(setting_line, settings.items()))
        self._call(RequestCode.UPDATE_BROKER_CONFIG, None, body.encode())

    def runtime(self) -> dict[str, str]:
        """Its counters and states (spec: requests, section 7, code 28)."""
        return runtime_of(self._call(RequestCode.GET_BROKER_RUNTIME_INFO))

    def metrics(self) -> str:
        """Its metrics in Prometheus' text format. NotSupported of RocketMQ's brokers, which have an exporter for it."""
        return metrics_of(self.broker.call(RequestCode.RMQ_METRICS, timeout_ms=QUERY_TIMEOUT_MS))


def _topic_config(response: Response) -> TopicConfig | None:
    return TopicConfig.decode(response.body) if _is_found(response) else None


def _topic_stats(response: Response) -> TopicStatsTable:
    return TopicStatsTable.decode(response.body) if _is_found(response) else TopicStatsTable()


def _groups(response: Response) -> dict[str, SubscriptionGroupConfig]:
    return SubscriptionGroupTable.decode(response.raise_for_code().body).subscriptionGroupTable


def _group_list(response: Response) -> list[str]:
    return GroupList.decode(response.raise_for_code().body).groupList


def _topic_list(response: Response) -> list[str]:
    return TopicList.decode(response.body).topicList if _is_found(response) else []


def _consumers(response: Response) -> ConsumerConnection | None:
    return ConsumerConnection.decode(response.body) if _is_found(response) else None


def _consumed_per_second(response: Response) -> float:
    return ConsumeStats.decode(response.body).consumeTps if _is_found(response) else 0.0


def _is_found(response: Response) -> bool:
    """False for what the broker does not know; raises any other error that the answer stands for."""
    try:
        response.raise_for_code()
    except NotFound:
        return False
    return True

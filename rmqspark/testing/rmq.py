"""A cluster with the few verbs that tests need."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import InvalidArgument
from rmqspark.model import Message
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.properties import is_reserved, split_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from pyspark.sql import DataFrame, SparkSession

    from rmqspark.model import ReceivedMessage, SendReceipt
    from rmqspark.testing.in_process import LocalCluster

_COLUMNS = ("tags", "keys", "properties")


class Rmq:
    """Sends to and reads from a cluster. What is not here is in `admin`, or `cluster` (to stop a broker)."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.namesrv = cluster.namesrv
        self.admin = AdminClient(self.namesrv)
        self._producer = Producer(self.namesrv, group="rmqspark-testing")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._producer.close()
        self.admin.close()

    def create_topic(self, name: str, queues: int = 4) -> None:
        """Creates a topic; ready to use when this returns."""
        self.admin.create_topic(name, queues)

    def send(
        self,
        topic: str | Message,
        *items: bytes | str | Message,
        tags: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> list[SendReceipt]:
        """Sends bodies or whole messages, one after the other; a topic that does not exist is created. Each body goes
        out with these tags, keys and properties; a Message has its own, and its topic."""
        if isinstance(topic, Message):
            topic, items = topic.topic, (topic, *items)
        fields = {"tags": tags, "keys": keys, "properties": properties or {}}
        return [self._producer.send(_message(topic, item, fields)) for item in items]

    def messages(self, topic: str) -> list[ReceivedMessage]:
        """Everything that is in the topic now, as it was stored."""
        with PullConsumer(self.namesrv) as consumer:
            ends = {queue.queue: queue.max_offset for queue in self.admin.topic(topic).queues}
            consumer.assign(ends)
            consumer.seek_to_beginning()
            messages: list[ReceivedMessage] = []
            while any(consumer.position(queue) < end for queue, end in ends.items()):
                messages += consumer.poll(1_000)
        return sorted(messages, key=lambda message: (message.store_timestamp_ms, message.offset_msg_id))

    def give_up(self, group: str, *messages: ReceivedMessage) -> None:
        """Has a consumer of the group fail with these messages for good: they are its dead letters."""
        with ClusterClient(self.namesrv) as client:
            for message in messages:
                _, physical_offset = parse_offset_msg_id(message.offset_msg_id)
                header = ConsumerSendMsgBackRequestHeader(
                    physical_offset, group, delayLevel=-1, originMsgId=message.msg_id, originTopic=message.topic
                )
                broker = client.broker(message.queue.broker_name)
                broker.pull(message.queue, message.queue_offset, group=group, max_count=1)  # the group is there then
                broker.call(RequestCode.CONSUMER_SEND_MSG_BACK, header)

    def send_df(self, frame: Any, topic: Any) -> None:
        """Sends the rows of a Spark or pandas frame: column `body` (or `value`), and `tags`, `keys`, `properties`; a
        topic that does not exist is created. The topic may come first, as in `send`."""
        if isinstance(frame, str):
            frame, topic = topic, frame
        if hasattr(frame, "sparkSession"):
            options = {"namesrv": self.namesrv, "topic": topic, "autoCreateTopic": True}
            frame.write.format("rmq").options(**options).mode("append").save()
        else:
            self.send(topic, *(_message_of_row(topic, row) for row in frame.to_dict("records")))

    def to_df(self, spark: SparkSession | str | None = None, topic: str | None = None) -> DataFrame:
        """Everything in the topic as a Spark frame: `to_df(rmq_spark, "orders")`, or `to_df("orders")` in the session
        that is active, as after `rmq_spark`. InvalidArgument where none is."""
        if isinstance(spark, str):
            spark, topic = None, spark
        return (spark or _active_session()).read.format("rmq").option("namesrv", self.namesrv).load(topic)


def _active_session() -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise InvalidArgument("No Spark session is active.", hint="Use the fixture rmq_spark, or name one first.")
    return session


def _message(topic: str, item: Any, fields: Mapping[str, Any]) -> Message:
    if isinstance(item, Message):
        return item
    return Message(topic, item.encode() if isinstance(item, str) else item, **fields)


def _message_of_row(topic: str, row: dict[str, Any]) -> Message:
    """As the sink has it, for frames that were read are sent, too: a string of keys has blanks between them, and
    properties that RocketMQ reserves, or that are null, are left out."""
    body = row["body"] if "body" in row else row["value"]
    given = {name: row[name] for name in _COLUMNS if not _missing(row.get(name))}
    if "keys" in given:
        given["keys"] = split_keys(given["keys"]) if isinstance(given["keys"], str) else list(given["keys"])
    if "properties" in given:
        pairs = dict(given["properties"]).items()
        given["properties"] = {name: value for name, value in pairs if value is not None and not is_reserved(name)}
    return _message(topic, body, given)


def _missing(value: object) -> bool:
    """pandas has None for what is absent, and NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))

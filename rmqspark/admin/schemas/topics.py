"""Topics as they are shown, and as they are asked for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rmqspark.admin.values import Document, Offset, Time
from rmqspark.client.administration.descriptions import QueueDescription, TopicDescription, TopicOnBroker

MessageType = Literal["normal", "fifo", "delay", "transaction", "mixed"]


class TopicSummary(Document):
    """A topic in a list. `messages` are those that can be read now. `silent` are those of its brokers that do not
    answer, and why: what they have is in no figure but `brokers`, and where all are so the others are null: unknown."""

    topic: str
    type: str | None
    brokers: int
    queues: int | None
    perm: str | None
    messages: int | None
    last_stored: Time | None
    silent: dict[str, str]

    @classmethod
    def of(cls, topic: TopicDescription) -> TopicSummary:
        return cls(
            topic=topic.name,
            type=topic.message_type,
            brokers=topic.broker_count,
            queues=topic.queue_count,
            perm=topic.perm,
            messages=topic.message_count,
            last_stored=max((queue.last_stored_ms for queue in topic.queues), default=0) or None,
            silent=topic.silent,
        )


class TopicOnBrokerView(Document):
    broker_name: str
    read_queues: int
    write_queues: int
    perm: str
    attributes: dict[str, str]

    @classmethod
    def of(cls, topic: TopicOnBroker) -> TopicOnBrokerView:
        return cls(
            broker_name=topic.broker_name,
            read_queues=topic.read_queues,
            write_queues=topic.write_queues,
            perm=topic.perm,
            attributes=topic.attributes,
        )


class QueueView(Document):
    """The messages of a queue are those at [minOffset, maxOffset)."""

    broker_name: str
    queue_id: int
    min_offset: Offset
    max_offset: Offset
    last_stored: Time | None

    @classmethod
    def of(cls, queue: QueueDescription) -> QueueView:
        return cls(
            broker_name=queue.queue.broker_name,
            queue_id=queue.queue.queue_id,
            min_offset=queue.min_offset,
            max_offset=queue.max_offset,
            last_stored=queue.last_stored_ms or None,
        )


class TopicView(TopicSummary):
    """One topic in full."""

    on_brokers: list[TopicOnBrokerView]

    @classmethod
    def of(cls, topic: TopicDescription) -> TopicView:
        on_brokers = [TopicOnBrokerView.of(broker) for broker in topic.brokers]
        return cls(**dict(TopicSummary.of(topic)), on_brokers=on_brokers)


class NewTopic(Document):
    """A topic to be made, on every broker."""

    topic: str = Field(examples=["orders"])
    queues: int = Field(8, ge=1, description="On each broker, to read and to write.")
    read_queues: int | None = Field(None, ge=1)
    write_queues: int | None = Field(None, ge=1)
    perm: str = Field("rw", description="r, w or rw.")
    type: MessageType = "normal"


class TopicChange(Document):
    """What is given is changed."""

    queues: int | None = Field(None, ge=1)
    read_queues: int | None = Field(None, ge=1)
    write_queues: int | None = Field(None, ge=1)
    perm: str | None = None
    type: MessageType | None = None


class FieldView(Document):
    """`missing`: objects without it."""

    name: str
    type: str
    missing: int


class SchemaView(Document):
    """What `.schema(...)` is to say to the JSON bodies of a topic, from so many of the newest."""

    topic: str
    ddl: str
    left_out: list[str]
    sampled: int
    not_json: int
    columns: list[FieldView]

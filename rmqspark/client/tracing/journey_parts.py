"""What records say of a message's way. Pure: records in, parts of a `Journey` out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.client.tracing.journey import Place, Return, Stage, StageKind, Track
from rmqspark.protocol.bodies.client import BROADCASTING, CONSUME_ACTIVELY, TAG
from rmqspark.protocol.names import DLQ_PREFIX, HALF_BATCH_TOPIC, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from rmqspark.protocol.records.properties import HalfBatchProperty, Property
from rmqspark.whole_numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqspark.client.administration.stored_records import Stored
    from rmqspark.protocol.bodies.admin import ConsumerConnection

_KINDS: Final = {
    HALF_TOPIC: StageKind.HALF_MESSAGE,
    HALF_BATCH_TOPIC: StageKind.HALF_BATCH,
    SCHEDULE_TOPIC: StageKind.DELAY,
    TIMER_TOPIC: StageKind.DELIVER_TIME,
}


def place(stored: Stored) -> Place:
    record = stored.record
    return Place(
        stored.queue, record.queue_offset, record.physical_offset, stored.offset_msg_id, record.store_timestamp_ms
    )


def real_topic(stored: Stored) -> str:
    """The topic that a message is for, wherever it lies."""
    return stored.properties.get(Property.REAL_TOPIC, "") if stored.record.topic in _KINDS else stored.record.topic


def stage(stored: Stored) -> Stage | None:
    """Of a record where messages wait, or where the halves of transactions are; None for any other."""
    kind, said = _KINDS.get(stored.record.topic), stored.properties
    if kind is None:
        return None
    at, topic = place(stored), said.get(Property.REAL_TOPIC, "")
    match kind:
        case StageKind.DELAY:
            return Stage(kind, at, topic, level=stored.record.queue_id + 1)  # a queue for each level
        case StageKind.DELIVER_TIME:
            due_ms = whole(said.get(Property.TIMER_DELIVER_MS)) or whole(said.get(Property.TIMER_OUT_MS))
            return Stage(kind, at, topic, due_ms=due_ms)
        case StageKind.HALF_MESSAGE:
            named = said.get(Property.TRANSACTION_ID) or said.get(Property.UNIQ_KEY, "")
            return Stage(kind, at, topic, group=said.get(Property.PRODUCER_GROUP, ""), transaction_id=named)
        case StageKind.HALF_BATCH:
            version = whole(said.get(HalfBatchProperty.VERSION))
            return Stage(
                kind, at, topic, transaction_id=said.get(HalfBatchProperty.TRANSACTIONAL_ID, ""), version=version
            )


def is_source(stored: Stored, named_offset: int) -> bool:
    """Whether this record is what another one, which says `named_offset`, came from: a delivery names one past the
    record that waited, a committed message its half."""
    is_parked = stored.record.topic in (SCHEDULE_TOPIC, TIMER_TOPIC)
    is_half = stored.record.topic in (HALF_TOPIC, HALF_BATCH_TOPIC)
    at = stored.record.physical_offset
    return (is_parked and at + 1 == named_offset) or (is_half and at == named_offset)


def first_id(stored: Stored) -> str:
    """The message that was consumed first, of this retry or dead letter; else its own offset id."""
    said = stored.properties
    return said.get(Property.ORIGIN_MESSAGE_ID) or said.get(Property.DLQ_ORIGIN_MESSAGE_ID) or stored.offset_msg_id


def group_of_return(topic: str) -> str | None:
    """The group whose retries or dead letters a topic holds."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return None


def returned(stored: Stored) -> Return | None:
    """What a retry or a dead letter says of itself, also while it waits; None for any other message."""
    topic = real_topic(stored)
    group = group_of_return(topic)
    if group is None:
        return None
    said = stored.properties
    named = said.get(Property.ORIGIN_MESSAGE_ID) or said.get(Property.DLQ_ORIGIN_MESSAGE_ID)
    is_dead = topic.startswith(DLQ_PREFIX)
    return Return(group, is_dead, stored.record.reconsume_times, place(stored), named, stored.is_waiting)


def returns_among(copies: Iterable[Stored], ids: set[str]) -> list[Return]:
    """The retries and dead letters of the message with these ids, oldest first. One that waited and was delivered is
    told once, as delivered; one that does not say whose it is, is taken for one of it: the unique id is the same."""
    own = [
        (each, told) for each in copies if (told := returned(each)) is not None and told.first_msg_id in (None, *ids)
    ]
    there = [each for each, _ in own if not each.is_waiting]
    shown = [told for each, told in own if not (each.is_waiting and any(_is_of(made, each) for made in there))]
    return sorted(shown, key=lambda told: (told.place.stored_ms, told.place.physical_offset))


def _is_of(made: Stored, waited: Stored) -> bool:
    """Whether a retry is the delivery of this record. RocketMQ's brokers do not say: there it is, if it is the same
    time that the group gets it again."""
    named = made.record.prepared_transaction_offset
    if named:
        return made.broker_name == waited.broker_name and is_source(waited, named)
    return (real_topic(waited), waited.record.reconsume_times) == (made.record.topic, made.record.reconsume_times)


def track(
    topic: str, tags: str | None, queue_offset: int, committed: int | None, connected: ConsumerConnection | None
) -> Track:
    """RocketMQ's DefaultMQAdminExtImpl.messageTrackDetail. It asks nothing of a group that nobody is connected for."""
    if connected is None:
        return Track.NOT_ONLINE
    if connected.messageModel == BROADCASTING:
        return Track.CONSUME_BROADCASTING
    if connected.consumeType == CONSUME_ACTIVELY:
        return Track.PULL
    if committed is None:
        return Track.UNKNOWN
    if committed <= queue_offset:
        return Track.NOT_CONSUME_YET
    wanted = connected.subscriptionTable.get(topic)
    if wanted is None or (wanted.expressionType or TAG) != TAG or not wanted.tagsSet or "*" in wanted.tagsSet:
        return Track.CONSUMED
    return Track.CONSUMED if tags in wanted.tagsSet else Track.CONSUMED_BUT_FILTERED


def level_of(said: Mapping[str, str]) -> int:
    """The level of delay that a message asked for; 0 for none."""
    return whole(said.get(Property.DELAY)) or 0


def whole(text: str | None) -> int | None:
    """The number, if it is one."""
    return None if text is None else whole_number(text)

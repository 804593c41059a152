"""Where a message waits that is to be delivered later, and what it is like when its time has come. Pure.

It is an ordinary record in SCHEDULE_TOPIC_XXXX, in the queue of its level, that says in its properties where it
belongs; the queue's entry has the time in the place of the tags. RocketMQ: HookUtils.handleScheduleMessage,
ScheduleMessageService; spec: semantics, section 5.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rmqspark.errors import InvalidMessage
from rmqspark.protocol.names import NOT_SENDABLE, SCHEDULE_TOPIC, check_topic
from rmqspark.protocol.records.properties import Property, encode_properties, join_properties, without_properties
from rmqspark.store.draft import Draft, redraft

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from rmqspark.protocol.records.record import Record

T = TypeVar("T", int, "NDArray[np.int64]")

TIMER_PROPERTIES: Final = (Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS)

_OWN: Final = frozenset({Property.DELAY, Property.REAL_TOPIC, Property.REAL_QUEUE_ID, *TIMER_PROPERTIES})
_QUEUE_ID: Final = re.compile(r"[0-9]{1,9}")


class Parked(NamedTuple):
    """Where a message waits, and its properties while it does; `due_ms` of one that has no level, but a time."""

    topic: str
    queue_id: int
    properties: bytes
    due_ms: int | None = None


class Place(NamedTuple):
    """Where a message belongs."""

    topic: str
    queue_id: int


def asked_level(properties: Mapping[str, str]) -> int:
    """The delay level that a message asks for, 0 or less for none. Raises InvalidMessage for what is no number."""
    text = properties.get(Property.DELAY, "0")
    try:
        return int(text)
    except ValueError:
        raise InvalidMessage(f"Property DELAY is a level from 0 to 18, not {text!r}.") from None


def park(place: Place, properties: bytes, level: int, levels: int) -> Parked:
    """The message of `place` until its time comes. A level above the last is the last; where a deliver time is given
    besides, the level counts."""
    level = min(level, levels)
    own = {
        Property.DELAY: str(level),
        Property.REAL_TOPIC: place.topic,
        Property.REAL_QUEUE_ID: str(place.queue_id),
    }
    return Parked(
        SCHEDULE_TOPIC, level - 1, join_properties(without_properties(properties, _OWN), encode_properties(own))
    )


def place_of(record: Record) -> Place:
    """Where a record of the delay topic belongs. Raises InvalidMessage for one that does not say, or names what no
    message may be delivered to; InvalidName for what is no topic."""
    return place_in(record.property_map(), f"The record at physical offset {record.physical_offset}")


def place_in(properties: Mapping[str, str], what: str) -> Place:
    """The same from the properties of what waits."""
    topic, queue_id = properties.get(Property.REAL_TOPIC, ""), properties.get(Property.REAL_QUEUE_ID, "")
    if not topic or not _QUEUE_ID.fullmatch(queue_id) or topic in NOT_SENDABLE:
        raise InvalidMessage(f"{what} is no delayed message.")
    return Place(check_topic(topic), int(queue_id))


def delivered_draft(record: Record, place: Place, more: bytes = b"") -> Draft:
    """The message as its readers get it, with `more` behind its properties.

    As in RocketMQ the properties still say how it was delayed. Unlike there it says which record it is the delivery of,
    so that a broker that was killed knows what it has delivered: `source_of`, in the field that committed messages have
    for their half.
    """
    source = source_of(record.physical_offset)
    properties = join_properties(record.properties, more) if more else record.properties
    return redraft(record, place.topic, place.queue_id, properties, prepared_transaction_offset=source)


def source_of(physical_offset: T) -> T:
    """What a delivery says of the record that waited for it, or of many: one past where it begins. 0 would say nothing,
    and where a record begins is what the messages of a half say."""
    return physical_offset + 1

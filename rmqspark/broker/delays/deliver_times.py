"""Messages that ask for a time to be delivered at: what they ask for, and what they are like while they wait. Pure.

It is an ordinary record in rmq_sys_wheel_timer, queue 0, that says in its properties where it belongs and, to the
second, when it is due. RocketMQ: HookUtils.transformTimerMessage, TimerMessageStore; spec: semantics, section 6.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.broker.delays.parking import TIMER_PROPERTIES, Parked, Place
from rmqspark.errors import InvalidMessage
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.protocol.records.properties import (
    MAX_PROPERTIES_BYTES,
    Property,
    encode_properties,
    join_properties,
    without_properties,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.protocol.records.record import Record

PRECISION_MS: Final = 1000

_OWN: Final = frozenset({Property.REAL_TOPIC, Property.REAL_QUEUE_ID, Property.TIMER_OUT_MS, Property.TIMER_ROLL_TIMES})
_REAL_TOPIC_IS: Final = b"\x02REAL_TOPIC\x01"
_UNIT_MS: Final = {Property.TIMER_DELAY_SEC: 1000, Property.TIMER_DELAY_MS: 1}
NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")


class Waiting(NamedTuple):
    """What a record of the timer topic says of itself.

    `due_ms` is the second before the one that it is delivered in, `key` what the same message is known by, should it
    come again: RocketMQ puts those that wait for days back into the topic. With `is_recall` it is no message, but says
    that the one of this key is not to be delivered.
    """

    due_ms: int
    key: str
    is_recall: bool
    comes_again: bool
    topic: str


def asked_time_ms(properties: Mapping[str, str], now_ms: int, max_delay_ms: int) -> int | None:
    """When a message is to be delivered, ms since 1970; None where it asks for no time, or for one that is past.

    Raises InvalidMessage for what is no time or too far away, and for a recall of what must have been delivered.
    """
    name = next((name for name in TIMER_PROPERTIES if name in properties), None)
    if name is None or Property.TIMER_OUT_MS in properties:  # what was delivered once, and is sent on, waits no more
        return None
    if not NUMBER.fullmatch(properties[name]):
        raise InvalidMessage(f"Property {name} is a number, not {properties[name]!r}.")
    number = int(properties[name])
    time_ms = number if name == Property.TIMER_DELIVER_MS else now_ms + number * _UNIT_MS[name]
    if time_ms > now_ms + max_delay_ms:
        raise InvalidMessage(
            f"A message waits {max_delay_ms // 1000} seconds at most, not {(time_ms - now_ms) // 1000}.",
            hint="See timer_max_delay_sec.",
        )
    if time_ms > now_ms:
        return time_ms
    if Property.TIMER_DEL_UNIQKEY in properties:
        raise InvalidMessage("The message to be recalled was due already.")
    return None


def due_before(time_ms: int) -> int:
    """`Waiting.due_ms` of a message that asks for this time."""
    return (time_ms - 1) // PRECISION_MS * PRECISION_MS


def park_until(place: Place, properties: bytes, time_ms: int) -> Parked:
    """The message of `place` until that time. Its readers get it in the first moment of a second: never before. Raises
    InvalidMessage where that cannot be said in its properties."""
    due_ms = due_before(time_ms)
    own = {
        Property.TIMER_OUT_MS: str(due_ms),
        Property.REAL_TOPIC: place.topic,
        Property.REAL_QUEUE_ID: str(place.queue_id),
    }
    parked = join_properties(without_properties(properties, _OWN), encode_properties(own))
    if not room_for_times_told(len(parked)):
        raise InvalidMessage(
            f"The properties take {len(properties)} bytes: what is said of its time would not fit beside them.",
            hint="Put large values into the body.",
        )
    return Parked(TIMER_TOPIC, 0, parked, due_ms)


def waiting_of(record: Record) -> Waiting:
    """Raises InvalidMessage for a record of the timer topic that does not say when it is due."""
    properties = record.property_map()
    due_ms = due_in(properties, f"The record at physical offset {record.physical_offset}")
    recalled = properties.get(Property.TIMER_DEL_UNIQKEY)
    topic = properties.get(Property.REAL_TOPIC, "")
    unique_key = properties.get(Property.UNIQ_KEY) if recalled is None else recalled
    key = f"{properties.get(Property.REAL_TOPIC)}+{unique_key}"
    if recalled is not None and "+" in recalled:  # from clients, and brokers of RocketMQ before 5.5.0
        key = recalled
    return Waiting(due_ms, key, recalled is not None, Property.TIMER_ROLL_TIMES in properties, topic)


def topic_of(record: Record) -> str:
    """The topic of a record that waits, for its readers; "" where it does not say. Of several it is the one that
    `waiting_of` tells, the last; quicker than all its properties."""
    named = (b"\x02" + bytes(record.properties)).split(_REAL_TOPIC_IS)[1:]
    topics = filter(None, [each.partition(b"\x02")[0] for each in reversed(named)])
    return next(topics, b"").decode("utf-8", "replace")


def due_in(properties: Mapping[str, str], what: str) -> int:
    """`Waiting.due_ms` of a message with these properties. Raises InvalidMessage."""
    due_ms = properties.get(Property.TIMER_OUT_MS, "")
    if not NUMBER.fullmatch(due_ms):
        raise InvalidMessage(f"{what} does not say when it is due.")
    return int(due_ms)


def room_for_times_told(properties_bytes: int) -> bool:
    """Whether a message that waits with so many bytes of properties can be delivered."""
    return properties_bytes + _TIMES_TOLD_BYTES <= MAX_PROPERTIES_BYTES


def times_told(now_ms: int) -> bytes:
    """What a delivered message says besides, encoded: when that was (RocketMQ also says when it looked at it first)."""
    return encode_properties({Property.TIMER_DEQUEUE_MS: str(now_ms)})


_TIMES_TOLD_BYTES: Final = len(times_told(1_700_000_000_000))  # until the year 2286

"""The half message of a stock producer: an ordinary record in RMQ_SYS_TRANS_HALF_TOPIC that says where it belongs.

REAL_TOPIC and REAL_QID name its queue, PGROUP the producers that know whether it counts. What becomes of it is made
here, byte for byte as RocketMQ 5.5 makes it: the committed message, the one set aside, the question to the producer.
Spec: semantics, section 7; RocketMQ: EndTransactionProcessor, TransactionalMessageBridge,
DefaultTransactionalMessageCheckListener, AbstractTransactionalMessageCheckListener.

The pairs of its properties are kept as they came, and only those that change are cut out or put behind them: a half
message that was acknowledged can be ended, whatever it holds (0x01 inside a value, say, which nobody may write anew).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import InvalidMessage
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, check_topic
from rmqspark.protocol.records.properties import (
    MAX_PROPERTIES_BYTES,
    Property,
    encode_properties,
    join_properties,
    without_properties,
)
from rmqspark.protocol.records.record import Record, SysFlag, encode_record
from rmqspark.store.draft import Draft, redraft

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST_QUEUE_ID: Final = (1 << 31) - 1
_WHERE_IT_BELONGS: Final = frozenset({Property.REAL_TOPIC, Property.REAL_QUEUE_ID})
_CHECKS: Final = frozenset({Property.TRANSACTION_CHECK_TIMES})


class Identity(NamedTuple):
    """What a half message and the copies that RocketMQ makes of it have in common, and no other message has."""

    group: str
    unique_key: str
    born_timestamp_ms: int


def identity_of(record: Record, properties: Mapping[str, str]) -> Identity:
    """Of a half message, and of what was made of one."""
    group, unique_key = properties.get(Property.PRODUCER_GROUP, ""), properties.get(Property.UNIQ_KEY, "")
    return Identity(group, unique_key, record.born_timestamp_ms)


class HalfMessage(NamedTuple):
    """A half message as far as it is looked at without its body."""

    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    identity: Identity
    real_topic: str
    real_queue_id: int
    checks: int  # how often its producers were asked, by an Apache broker; not 0 on the copies it puts back
    immunity_ms: int | None  # before this age nobody is to be asked; None: the broker's own time

    @property
    def is_copy(self) -> bool:
        """Whether an Apache broker put it back. What an operator put back counts as a half of its own."""
        return self.checks > 0

    @classmethod
    def of(cls, record: Record) -> HalfMessage:
        """Raises InvalidMessage for a record that is no half message, InvalidName where its topic cannot exist."""
        properties = record.property_map()
        topic, group = properties.get(Property.REAL_TOPIC), properties.get(Property.PRODUCER_GROUP)
        queue_id = _number(properties.get(Property.REAL_QUEUE_ID), -1)
        if record.topic != HALF_TOPIC or not topic or not group or not 0 <= queue_id <= _LARGEST_QUEUE_ID:
            raise InvalidMessage(f"The record at physical offset {record.physical_offset} is no half message.")
        return cls(
            record.queue_offset,
            record.physical_offset,
            record.store_timestamp_ms,
            identity_of(record, properties),
            check_topic(topic),
            queue_id,
            max(0, _number(properties.get(Property.TRANSACTION_CHECK_TIMES), 0)),
            immunity_ms(properties),
        )


def immunity_ms(properties: Mapping[str, str]) -> int | None:
    """CHECK_IMMUNITY_TIME_IN_SECONDS in ms; None where it is absent, negative or no number."""
    seconds = _number(properties.get(Property.CHECK_IMMUNITY_TIME_IN_SECONDS), -1)
    return seconds * 1000 if seconds >= 0 else None


def committed_draft(half: HalfMessage, record: Record, queue_id: int) -> Draft:
    """The message as its readers get it, in this queue. It says of which half it is the commit."""
    properties = without_properties(record.properties, _WHERE_IT_BELONGS)
    sys_flag = record.sys_flag & ~SysFlag.TRANSACTION_MASK | SysFlag.COMMITTED
    return redraft(
        record,
        half.real_topic,
        queue_id,
        properties,
        sys_flag=sys_flag,
        prepared_transaction_offset=record.physical_offset,
    )


def set_aside_draft(record: Record, checks: int) -> Draft:
    """The copy in TRANS_CHECK_MAX_TIME_TOPIC, for an operator to look at."""
    return redraft(record, CHECK_MAX_TIME_TOPIC, 0, _with_checks(record, checks))


def resumed_draft(record: Record) -> Draft:
    """What was set aside as a half message once more, with its checks forgotten (RESUME_CHECK_HALF_MESSAGE)."""
    return redraft(record, HALF_TOPIC, 0, _with_checks(record, 0))


def question(half: HalfMessage, record: Record, checks: int) -> bytes:
    """The body of CHECK_TRANSACTION_STATE: the half message, under the topic and queue its sender meant."""
    return bytes(
        encode_record(
            topic=half.real_topic,
            body=record.body,
            properties=_with_checks(record, checks),
            queue_id=half.real_queue_id,
            flag=record.flag,
            sys_flag=record.sys_flag,
            queue_offset=record.queue_offset,
            physical_offset=record.physical_offset,
            born_timestamp_ms=record.born_timestamp_ms,
            born_host=record.born_host,
            store_timestamp_ms=record.store_timestamp_ms,
            store_host=record.store_host,
            reconsume_times=record.reconsume_times,
        )
    )


def _with_checks(record: Record, checks: int) -> bytes:
    """The properties with the count of checks, or without one where they leave no room for it."""
    others = without_properties(record.properties, _CHECKS)
    counted = join_properties(others, encode_properties({Property.TRANSACTION_CHECK_TIMES: str(checks)}))
    return counted if len(counted) <= MAX_PROPERTIES_BYTES else others


def _number(text: str | None, otherwise: int) -> int:
    """What Java's Integer.parseInt makes of a property, or `otherwise`."""
    if text is None or len(text) > 11:
        return otherwise
    try:
        return int(text)
    except ValueError:
        return otherwise

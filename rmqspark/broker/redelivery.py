"""Messages that a consumer could not consume: once more after a while, or among the dead letters. Pure.

RocketMQ: AbstractSendMessageProcessor.consumerSendMsgBack; spec: semantics, section 8.9. By default a message comes
again after 10 s, then after 30 s, and so on up to two hours, 16 times in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.delays.parking import Place, park
from rmqspark.protocol.names import dead_letter_topic, retry_topic
from rmqspark.protocol.records.message_id import offset_msg_id
from rmqspark.protocol.records.properties import Property, encode_properties, join_properties, without_properties
from rmqspark.protocol.records.record import SysFlag
from rmqspark.store.draft import Draft, redraft

if TYPE_CHECKING:
    from rmqspark.protocol.records.record import Record

_FIRST_LEVEL: Final = 3  # of the first time; one more each time
_AT_ONCE: Final = {Property.DELAY: "0"}


def is_dead(record: Record, delay_level: int, max_times: int) -> bool:
    """Whether a message that was consumed in vain is not to come again. Below 0 `delay_level` says so itself."""
    return delay_level < 0 or record.reconsume_times >= max_times


def retry_draft(record: Record, group: str, queue_id: int, delay_level: int, levels: int) -> Draft:
    """The message for its group's retry topic, where it waits for its time. Level 0: one above that of the time
    before."""
    level = delay_level or _FIRST_LEVEL + record.reconsume_times
    parked = park(Place(retry_topic(group), queue_id), _returned(record), level, levels)
    return _draft(record, parked.topic, parked.queue_id, parked.properties)


def dead_letter_draft(record: Record, group: str) -> Draft:
    """The message in its group's dead letter topic."""
    properties = without_properties(_returned(record), {Property.DELAY})
    return _draft(record, dead_letter_topic(group), 0, join_properties(properties, encode_properties(_AT_ONCE)))


def _returned(record: Record) -> bytes:
    """The properties with where the message came from, which the first return says for all later ones."""
    known = record.property_map()
    own = {
        Property.RETRY_TOPIC: known.get(Property.RETRY_TOPIC) or record.topic,
        Property.ORIGIN_MESSAGE_ID: known.get(Property.ORIGIN_MESSAGE_ID)
        or offset_msg_id(record.store_host, record.physical_offset),
        Property.WAIT: "false",
    }
    return join_properties(without_properties(record.properties, own.keys()), encode_properties(own))


def _draft(record: Record, topic: str, queue_id: int, properties: bytes) -> Draft:
    """That it was committed once is said of the message that was, whose half this one does not name."""
    sys_flag = record.sys_flag & ~SysFlag.TRANSACTION_MASK
    return redraft(record, topic, queue_id, properties, sys_flag=sys_flag, reconsume_times=record.reconsume_times + 1)

"""From what a sender said of a message to a draft for the store, and what may not be stored as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from rmqspark.broker.delays.parking import TIMER_PROPERTIES, asked_level
from rmqspark.errors import InvalidMessage, NotSupported
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import encode_unplaced
from rmqspark.store.draft import Draft, index_keys

if TYPE_CHECKING:
    from rmqspark.protocol.records.record import Buffer

NOT_AT_ONCE: Final = (Property.DELAY, *TIMER_PROPERTIES, Property.TRANSACTION_PREPARED)
"""Properties of messages that wait before they go to their queue, for a time or for the end of their transaction."""


class Origin(msgspec.Struct, gc=False, frozen=True):
    """What the messages of one request have in common: where they go, where and when they come from."""

    topic: str
    queue_id: int
    sys_flag: int
    born_host: bytes
    born_timestamp_ms: int
    reconsume_times: int


def draft_of(origin: Origin, body: Buffer, flag: int, encoded: bytes, properties: dict[str, str]) -> Draft:
    """A message with its properties as they will be stored, `encoded` and read as `properties`."""
    record = encode_unplaced(
        origin.topic,
        body,
        encoded,
        origin.queue_id,
        flag,
        origin.sys_flag,
        origin.born_timestamp_ms,
        origin.born_host,
        origin.reconsume_times,
    )
    return Draft(
        origin.topic, origin.queue_id, record, tags_code(properties.get(Property.TAGS)), index_keys(properties)
    )


def refuse_delay(properties: dict[str, str]) -> None:
    """Raises NotSupported or InvalidMessage for a message in a batch that must not be delivered at once."""
    asks_for_time = not properties.keys().isdisjoint(TIMER_PROPERTIES) and Property.TIMER_OUT_MS not in properties
    if asked_level(properties) > 0 or asks_for_time:
        raise NotSupported("A batch takes no delayed messages.", hint="Send them one by one.")


def asks_for_transaction(properties: dict[str, str]) -> bool:
    """Whether the message says that it is a half message."""
    return properties.get(Property.TRANSACTION_PREPARED, "").lower() == "true"


def refuse_half(properties: dict[str, str]) -> None:
    """Raises InvalidMessage for a half message in a batch."""
    if asks_for_transaction(properties):
        raise InvalidMessage("A batch takes no transactional messages.", hint="Send them one by one.")


def waits_for_flush(properties: dict[str, str]) -> bool:
    """Whether the sender wants to be answered only after the flush."""
    return properties.get(Property.WAIT) != "false"

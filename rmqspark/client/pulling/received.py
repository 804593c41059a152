"""Records as they come over the wire → messages as users hold them. Pure.

A few records are decoded one by one; a large chunk goes through `received_columns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.pulling.inflate import inflated
from rmqspark.errors import RecordError
from rmqspark.message_queue import MessageQueue
from rmqspark.model import ReceivedMessage
from rmqspark.protocol.records.message_id import offset_msg_id
from rmqspark.protocol.records.properties import Property, split_keys
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from numpy import int32
    from numpy.typing import NDArray

    from rmqspark.protocol.records.record import Record

SMALL_CHUNK_BYTES = 8192  # up to here the columns' fixed cost, about 0.3 ms, does not pay


class Read(NamedTuple):
    """A message that was read: where it is in its queue, and what tells it from another one that has taken its place.
    (Not its offset id: that may have the same place in the log.)"""

    queue_offset: int
    msg_id: str
    store_timestamp_ms: int

    @classmethod
    def of(cls, message: ReceivedMessage) -> Read:
        return cls(message.queue_offset, message.msg_id, message.store_timestamp_ms)


def received(record: Record, broker_name: str) -> ReceivedMessage:
    """The message of one record."""
    properties = record.property_map()
    offset_id = offset_msg_id(record.store_host, record.physical_offset)
    return ReceivedMessage(
        record.topic,
        inflated(record.body, record.sys_flag),
        properties.get(Property.TAGS),
        split_keys(properties.get(Property.KEYS, "")),
        properties,
        properties.get(Property.UNIQ_KEY, offset_id),
        MessageQueue(record.topic, broker_name, record.queue_id),
        record.queue_offset,
        record.born_timestamp_ms,
        record.store_timestamp_ms,
        record.reconsume_times,
        record.flag,
        offset_id,
    )


def received_all(
    records: bytes | memoryview, broker_name: str, sizes: NDArray[int32] | None = None
) -> list[ReceivedMessage]:
    """The messages of records that lie back to back, given their sizes where these are known.

    RecordError if the bytes are anything but sound records.
    """
    if len(records) <= SMALL_CHUNK_BYTES:
        return _one_by_one(records, broker_name)
    from rmqspark.client.pulling.received_columns import received_batch  # brings NumPy
    from rmqspark.protocol.records.record_batch import RecordBatch

    batch = RecordBatch.scan(records) if sizes is None else RecordBatch.from_sizes(records, sizes)
    return received_batch(batch, broker_name)


def _one_by_one(records: bytes | memoryview, broker_name: str) -> list[ReceivedMessage]:
    messages = []
    at = 0
    while at < len(records):
        record = decode_record(records, at)
        messages.append(received(record, broker_name))
        at += record.size
    return messages


def first_unreadable(records: bytes | memoryview) -> tuple[int, int]:
    """Where the first record begins that is no message: at which byte, and its queue offset. RecordError where that
    cannot be told: it does not even say how long it is."""
    at = 0
    while at < len(records):
        record = decode_record(records, at, check_crc=False)
        try:
            received(decode_record(records, at), "")
        except RecordError:
            return at, record.queue_offset
        at += record.size
    raise RecordError("All of these records can be read, and not together.")

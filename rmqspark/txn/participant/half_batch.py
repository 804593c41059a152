"""A half batch: what one attempt of one partition has sent for one queue, held until its transaction is decided.

It is one message of RMQ_SYS_TRANS_HALF_BATCH_TOPIC. Its body is a bulk as it came (`protocol/headers/bulk.py`), so its
checksum is the one that came with it; whose it is and where it is to go stands in its properties. It is never an
ordinary message: in no readable queue, and in no index.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import RecordError
from rmqspark.protocol.bulk.bulk_rows import AS_ROWS_WITH_PROPERTIES, brings_rows
from rmqspark.protocol.bulk.row_properties import NAMES_BYTES
from rmqspark.protocol.names import HALF_BATCH_TOPIC
from rmqspark.protocol.records.properties import HalfBatchProperty, Property, encode_properties
from rmqspark.protocol.records.record import (
    BODY_CRC_AT,
    BODY_LENGTH_AT,
    CRC_MASK,
    HEAD_BYTES,
    MIN_RECORD_BYTES,
    SIZE_AT,
    decode_record,
    encode_record,
)
from rmqspark.protocol.records.unique_keys import UNIQUE_KEY_PAIR_BYTES

if TYPE_CHECKING:
    from rmqspark.protocol.headers.txn import TxnHalfRequestHeader
    from rmqspark.txn.ports import Complete, Vote

HALF_BATCH_QUEUE: Final = 0

_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")


class Batch(NamedTuple):
    """One version of one transactional id, as one run wrote it."""

    transactional_id: str
    epoch: int
    version: int

    @classmethod
    def of(cls, request: Vote | Complete) -> Batch:
        """The one that a coordinator speaks of."""
        return cls(request.transactional_id, request.epoch, request.version)

    def __str__(self) -> str:
        return f"version {self.version} of {self.transactional_id} (epoch {self.epoch})"


class HalfName(NamedTuple):
    """What makes a half batch this one and no other. Sent again, it has the same name."""

    batch: Batch
    partition: int
    attempt: str
    sequence: int  # counts from 0 within the attempt


class HalfBatch(NamedTuple):
    """A half batch, and where it is held. `queue_offset` is its place among the half batches."""

    name: HalfName
    topic: str  # where its messages are to go
    queue_id: int
    rows: int
    record_size: int  # 0: the body begins with the sizes of the records; below: it has rows, not records
    body_bytes: int
    body_crc32: int
    has_tags: bool = True  # whether any message has
    queue_offset: int = -1
    physical_offset: int = -1

    def is_same_as(self, other: HalfBatch) -> bool:
        """Whether the two bring the same, wherever they are."""
        return self[:_WHAT_IT_BRINGS] == other[:_WHAT_IT_BRINGS]

    @property
    def messages_bytes(self) -> int:
        """How long its messages are in the log, at most."""
        if not brings_rows(self.record_size):
            return self.body_bytes
        names_bytes = UNIQUE_KEY_PAIR_BYTES + (NAMES_BYTES if self.record_size == AS_ROWS_WITH_PROPERTIES else 0)
        return self.body_bytes + self.rows * (MIN_RECORD_BYTES + len(self.topic.encode()) + names_bytes)

    @property
    def body_offset(self) -> int:
        """Physical offset of its body."""
        return self.physical_offset + HEAD_BYTES


_WHAT_IT_BRINGS: Final = HalfBatch._fields.index("has_tags")


def half_of(header: TxnHalfRequestHeader, body_bytes: int) -> HalfBatch:
    """The half batch that a request brings, not held yet."""
    batch = Batch(header.transactionalId, header.epoch, header.version)
    name = HalfName(batch, header.partition, header.attempt, header.sequence)
    return HalfBatch(name, header.topic, header.queueId, header.count, header.recordSize, body_bytes, header.bodyCrc32)


def encode_half(half: HalfBatch, *, born_timestamp_ms: int) -> tuple[bytearray, bytes]:
    """What stands before and behind its body in the log."""
    name, batch = half.name, half.name.batch
    properties = encode_properties(
        {
            HalfBatchProperty.TRANSACTIONAL_ID: batch.transactional_id,
            HalfBatchProperty.EPOCH: str(batch.epoch),
            HalfBatchProperty.VERSION: str(batch.version),
            HalfBatchProperty.PARTITION: str(name.partition),
            HalfBatchProperty.ATTEMPT: name.attempt,
            HalfBatchProperty.SEQUENCE: str(name.sequence),
            Property.REAL_TOPIC: half.topic,
            Property.REAL_QUEUE_ID: str(half.queue_id),
            HalfBatchProperty.COUNT: str(half.rows),
            HalfBatchProperty.RECORD_SIZE: str(half.record_size),
            HalfBatchProperty.HAS_TAGS: str(int(half.has_tags)),
            HalfBatchProperty.BODY_CRC: str(half.body_crc32),
        }
    )
    record = encode_record(topic=HALF_BATCH_TOPIC, body=b"", properties=properties, born_timestamp_ms=born_timestamp_ms)
    head, tail = record[:HEAD_BYTES], bytes(record[HEAD_BYTES:])
    _INT32.pack_into(head, SIZE_AT, len(record) + half.body_bytes)
    _UINT32.pack_into(head, BODY_CRC_AT, half.body_crc32 & CRC_MASK)
    _INT32.pack_into(head, BODY_LENGTH_AT, half.body_bytes)
    return head, tail


def body_bytes_of(head: bytes) -> int:
    """The length of the body between a head and a tail."""
    length: int = _INT32.unpack_from(head, BODY_LENGTH_AT)[0]
    return length


def decode_half(head: bytes, tail: bytes) -> HalfBatch:
    """The half batch between these two. Raises RecordError for what this program never wrote."""
    shell = bytearray(head)
    _INT32.pack_into(shell, SIZE_AT, len(head) + len(tail))
    _INT32.pack_into(shell, BODY_LENGTH_AT, 0)
    record = decode_record(shell + tail, check_crc=False)
    found = record.property_map()
    try:
        batch = Batch(
            found[HalfBatchProperty.TRANSACTIONAL_ID],
            int(found[HalfBatchProperty.EPOCH]),
            int(found[HalfBatchProperty.VERSION]),
        )
        return HalfBatch(
            HalfName(
                batch,
                int(found[HalfBatchProperty.PARTITION]),
                found[HalfBatchProperty.ATTEMPT],
                int(found[HalfBatchProperty.SEQUENCE]),
            ),
            found[Property.REAL_TOPIC],
            int(found[Property.REAL_QUEUE_ID]),
            int(found[HalfBatchProperty.COUNT]),
            int(found[HalfBatchProperty.RECORD_SIZE]),
            body_bytes_of(head),
            int(found[HalfBatchProperty.BODY_CRC]),
            found[HalfBatchProperty.HAS_TAGS] != "0",
            record.queue_offset,
            record.physical_offset,
        )
    except (KeyError, ValueError) as error:
        raise RecordError(
            f"The half batch at {record.physical_offset} has not the properties of one: {error}."
        ) from None

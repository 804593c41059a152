"""Batches whose messages are all of one size, made into records as one table.

A producer's messages mostly differ in nothing but the bytes of their bodies and the values of their properties. Then
the elements of its batches are rows of a table, and so are the records: what all records of a batch have in common is
written once and repeated, and a few columns are copied. For some dozens of messages that takes a third of the time of
`batch_columns` and `encode_records`, which take all others.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from rmqspark.protocol.records import record as layout
from rmqspark.protocol.records.body_crcs import crcs_of
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.record_batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes

_ELEMENT: Final = Struct(">i12xi")  # size, body length; see `batch.py`
_BODY_AT: Final = 20
_FIXED_BYTES: Final = _BODY_AT + 2  # of an element: what is not body and not properties
_MOST_BYTES: Final = 4096  # of an element: for long ones the common way is as quick, and shapes are remembered
_OF_BATCH: Final = {"queue_id": ">i4", "sys_flag": ">i4", "born_timestamp_ms": ">i8", "born_host": "V8"}


class Common(Protocol):
    """What the records of one batch have in common besides the topic."""

    @property
    def queue_id(self) -> int: ...
    @property
    def sys_flag(self) -> int: ...
    @property
    def born_timestamp_ms(self) -> int: ...
    @property
    def born_host(self) -> bytes:
        """A host field of 8 bytes."""


class _Shape(NamedTuple):
    """Elements and their records, as NumPy types, and a record without anything of its own."""

    element: np.dtype[np.void]
    record: np.dtype[np.void]
    blank: bytes


class ElementTable(NamedTuple):
    """The elements of some batches laid end to end: `size` bytes each, `body_bytes` of them body."""

    body: Bytes
    size: int
    body_bytes: int

    @classmethod
    def find(cls, body: Bytes) -> ElementTable | None:
        """What the first element says of all of them; None if that cannot be, or it is a long one, or has no body or no
        properties."""
        if len(body) <= _FIXED_BYTES:
            return None
        size, body_bytes = _ELEMENT.unpack_from(body.data)
        is_possible = 0 < body_bytes < size - _FIXED_BYTES and size <= _MOST_BYTES
        return cls(body, size, body_bytes) if is_possible and len(body) % size == 0 else None

    def records(self, topic: str, batches: Sequence[Common], counts: Sequence[int]) -> RecordBatch | None:
        """The records of all elements, `counts[i]` of the i-th batch; None if not all elements are as the first one."""
        body_bytes, properties_bytes = self.body_bytes, self.size - _FIXED_BYTES - self.body_bytes
        shape = _shape(topic, body_bytes, properties_bytes)
        elements = np.ndarray((len(self.body) // self.size,), shape.element, self.body)
        expected = {"size": self.size, "body_length": body_bytes, "properties_length": properties_bytes}
        if any((elements[name] != value).any() for name, value in expected.items()):
            return None
        records = np.repeat(_blanks(shape, batches), counts).view(shape.record)
        records["body_crc"] = crcs_of(elements["body"].tolist())
        for name in ("flag", "body", "properties"):
            records[name] = elements[name]
        return RecordBatch.made(
            records.view(np.uint8), shape.record.itemsize, body_bytes, len(topic.encode()), properties_bytes
        )


@lru_cache(maxsize=256)
def _shape(topic: str, body_bytes: int, properties_bytes: int) -> _Shape:
    blank = bytes(encode_record(topic=topic, body=bytes(body_bytes), properties=bytes(properties_bytes)))
    body, properties = f"V{body_bytes}", f"V{properties_bytes}"
    element = np.dtype(
        [
            ("size", ">i4"),
            ("unused", "V8"),
            ("flag", ">i4"),
            ("body_length", ">i4"),
            ("body", body),
            ("properties_length", ">i2"),
            ("properties", properties),
        ]
    )
    record = np.dtype(
        {
            "names": [*_OF_BATCH, "body_crc", "flag", "body", "properties"],
            "formats": [*_OF_BATCH.values(), ">u4", ">i4", body, properties],
            "offsets": [
                *(layout.QUEUE_ID_AT, layout.SYS_FLAG_AT, layout.BORN_TIMESTAMP_AT, layout.BORN_HOST_AT),
                *(layout.BODY_CRC_AT, layout.FLAG_AT, layout.HEAD_BYTES, len(blank) - properties_bytes),
            ],
            "itemsize": len(blank),
        }
    )
    return _Shape(element, record, blank)


def _blanks(shape: _Shape, batches: Sequence[Common]) -> NDArray[np.void]:
    """A record of each batch, with what all of its records have in common."""
    blanks = np.frombuffer(bytearray(shape.blank * len(batches)), shape.record)
    blanks["queue_id"] = [batch.queue_id for batch in batches]
    blanks["sys_flag"] = [batch.sys_flag for batch in batches]
    blanks["born_timestamp_ms"] = [batch.born_timestamp_ms for batch in batches]
    blanks["born_host"] = np.frombuffer(b"".join([batch.born_host for batch in batches]), _OF_BATCH["born_host"])
    return blanks.view(f"V{len(shape.blank)}")

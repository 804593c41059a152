"""Records into Arrow batches, column by column; only the columns that were asked for are looked at.

The first batch must equal Spark's idea of the schema to the letter, so types come from Spark's own translation of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from rmqspark.display import FIRST_OF_10_000_MS
from rmqspark.protocol.buffers.spans import gather_rows
from rmqspark.protocol.records.message_id import offset_msg_id
from rmqspark.protocol.records.properties import decode_properties
from rmqspark.protocol.records.record import SysFlag
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.source.values.arrow_spans import (
    as_strings,
    binaries,
    binary_array,
    fixed_width_strings,
    is_text,
    numbers,
    repeated,
    string_array,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.types import StructType

    from rmqspark.message_queue import MessageQueue

NARROW_ROWS = 20_000
_WIDE_ROWS = 8_000
INFLATED_BYTES = 4 << 20  # an Arrow batch of inflated bodies is closed when it has so many

_HEX = np.frombuffer("".join(f"{byte:02X}" for byte in range(256)).encode(), np.uint16)
_UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


def rows_of_a_batch(schema: StructType) -> int:
    """The most rows of an Arrow batch; with properties in it, Spark's side is happier with fewer."""
    return _WIDE_ROWS if "properties" in schema.fieldNames() else NARROW_ROWS


class ArrowColumns:
    """Turns records of some queues, of one broker, into Arrow batches of a schema (one that `check_schema` passed)."""

    def __init__(self, schema: StructType, queue: MessageQueue, *more: MessageQueue) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        names = schema.fieldNames()
        self._max_rows = rows_of_a_batch(schema)
        self._wants_body = "body" in names
        constants: dict[str, Any] = {"brokerName": queue.broker_name}
        if all(other.topic == queue.topic for other in more):
            constants["topic"] = queue.topic
        if all(other.queue_id == queue.queue_id for other in more):
            constants["queueId"] = queue.queue_id
        self._constants = {
            field.name: repeated(constants[field.name], self._max_rows)
            for field in self._schema
            if field.name in constants
        }

    def batches(self, records: RecordBatch) -> Iterator[Any]:
        """Arrow batches of all records, in order. Raises RecordError for records that are damaged."""
        for first in range(0, len(records), self._max_rows):
            part = cut(records, first, first + self._max_rows)
            if self._wants_body and (part.sys_flags & SysFlag.COMPRESSED).any():
                yield from self._inflated(part)
            else:
                yield self._batch(part, None)

    def _inflated(self, records: RecordBatch) -> Iterator[Any]:
        """Batches with bodies decompressed, closed by size: small records may hold large bodies."""
        first, size = 0, 0
        bodies: list[bytes] = []
        for body in _plain_bodies(records):
            bodies.append(body)
            size += len(body)
            if size >= INFLATED_BYTES:
                yield self._batch(cut(records, first, first + len(bodies)), binaries(bodies))
                first, size, bodies = first + len(bodies), 0, []
        if bodies:
            yield self._batch(cut(records, first, first + len(bodies)), binaries(bodies))

    def _batch(self, records: RecordBatch, bodies: Any) -> Any:
        arrays = [self._column(field, records, bodies) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, field: Any, records: RecordBatch, bodies: Any) -> Any:
        if field.name in self._constants:
            return self._constants[field.name].slice(0, len(records))
        if field.name == "body" and bodies is not None:
            return bodies
        return _COLUMNS[field.name](records, field.type)


def cut(records: RecordBatch, first: int, end: int) -> RecordBatch:
    """The records from number `first` up to, not including, `end`."""
    if first == 0 and end >= len(records):
        return records
    return RecordBatch(records.buffer, records.positions[first:end], records.sizes[first:end])


def _plain_bodies(records: RecordBatch) -> Iterator[bytes]:
    from rmqspark.client.pulling.inflate import inflated  # brings the compressors, which most queries need not

    raw = records.buffer.data
    starts, ends = records.bodies.starts.tolist(), records.bodies.ends.tolist()
    for start, end, sys_flag in zip(starts, ends, records.sys_flags.tolist(), strict=True):
        yield inflated(bytes(raw[start:end]), sys_flag)


def _bodies(records: RecordBatch, kind: Any) -> Any:
    return binary_array(records.buffer, records.bodies)


def _property(name: bytes) -> Callable[[RecordBatch, Any], Any]:
    return lambda records, kind: string_array(records.buffer, records.property_spans(name))


def _properties(records: RecordBatch, kind: Any) -> Any:
    pairs = records.property_pairs()
    names, values = binary_array(records.buffer, pairs.names), binary_array(records.buffer, pairs.values)
    if not (is_text(names) and is_text(values)):
        return _properties_one_by_one(records, kind)
    offsets = np.zeros(len(records) + 1, np.int32)
    np.cumsum(pairs.counts, out=offsets[1:])
    return pa.MapArray.from_arrays(numbers(offsets), as_strings(names), as_strings(values), type=kind)


def _properties_one_by_one(records: RecordBatch, kind: Any) -> Any:
    """Names that are no UTF-8 may read alike, and no map has one twice."""
    raw, spans = records.buffer.data, records.properties
    places = zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
    return pa.array([list(decode_properties(raw[start:end]).items()) for start, end in places], kind)


def _msg_ids(records: RecordBatch, kind: Any) -> Any:
    """The sender's unique id; a message without one goes by the broker's."""
    unique = string_array(records.buffer, records.property_spans(b"UNIQ_KEY"))
    if unique.null_count == 0:
        return unique
    from pyarrow.compute import coalesce  # dear to import, and ids of ours are always there

    return coalesce(unique, _offset_msg_ids(records, kind))


def _offset_msg_ids(records: RecordBatch, kind: Any) -> Any:
    hosts, offsets = records.store_hosts, records.physical_offsets
    if (hosts.lengths != 8).any():
        return pa.array(_offset_msg_ids_one_by_one(records), pa.string())
    raw = np.empty((len(records), 16), np.uint8)
    raw[:, :8] = gather_rows(records.buffer, hosts.starts, 8)
    raw[:, 8:] = offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
    return fixed_width_strings(_HEX[raw].view(np.uint8))


def _offset_msg_ids_one_by_one(records: RecordBatch) -> list[str]:
    raw, hosts = records.buffer.data, records.store_hosts
    return [
        offset_msg_id(bytes(raw[start:end]), offset)
        for start, end, offset in zip(
            hosts.starts.tolist(), hosts.ends.tolist(), records.physical_offsets.tolist(), strict=True
        )
    ]


def _timestamps(milliseconds: Any) -> Any:
    """Null for what no calendar has: when a message was born its sender says as he likes, and Python, to which a query
    may bring it, has no date for it."""
    has_date = (milliseconds >= 0) & (milliseconds < FIRST_OF_10_000_MS)
    valid = None if has_date.all() else pa.py_buffer(np.packbits(has_date, bitorder="little"))
    return pa.Array.from_buffers(_UTC_MICROSECONDS, len(milliseconds), [valid, pa.py_buffer(milliseconds * 1000)])


_COLUMNS: dict[str, Callable[[RecordBatch, Any], Any]] = {
    "topic": lambda records, kind: string_array(records.buffer, records.topics),
    "queueId": lambda records, kind: numbers(records.queue_ids),
    "queueOffset": lambda records, kind: numbers(records.queue_offsets),
    "msgId": _msg_ids,
    "offsetMsgId": _offset_msg_ids,
    "tags": _property(b"TAGS"),
    "keys": _property(b"KEYS"),
    "body": _bodies,
    "properties": _properties,
    "bornTimestamp": lambda records, kind: _timestamps(records.born_timestamps_ms),
    "storeTimestamp": lambda records, kind: _timestamps(records.store_timestamps_ms),
    "reconsumeTimes": lambda records, kind: numbers(records.reconsume_times),
    "flag": lambda records, kind: numbers(records.flags),
}

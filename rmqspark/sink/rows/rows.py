"""One Arrow batch from Spark as the columns that records are made of. No row is touched by Python.

What each message carries: the body, and as properties TAGS, KEYS, the sharding key, a fresh UNIQ_KEY and the user's
map; what is to wait also says until when (`delays`). Rows that no broker would take were refused before (`row_checks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from zlib_ng.zlib_ng import crc32

from rmqspark.protocol.buffers.columns import Column, MapColumn
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.row_properties import RowProperties
from rmqspark.protocol.headers.bulk import MAX_KEYS
from rmqspark.protocol.records.body_crcs import body_crcs, crcs_of, long_rows
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.property_builder import build_properties
from rmqspark.protocol.records.record import CRC_MASK, MIN_RECORD_BYTES
from rmqspark.protocol.records.record_builder import encode_records
from rmqspark.protocol.records.unique_keys import UNIQUE_KEY_PAIR_BYTES, unique_keys
from rmqspark.sink.rows.compression import compressed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.buffers.spans import Bytes
    from rmqspark.protocol.records.record_builder import EncodedRecords
    from rmqspark.protocol.records.unique_keys import IdRange

CRC_BYTES = 4
CRC_BLOCK_ROWS = 1024  # bodies that are Python objects at the same time
PLAIN_COLUMNS = {"tags": Property.TAGS, "keys": Property.KEYS, "shardingKey": Property.SHARDING_KEY}

_BLANK = ord(" ")
_GROWTH = 4  # so the largest `batchBytes` become what a broker makes records of at once, and no more
_KEY_BYTES = (
    32  # that each key counts for: the largest `batchBytes` have as many as a broker enters at once, and no more
)
_PROPERTY_COLUMNS = {"properties"} | PLAIN_COLUMNS.keys()


def is_plain(names: Iterable[str]) -> bool:
    """Whether rows with these columns have no properties but their unique id."""
    return _PROPERTY_COLUMNS.isdisjoint(names)


class Rows:
    """The rows of one batch, ready to be sent. `sizes` are those of what travels; small bodies count for more, since
    the broker makes whole records of them, and so do many keys, each of which it enters into its index."""

    def __init__(
        self, batch: Any, topic: str, ids: IdRange, compression: str, more: Mapping[str, Any] | None = None
    ) -> None:
        """`more`: Arrow texts by property, of rows that say more than their columns."""
        self.topic = topic
        key_counts = _many_keys(batch.column("keys")) if "keys" in batch.schema.names else None
        array = _as_binary(batch.column(body_name(batch)))
        bodies = column(array)
        self.bodies, self.sys_flags = compressed(bodies, compression)
        as_given = self.bodies is bodies
        self.crcs = _crcs(array, bodies) if as_given else body_crcs(self.bodies.values, self.bodies.spans())
        self._ids = ids
        self._properties: RowProperties | None = None
        self._encoded: Column | None = None
        lengths = self.bodies.spans().lengths
        records: NDArray[np.int64] = lengths + (MIN_RECORD_BYTES + len(topic.encode()))
        are_alike = (self.sys_flags == self.sys_flags[:1]).all()
        if more:
            self._encoded = _encoded(batch, unique_keys(ids.prefix, ids.sequences(batch.num_rows)), more)
            self.sizes = records + self._encoded.spans().lengths
        elif are_alike and is_plain(batch.schema.names):
            self.sizes = np.maximum(lengths + CRC_BYTES, (records + UNIQUE_KEY_PAIR_BYTES) // _GROWTH + 1)
        elif are_alike and (properties := _row_properties(batch)) is not None:
            self._properties = properties
            sent = properties.most_sent_bytes() + lengths + CRC_BYTES
            self.sizes = np.maximum(sent, (records + properties.most_encoded_bytes()) // _GROWTH + 1)
        else:
            self._encoded = _encoded(batch, unique_keys(ids.prefix, ids.sequences(batch.num_rows)), {})
            self.sizes = records + self._encoded.spans().lengths
        if key_counts is not None:
            self.sizes = np.maximum(self.sizes, key_counts * _KEY_BYTES)

    def bulk(
        self, queue: MessageQueue, first: int, end: int, *, born_timestamp_ms: int, born_host: bytes, out: Bytes | None
    ) -> EncodedRecords | BulkRows:
        """The rows from number `first` up to `end`, for one queue; as records, made in `out`, if they must be."""
        if self._encoded is None:
            rows = self.plain(first, end, born_timestamp_ms, born_host)
            return rows if self._properties is None else rows._replace(properties=self._properties.part(first, end))
        return encode_records(
            queue.topic,
            queue.queue_id,
            part(self.bodies, first, end),
            part(self._encoded, first, end),
            born_timestamp_ms=born_timestamp_ms,
            born_host=born_host,
            sys_flags=self.sys_flags[first:end],
            crcs=self.crcs[first:end],
            out=out,
        )

    def plain(self, first: int, end: int, born_timestamp_ms: int, born_host: bytes) -> BulkRows:
        """The rows from number `first` up to `end`, with no properties but their ids."""
        bodies, sys_flag = part(self.bodies, first, end), int(self.sys_flags[first])
        return BulkRows(born_timestamp_ms, born_host, sys_flag, self._ids.skip(first), self.crcs[first:end], bodies)


def column(array: Any) -> Column:
    """An Arrow string or binary array as a column, without a copy of its values."""
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets, values = array.buffers()[1:3]
    rows = slice(array.offset, array.offset + len(array) + 1)
    return Column(
        np.frombuffer(values, np.uint8) if values is not None else np.empty(0, np.uint8),
        _offsets(offsets, large)[rows] if len(array) else np.zeros(1, np.int32),
        None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False),
    )


def _offsets(buffer: Any, large: bool) -> NDArray[np.int32] | NDArray[np.int64]:
    return np.frombuffer(buffer, np.int64) if large else np.frombuffer(buffer, np.int32)


def part(whole: Column, first: int, end: int) -> Column:
    """The rows from number `first` up to, not including, `end`."""
    present = None if whole.present is None else whole.present[first:end]
    return Column(whole.values, whole.offsets[first : end + 1], present)


def body_name(batch: Any) -> str:
    return "body" if "body" in batch.schema.names else "value"


def _as_binary(array: Any) -> Any:
    return (
        array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary())
        if _is_text(array)
        else array
    )


def _is_text(array: Any) -> bool:
    return bool(pa.types.is_string(array.type) or pa.types.is_large_string(array.type))


def _crcs(array: Any, bodies: Column) -> NDArray[np.uint32]:
    """As `body_crcs`; Arrow hands out values as bytes three times as fast as they can be sliced in Python."""
    if (rows := long_rows(bodies.values, bodies.spans())) is not None:
        return crcs_of(rows)
    crcs = np.empty(len(array), np.uint32)
    for first in range(0, len(array), CRC_BLOCK_ROWS):
        block = array.slice(first, CRC_BLOCK_ROWS).to_pylist()
        crcs[first : first + len(block)] = np.fromiter(map(crc32, block), np.uint32, len(block))
    crcs &= CRC_MASK
    return crcs


def _row_properties(batch: Any) -> RowProperties | None:
    """Tags, keys and sharding keys as they travel; None where rows have more than that, or values that do not travel in
    columns: `_encoded` takes them, or says what is wrong with them."""
    names = batch.schema.names
    if "properties" in names:
        return None
    columns = [column(_column_of(batch, name)) if name in names else None for name in PLAIN_COLUMNS]
    if any(_has_absent_bytes(each) for each in columns if each is not None):
        return None
    properties = RowProperties.of(batch.num_rows, *columns)
    return properties if properties.are_plain() else None


def _has_absent_bytes(values: Column) -> bool:
    """Arrow leaves open what lies under a null."""
    return values.present is not None and bool(np.diff(values.offsets)[~values.present].any())


def _encoded(batch: Any, keys: Column, more: Mapping[str, Any]) -> Column:
    return build_properties(batch.num_rows, _singles(batch, keys, more), _pairs(batch))


def _singles(batch: Any, keys: Column, more: Mapping[str, Any]) -> dict[str, Column]:
    """Tags first, where brokers look for them."""
    given = {
        property_name: column(_column_of(batch, name))
        for name, property_name in PLAIN_COLUMNS.items()
        if name in batch.schema.names
    }
    sharding_keys = {name: given.pop(name) for name in (Property.SHARDING_KEY,) if name in given}
    rest = {name: column(texts) for name, texts in more.items()}
    return given | {Property.UNIQ_KEY: keys} | sharding_keys | rest


def _column_of(batch: Any, name: str) -> Any:
    return _joined(batch.column(name)) if name == "keys" else batch.column(name)


def _joined(keys: Any) -> Any:
    """Several keys of a message are one property, blanks between them; null and empty ones among them do not count."""
    if not _is_list(keys):
        return keys
    from pyarrow.compute import binary_join  # dear to import, and most rows have one key or none

    return binary_join(_of_kept_items(keys), pa.scalar(" ", keys.type.value_type))


def _of_kept_items(lists: Any) -> Any:
    """Without the keys that do not count; a null row is an empty one."""
    from pyarrow.compute import list_value_length

    items = lists.flatten()
    kept = column(items).spans().lengths > 0
    lengths = list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    kept_before = np.concatenate(([0], np.cumsum(kept)))
    offsets = kept_before[np.concatenate(([0], np.cumsum(lengths)))]
    if not kept.all():
        items = items.filter(pa.array(kept))
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items)


def _many_keys(keys: Any) -> NDArray[np.int64] | None:
    """How many keys each row has, at most; None where all of them have no more than may be sent at once."""
    if _is_list(keys):
        offsets = keys.offsets
        is_many = offsets[-1].as_py() - offsets[0].as_py() > MAX_KEYS
        return _steps(np.asarray(offsets)) if is_many else None
    texts = column(keys)
    first, end = int(texts.offsets[0]), int(texts.offsets[-1])
    is_blank = texts.values[first:end] == _BLANK
    if np.count_nonzero(is_blank) + len(keys) <= MAX_KEYS:
        return None
    return _steps(np.searchsorted(np.flatnonzero(is_blank) + first, texts.offsets)) + 1


def _steps(counts: NDArray[Any]) -> NDArray[np.int64]:
    """From each to the next."""
    steps: NDArray[np.int64] = counts[1:].astype(np.int64) - counts[:-1]
    return steps


def _is_list(keys: Any) -> bool:
    return bool(pa.types.is_list(keys.type) or pa.types.is_large_list(keys.type))


def _pairs(batch: Any) -> MapColumn | None:
    if "properties" not in batch.schema.names:
        return None
    maps = batch.column("properties")
    if maps.null_count:  # a null map may still cover entries; one that is taken covers none
        maps = maps.take(pa.array(np.arange(len(maps))))
    return MapColumn(np.asarray(maps.offsets), column(maps.keys), column(maps.items))

"""A bulk without what its records have in common: a checksum and a body per row, and once what all rows share.

Rows with no properties but their unique id, tags, keys and sharding key differ in nothing else, so the broker can make
their records itself. What travels, and what a transaction holds, is then about half as long for bodies of 100 bytes,
and a sender copies nothing: bodies and values go out from where they lie. Layout, big-endian:

    born timestamp (8) | born host (8) | sys flag (4) | id prefix (20 hex digits) | first sequence number (8)
    | body length (4), 0 where bodies differ | lengths (count × 4), only then | checksums (count × 4)
    | properties (`row_properties.py`), where rows have any but their id | bodies

Row i has the unique id `prefix` + (`first sequence number` + i), see `message_id.py`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.row_properties import RowProperties
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.message_id import MAX_SEQUENCE
from rmqspark.protocol.records.record import CRC_MASK, MIN_RECORD_BYTES, SysFlag
from rmqspark.protocol.records.record_builder import encode_records
from rmqspark.protocol.records.unique_keys import UNIQUE_KEY_PAIR_BYTES, IdRange, unique_key_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes
    from rmqspark.protocol.records.record_builder import EncodedRecords

AS_ROWS: Final = -1
"""In the place of a record size (`headers/bulk.py`): the body has this layout, without properties."""

AS_ROWS_WITH_PROPERTIES: Final = -2
"""The same with properties."""

_SHARED: Final = Struct(">q8si20sqi")
_HEX_DIGITS: Final = frozenset(b"0123456789ABCDEF")


class BulkRows(NamedTuple):
    """Rows of one bulk. `bodies` are as stored, `sys_flag` says how they are compressed; without `properties` they have
    nothing but their ids."""

    born_timestamp_ms: int
    born_host: bytes
    sys_flag: int
    ids: IdRange
    crcs: NDArray[np.uint32]
    bodies: Column
    properties: RowProperties | None = None

    @property
    def record_size(self) -> int:
        """What stands for it in the place of a record size."""
        return AS_ROWS if self.properties is None else AS_ROWS_WITH_PROPERTIES

    def check_crcs(self) -> None:
        """Raises RecordError unless the checksums are those of the bodies."""
        found = body_crcs(self.bodies.values, self.bodies.spans())
        _require(bool((self.crcs == found).all()), "a checksum is not that of its body")

    def skip(self, count: int) -> Self:
        """Without the first `count` rows."""
        bodies = self.bodies._replace(offsets=self.bodies.offsets[count:])
        properties = None if self.properties is None else self.properties.part(count)
        return self._replace(ids=self.ids.skip(count), crcs=self.crcs[count:], bodies=bodies, properties=properties)

    def records_bytes(self, topic: str) -> int:
        """How long their records are, all together."""
        properties = (
            len(self.crcs) * UNIQUE_KEY_PAIR_BYTES
            if self.properties is None
            else self.properties.encoded_bytes_of_all()
        )
        bodies = int(self.bodies.offsets[-1] - self.bodies.offsets[0])
        return len(self.crcs) * (MIN_RECORD_BYTES + len(topic.encode())) + properties + bodies

    def records(self, topic: str, queue_id: int, out: Bytes | None = None) -> EncodedRecords:
        """Their records, as `encode_records` makes them."""
        return records_of_rows(topic, [queue_id], [self], out)

    def encode(self) -> tuple[Bytes, ...]:
        """The body of a bulk, in parts; the last one is the memory that the bodies lie in."""
        lengths = np.diff(self.bodies.offsets)
        width = int(lengths[0]) if (lengths == lengths[0]).all() else 0
        prefix, first = self.ids
        shared = _SHARED.pack(self.born_timestamp_ms, self.born_host, self.sys_flag, prefix.encode(), first, width)
        ahead = [np.frombuffer(shared, np.uint8), *([] if width else [lengths.astype(">i4").view(np.uint8)])]
        bodies = self.bodies.values[int(self.bodies.offsets[0]) : int(self.bodies.offsets[-1])]
        properties = () if self.properties is None else self.properties.encode()
        return (*ahead, self.crcs.astype(">u4").view(np.uint8), *properties, bodies)

    @classmethod
    def decode(cls, body: memoryview, count: int, record_size: int = AS_ROWS) -> Self:
        """The `count` rows of a bulk, in its memory. Raises RecordError where it does not have this layout."""
        _require(count > 0 and len(body) >= _SHARED.size + 5 * count, f"{count} rows need more than {len(body)} bytes")
        born_ms, born_host, sys_flag, prefix, first, width = _SHARED.unpack_from(body)
        _require(_HEX_DIGITS.issuperset(prefix), "its ids do not begin with hex digits")
        _require(0 <= first <= MAX_SEQUENCE + 1 - count, f"{first} is not the first number of {count} ids")
        _require(born_ms >= 0, f"its rows were born at {born_ms} ms")
        at = _SHARED.size
        if width:
            offsets = np.arange(count + 1, dtype=np.int64) * width
        else:
            lengths = np.frombuffer(body, ">i4", count, at)
            _require(int(lengths.min()) > 0, "a body is empty")
            offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
            at += 4 * count
        _require(len(body) >= at + 4 * count, f"{count} rows need more than {len(body)} bytes")
        crcs, rest, properties = np.frombuffer(body, ">u4", count, at).astype(np.uint32), body[at + 4 * count :], None
        _require(int(crcs.max()) <= CRC_MASK, "a checksum has a sign bit")
        if record_size == AS_ROWS_WITH_PROPERTIES:
            properties, rest = RowProperties.decode(rest, count)
        _require(width >= 0 and len(rest) == int(offsets[-1]), f"its bodies do not fill its {len(body)} bytes")
        bodies = Column(np.frombuffer(rest, np.uint8), offsets)
        return cls(born_ms, born_host, sys_flag, IdRange(prefix.decode(), first), crcs, bodies, properties)


def brings_rows(record_size: int) -> bool:
    """Whether a body has rows in it instead of records."""
    return record_size in (AS_ROWS, AS_ROWS_WITH_PROPERTIES)


def properties_of_rows(bulks: Sequence[BulkRows]) -> RowProperties | None:
    """Those of several bulks, one after another; None where none of them has any."""
    if all(bulk.properties is None for bulk in bulks):
        return None
    return RowProperties.joined([bulk.properties or RowProperties.of(len(bulk.crcs)) for bulk in bulks])


def records_of_rows(
    topic: str,
    queue_ids: Sequence[int],
    bulks: Sequence[BulkRows],
    out: Bytes | None = None,
    half_offsets: Sequence[int] = (),
) -> EncodedRecords:
    """The records of several bulks of one topic, each for its queue, one bulk after another.

    With `half_offsets` they are committed messages, whose half batches lie there.
    """
    counts = [len(bulk.crcs) for bulk in bulks]
    ids, properties = unique_key_pairs([bulk.ids for bulk in bulks], counts), properties_of_rows(bulks)
    flag = SysFlag.COMMITTED if half_offsets else 0
    hosts = [bulk.born_host for bulk in bulks]
    return encode_records(
        topic,
        _for_each_row(queue_ids, counts),
        [bulk.bodies for bulk in bulks],
        ids if properties is None else properties.in_records(ids),
        born_timestamp_ms=_for_each_row([bulk.born_timestamp_ms for bulk in bulks], counts),
        born_host=hosts[0] if _are_alike(hosts) else np.repeat(np.frombuffer(b"".join(hosts), "V8"), counts),
        sys_flags=_for_each_row([bulk.sys_flag | flag for bulk in bulks], counts),
        prepared_offsets=_for_each_row(half_offsets or [0] * len(bulks), counts),
        crcs=bulks[0].crcs if len(bulks) == 1 else np.concatenate([bulk.crcs for bulk in bulks]),
        out=out,
    )


def _for_each_row(values: Sequence[int], counts: Sequence[int]) -> int | NDArray[np.int64]:
    """What stands for all rows of a bulk, for each of them; a single number where it is the same in all bulks."""
    return values[0] if _are_alike(values) else np.repeat(np.array(values, np.int64), counts)


def _are_alike(values: Sequence[object]) -> bool:
    return all([value == values[0] for value in values])


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RecordError(f"A bulk is not made of rows: {otherwise}.")

"""A bulk without what its records have in common: a checksum and a body per row, and once what all rows share.

Rows with no properties but their unique id differ in nothing else, so the broker can make their records itself. What
travels, and what a transaction holds, is then less than half as long for bodies of 100 bytes, and a sender copies
nothing: the bodies go out from where they lie. Layout, big-endian:

    born timestamp (8) | born host (8) | sys flag (4) | id prefix (20 hex digits) | first sequence number (8)
    | body length (4), 0 where bodies differ | lengths (count × 4), only then | checksums (count × 4) | bodies

Row i has the unique id `prefix` + (`first sequence number` + i), see `message_id.py`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from rmqspark.errors import RecordError
from rmqspark.protocol.columns import Column
from rmqspark.protocol.message_id import MAX_SEQUENCE
from rmqspark.protocol.record import CRC_MASK, MIN_RECORD_BYTES
from rmqspark.protocol.record_builder import encode_records
from rmqspark.protocol.unique_keys import UNIQUE_KEY_PAIR_BYTES, IdRange, unique_key_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.record_builder import EncodedRecords
    from rmqspark.protocol.spans import Bytes

AS_ROWS: Final = -1
"""In the place of a record size (`headers_bulk.py`): the body has this layout."""

_SHARED: Final = Struct(">q8si20sqi")
_HEX_DIGITS: Final = frozenset(b"0123456789ABCDEF")


class BulkRows(NamedTuple):
    """Rows of one bulk. `bodies` are as stored, `sys_flag` says how they are compressed."""

    born_timestamp_ms: int
    born_host: bytes
    sys_flag: int
    ids: IdRange
    crcs: NDArray[np.uint32]
    bodies: Column

    def skip(self, count: int) -> Self:
        """Without the first `count` rows."""
        bodies = self.bodies._replace(offsets=self.bodies.offsets[count:])
        return self._replace(ids=self.ids.skip(count), crcs=self.crcs[count:], bodies=bodies)

    def records_bytes(self, topic: str) -> int:
        """How long their records are, all together."""
        overhead = MIN_RECORD_BYTES + len(topic.encode()) + UNIQUE_KEY_PAIR_BYTES
        return len(self.crcs) * overhead + int(self.bodies.offsets[-1] - self.bodies.offsets[0])

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
        return (*ahead, self.crcs.astype(">u4").view(np.uint8), bodies)

    @classmethod
    def decode(cls, body: memoryview, count: int) -> Self:
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
        crcs = np.frombuffer(body, ">u4", count, at).astype(np.uint32) if len(body) >= at + 4 * count else _NO_CRCS
        at += 4 * count
        _require(width >= 0 and len(body) - at == int(offsets[-1]), f"its bodies do not fill its {len(body)} bytes")
        _require(int(crcs.max()) <= CRC_MASK, "a checksum has a sign bit")
        bodies = Column(np.frombuffer(body[at:], np.uint8), offsets)
        return cls(born_ms, born_host, sys_flag, IdRange(prefix.decode(), first), crcs, bodies)


def records_of_rows(
    topic: str, queue_ids: Sequence[int], bulks: Sequence[BulkRows], out: Bytes | None = None
) -> EncodedRecords:
    """The records of several bulks of one topic, each for its queue, one bulk after another."""
    counts = [len(bulk.crcs) for bulk in bulks]
    hosts = np.frombuffer(b"".join(bulk.born_host for bulk in bulks), "V8")
    return encode_records(
        topic,
        _for_each_row(queue_ids, counts),
        Column.joined([bulk.bodies for bulk in bulks]),
        unique_key_pairs([bulk.ids for bulk in bulks], counts),
        born_timestamp_ms=_for_each_row([bulk.born_timestamp_ms for bulk in bulks], counts),
        born_host=bulks[0].born_host if len(bulks) == 1 else np.repeat(hosts, counts),
        sys_flags=_for_each_row([bulk.sys_flag for bulk in bulks], counts),
        crcs=bulks[0].crcs if len(bulks) == 1 else np.concatenate([bulk.crcs for bulk in bulks]),
        out=out,
    )


def _for_each_row(values: Sequence[int], counts: Sequence[int]) -> int | NDArray[np.int64]:
    """What stands for all rows of a bulk, for each of them; a single number where there is one bulk."""
    return values[0] if len(values) == 1 else np.repeat(np.array(values, np.int64), counts)


_NO_CRCS: Final = np.zeros(1, np.uint32)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RecordError(f"A bulk is not made of rows: {otherwise}.")

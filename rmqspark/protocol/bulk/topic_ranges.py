"""Ranges of many queues in one request, and their records in one answer: what `topic_rows.py` is for sends.

A request for each of a thousand queues costs client and broker as much as some hundred messages. Layouts, big-endian:

    request: for each range: queue offset (8) | end offset (8) | topic deleted (8) | queue id (4) |
             length of topic (1) | topic
    answer:  for each range: next offset (8) | min offset (8) | count (4), then all sizes (4 each), then all records

An answer is about the first ranges of its request, as many as it has room for, one at least. Its records are those of
the first range, then those of the second, and so on.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rmqspark.errors import BodyError
from rmqspark.protocol.records.record import MIN_RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.commands.file_region import FileRegion, Part

MAX_RANGES: Final = 1_000
"""Ranges that one request asks for at most."""

_RANGE: Final = Struct(">qqqiB")
_NOT_KNOWN: Final = -1
_FOUND: Final = np.dtype([("next_offset", ">i8"), ("min_offset", ">i8"), ("count", ">i4")])
_SIZE: Final = np.dtype(">i4")


class TopicRange(NamedTuple):
    """The messages of one queue from `start` up to, not including, `end`. `topic_deleted_ms` as in RMQ_BULK_READ; None
    for any topic of the name."""

    topic: str
    queue_id: int
    start: int
    end: int
    topic_deleted_ms: int | None = None


class FoundRanges(NamedTuple):
    """What was found in the first ranges: `counts` of `sizes` (int32) and records, back to back, are of each; where to
    go on, and where each queue begins (int64). A range that starts below that brings nothing, and goes on there. Of an
    answer yet to be sent the records may be in `regions` of files instead."""

    next_offsets: NDArray[np.int64]
    min_offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    sizes: NDArray[np.int32]
    records: memoryview
    regions: Sequence[FileRegion] = ()


def encode_ranges(ranges: Sequence[TopicRange]) -> bytes:
    """The body of a request."""
    return b"".join(_encode_range(each, each.topic.encode()) for each in ranges)


def _encode_range(wanted: TopicRange, topic: bytes) -> bytes:
    deleted_ms = _NOT_KNOWN if wanted.topic_deleted_ms is None else wanted.topic_deleted_ms
    return _RANGE.pack(wanted.start, wanted.end, deleted_ms, wanted.queue_id, len(topic)) + topic


def decode_ranges(body: memoryview, count: int) -> list[TopicRange]:
    """The `count` ranges of a request. Raises BodyError where its body is not that, or has more than MAX_RANGES."""
    _require(0 < count <= MAX_RANGES, f"{count} ranges in one request; 1 to {MAX_RANGES:,} are allowed")
    ranges, at = [], 0
    for _ in range(count):
        begin = at + _RANGE.size
        _require(begin < len(body), f"a body of {len(body)} bytes ends among its {count} ranges")
        start, end, deleted_ms, queue_id, length = _RANGE.unpack_from(body, at)
        at = begin + length
        known_ms = None if deleted_ms == _NOT_KNOWN else deleted_ms
        ranges.append(TopicRange(_text(body[begin:at]), queue_id, start, end, known_ms))
    _require(at == len(body), f"{count} ranges take {at} bytes, their body has {len(body)}")
    return ranges


def encode_found(found: FoundRanges) -> tuple[Part, ...]:
    """The body of an answer, in pieces."""
    table = np.empty(len(found.counts), _FOUND)
    table["next_offset"], table["min_offset"], table["count"] = found.next_offsets, found.min_offsets, found.counts
    return table.tobytes(), found.sizes.astype(_SIZE).tobytes(), *(found.regions or (found.records,))


def decode_found(body: memoryview, range_count: int, record_count: int) -> FoundRanges:
    """An answer about so many ranges with so many records. Raises BodyError unless everything in it adds up."""
    room = len(body) - range_count * _FOUND.itemsize
    _require(range_count > 0 <= record_count, f"{record_count} records of {range_count} ranges are claimed")
    _require(
        room >= record_count * (_SIZE.itemsize + MIN_RECORD_BYTES),
        f"{record_count} records of {range_count} ranges are claimed in a body of {len(body)} bytes",
    )
    table = np.frombuffer(body, _FOUND, range_count)
    counts = table["count"].astype(np.int64)
    _require(
        int(counts.min()) >= 0 and int(counts.sum()) == record_count, f"its ranges do not have {record_count} records"
    )
    sizes_at = range_count * _FOUND.itemsize
    sizes = np.frombuffer(body, _SIZE, record_count, sizes_at).astype(np.int32)
    records = body[sizes_at + record_count * _SIZE.itemsize :]
    are_records = not record_count or int(sizes.min()) >= MIN_RECORD_BYTES
    _require(
        are_records and int(sizes.sum(dtype=np.int64)) == len(records),
        f"the sizes of {record_count} records do not add up to the {len(records)} bytes that follow",
    )
    return FoundRanges(_int64(table["next_offset"]), _int64(table["min_offset"]), counts, sizes, records)


def _int64(column: NDArray[Any]) -> NDArray[np.int64]:
    return column.astype(np.int64)


def _text(name: memoryview) -> str:
    try:
        return str(name, "utf-8")
    except UnicodeDecodeError as error:
        raise BodyError("A read of many queues names a topic that is no text.") from error


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BodyError(f"A read of many queues is not one: {otherwise}.")

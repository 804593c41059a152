"""Whole buffers of records to and from one broker: what RMQ_BULK_READ asks, and what bulk requests come back with.

They are rmqspark's own, spoken only where `capabilities` says so. The only module of the client that needs NumPy at
import. Layouts: `protocol/headers/bulk.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Required, TypedDict, Unpack

import msgspec
import numpy as np

from rmqspark.errors import BodyError, OffsetMoved
from rmqspark.protocol.buffers.spans import as_bytes, items_at
from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader, BulkReadResponseHeader, BulkSendResponseHeader
from rmqspark.protocol.records.record import MIN_RECORD_BYTES, PHYSICAL_OFFSET_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT, SIZE_AT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.remoting.response import Response

TIMEOUT_MS = 30_000
SIZE_BYTES = 4


class BulkChunk(NamedTuple):
    """Records of one queue, back to back in queue order, and the size of each; where to go on reading.

    `topic_deleted_ms` is when a topic of this name was last deleted, 0 if never; None where the broker does not know.
    """

    next_offset: int
    min_offset: int
    max_offset: int
    sizes: NDArray[np.int32]
    records: memoryview
    topic_deleted_ms: int | None = None


class BulkWanted(TypedDict, total=False):
    """What a bulk read may bring. `tags` are tested by their hash only: test the records' own tags again. `sql`,
    instead, is all the broker's work, where `reads_in_bulk(sql)`. `topic_deleted_ms` is the last deletion of its name
    that the caller knows of, `group` is whom it is read for."""

    max_count: Required[int]
    max_bytes: Required[int]
    tags: str | None
    sql: str | None
    topic_deleted_ms: int | None
    group: str | None


@dataclass(frozen=True, slots=True)
class BulkReceipt:
    """Where a bulk was stored: `count` consecutive queue offsets from `queue_offset`, back to back in the log."""

    queue_offset: int
    physical_offset: int
    count: int
    store_timestamp_ms: int


def bulk_receipt(response: Response) -> BulkReceipt:
    header = response.raise_for_code().header(BulkSendResponseHeader)
    return BulkReceipt(header.queueOffset, header.physicalOffset, header.count, header.storeTimestamp)


def read_header(
    broker_name: str, topic: str, queue_id: int, queue_offset: int, end_offset: int, **wanted: Unpack[BulkWanted]
) -> BulkReadRequestHeader:
    return BulkReadRequestHeader(
        topic,
        queue_id,
        queue_offset,
        end_offset,
        wanted["max_count"],
        wanted["max_bytes"],
        wanted.get("tags"),
        broker_name,
        wanted.get("sql"),
        wanted.get("topic_deleted_ms"),
        wanted.get("group"),
        readerChecks=None if wanted.get("sql") else True,  # what SQL92 has chosen the broker has read
    )


def bulk_chunk(asked: BulkReadRequestHeader, response: Response) -> BulkChunk:
    """Raises OffsetMoved where the offset that was asked for is gone, and the error an answer stands for."""
    if response.code != ResponseCode.PULL_OFFSET_MOVED:
        response.raise_for_code()
    header = response.header(BulkReadResponseHeader)
    if response.code == ResponseCode.PULL_OFFSET_MOVED:
        raise OffsetMoved(
            f"Offset {asked.queueOffset} of {asked.topic}/{asked.bname}/{asked.queueId} is gone: the queue begins at "
            f"{header.minOffset}.",
            next_offset=header.nextBeginOffset,
        )
    sizes, records = split_sizes(memoryview(response.body), header.count)
    deleted_ms = header.topicDeleted
    return BulkChunk(
        header.nextBeginOffset,
        header.minOffset,
        header.maxOffset,
        sizes,
        records,
        None if deleted_ms is None or deleted_ms < 0 else deleted_ms,
    )


def are_in_place(asked: BulkReadRequestHeader, chunk: BulkChunk) -> bool:
    """Whether records say of themselves that they are of the queue, by its number, and of the range that were asked
    for, and lie one behind the other in the log."""
    sizes = chunk.sizes
    if not len(sizes):
        return True
    records, starts = as_bytes(chunk.records), np.cumsum(sizes, dtype=np.int64) - sizes
    offsets = items_at(records, starts + QUEUE_OFFSET_AT, ">i8")
    places = items_at(records, starts + PHYSICAL_OFFSET_AT, ">i8")
    return bool(
        (items_at(records, starts + SIZE_AT, ">i4") == sizes).all()
        and (items_at(records, starts + QUEUE_ID_AT, ">i4") == asked.queueId).all()
        and asked.queueOffset <= offsets[0] <= offsets[-1] < chunk.next_offset
        and (offsets[1:] > offsets[:-1]).all()
        and (places[1:] >= places[:-1] + sizes[:-1]).all()
    )


def without_reader_checks(asked: BulkReadRequestHeader) -> BulkReadRequestHeader:
    """The same request, to be answered with records that the broker has looked at."""
    return msgspec.structs.replace(asked, readerChecks=None)


def split_sizes(body: memoryview, count: int) -> tuple[NDArray[np.int32], memoryview]:
    """A body of `count` big-endian sizes and as many records → both. BodyError unless they add up."""
    if not 0 <= count <= len(body) // (SIZE_BYTES + MIN_RECORD_BYTES):
        raise BodyError(f"{count} records are claimed in a body of {len(body)} bytes.")
    sizes = np.frombuffer(body, ">i4", count).astype(np.int32)
    records = body[SIZE_BYTES * count :]
    if (count and int(sizes.min()) < MIN_RECORD_BYTES) or int(sizes.sum(dtype=np.int64)) != len(records):
        raise BodyError(f"The sizes of {count} records do not add up to the {len(records)} bytes that follow.")
    return sizes, records

"""Whole buffers of records to and from one broker: what RMQ_BULK_READ asks, and what bulk requests come back with.

They are rmqspark's own, spoken only where `capabilities` says so. The only module of the client that needs NumPy at
import. Layouts: `protocol/headers/bulk.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Required, TypedDict, Unpack

import numpy as np

from rmqspark.client.cluster.in_place import are_in_place
from rmqspark.errors import BodyError, OffsetMoved
from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader, BulkReadResponseHeader, BulkSendResponseHeader
from rmqspark.protocol.records.record import MIN_RECORD_BYTES

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


def is_in_place(asked: BulkReadRequestHeader, chunk: BulkChunk) -> bool:
    """Whether all records of an answer are what was asked for, as they say themselves."""
    return are_in_place(chunk.records, chunk.sizes, asked.queueId, asked.queueOffset, chunk.next_offset)


def split_sizes(body: memoryview, count: int) -> tuple[NDArray[np.int32], memoryview]:
    """A body of `count` big-endian sizes and as many records → both. BodyError unless they add up."""
    if not 0 <= count <= len(body) // (SIZE_BYTES + MIN_RECORD_BYTES):
        raise BodyError(f"{count} records are claimed in a body of {len(body)} bytes.")
    sizes = np.frombuffer(body, ">i4", count).astype(np.int32)
    records = body[SIZE_BYTES * count :]
    if (count and int(sizes.min()) < MIN_RECORD_BYTES) or int(sizes.sum(dtype=np.int64)) != len(records):
        raise BodyError(f"The sizes of {count} records do not add up to the {len(records)} bytes that follow.")
    return sizes, records

"""Whole buffers of records to and from one broker: rmqspark's own requests, spoken only where `capabilities` says so.

The only module of the client that needs NumPy at import. Layouts: `protocol/headers/bulk.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Required, TypedDict

import numpy as np

from rmqspark.client.cluster.futures import then
from rmqspark.errors import BodyError, OffsetMoved
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.bulk import (
    BulkReadRequestHeader,
    BulkReadResponseHeader,
    BulkSendRequestHeader,
    BulkSendResponseHeader,
    TopicsSendRequestHeader,
    TopicsSendResponseHeader,
)
from rmqspark.protocol.records.record import MIN_RECORD_BYTES

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.remoting.reply import Body
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
    """What a bulk read may bring: see `bulk_read`."""

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


def bulk_send(
    broker: BrokerClient,
    topic: str,
    queue_id: int,
    body: Body,
    count: int,
    record_size: int,
    crc: int,
    *,
    group: str | None = None,
) -> Future[BulkReceipt]:
    """Stores `count` records in one queue, all or none.

    `body` is one buffer or several: the records, before them (where they differ in length, `record_size` 0) their
    sizes as big-endian int32; `crc` is the CRC-32 of all of it. The buffers must not change before the future is done.
    """
    header = BulkSendRequestHeader(topic, queue_id, count, record_size, crc, group, broker.name)
    return then(broker.submit(RequestCode.RMQ_BULK_SEND, header, body, timeout_ms=TIMEOUT_MS), _bulk_receipt)


def topics_send(
    broker: BrokerClient, body: Body, queues: int, count: int, crc: int, *, group: str | None = None
) -> Future[int]:
    """Stores `count` rows in so many queues, all or none; gives the physical offset of the first.

    `body` is one buffer or several, laid out as `protocol/bulk/topic_rows.py` says; `crc` and lifetime as in
    `bulk_send`.
    """
    header = TopicsSendRequestHeader(queues, count, crc, group, broker.name)
    answer = broker.submit(RequestCode.RMQ_TOPICS_SEND, header, body, timeout_ms=TIMEOUT_MS)
    return then(answer, lambda response: response.raise_for_code().header(TopicsSendResponseHeader).physicalOffset)


def bulk_read(
    broker: BrokerClient,
    topic: str,
    queue_id: int,
    queue_offset: int,
    end_offset: int,
    *,
    max_count: int,
    max_bytes: int,
    tags: str | None = None,
    sql: str | None = None,
    topic_deleted_ms: int | None = None,
    group: str | None = None,
) -> Future[BulkChunk]:
    """Records of [queue_offset, end_offset) in one piece, at least one if there is any; never waits for new ones.

    OffsetMoved where `queue_offset` is below the queue's minimum. `tags` are tested by their hash only: test the
    records' own tags again. `sql`, instead, is all the broker's work, where `reads_in_bulk(sql)`. TopicRemade where
    the topic was deleted later than `topic_deleted_ms`, the last deletion of its name that the caller knows of.
    NoPermission where `group`, for which it is read, may not consume.
    """
    header = BulkReadRequestHeader(
        topic, queue_id, queue_offset, end_offset, max_count, max_bytes, tags, broker.name, sql, topic_deleted_ms, group
    )
    future = broker.submit(RequestCode.RMQ_BULK_READ, header, timeout_ms=TIMEOUT_MS)
    where = f"{topic}/{broker.name}/{queue_id}"
    return then(future, lambda response: _bulk_chunk(response, where, queue_offset))


def _bulk_receipt(response: Response) -> BulkReceipt:
    header = response.raise_for_code().header(BulkSendResponseHeader)
    return BulkReceipt(header.queueOffset, header.physicalOffset, header.count, header.storeTimestamp)


def _bulk_chunk(response: Response, where: str, queue_offset: int) -> BulkChunk:
    if response.code != ResponseCode.PULL_OFFSET_MOVED:
        response.raise_for_code()
    header = response.header(BulkReadResponseHeader)
    if response.code == ResponseCode.PULL_OFFSET_MOVED:
        raise OffsetMoved(
            f"Offset {queue_offset} of {where} is gone: the queue begins at {header.minOffset}.",
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


def split_sizes(body: memoryview, count: int) -> tuple[NDArray[np.int32], memoryview]:
    """A body of `count` big-endian sizes and as many records → both. BodyError unless they add up."""
    if not 0 <= count <= len(body) // (SIZE_BYTES + MIN_RECORD_BYTES):
        raise BodyError(f"{count} records are claimed in a body of {len(body)} bytes.")
    sizes = np.frombuffer(body, ">i4", count).astype(np.int32)
    records = body[SIZE_BYTES * count :]
    if (count and int(sizes.min()) < MIN_RECORD_BYTES) or int(sizes.sum(dtype=np.int64)) != len(records):
        raise BodyError(f"The sizes of {count} records do not add up to the {len(records)} bytes that follow.")
    return sizes, records

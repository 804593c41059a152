"""One send of many rows: as our brokers take it, and as stock ones do.

A stock broker knows no bulk send. It gets the same rows as an ordinary batch (SEND_BATCH_MESSAGE; spec: semantics,
section 4.1), put together a row at a time in Python: correct, and an order of magnitude slower. A batch has one sys
flag for all its rows, so compressed bodies cannot go that way. Nor may it be larger than one message: a row that is
about as large as that is sent as one.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from zlib_ng.zlib_ng import crc32

from rmqspark.client.cluster.futures import then
from rmqspark.errors import NotSupported
from rmqspark.protocol.bulk.bulk_rows import AS_ROWS_WITH_PROPERTIES, BulkRows, brings_rows
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.names import AUTO_CREATE_TOPIC
from rmqspark.protocol.records.batch import BatchElement, encode_batch
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.records.record_builder import EncodedRecords

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.buffers.spans import Bytes

PRODUCER_GROUP = "rmqspark-sink"
STOCK_TIMEOUT_MS = 10_000
STOCK_BATCH_BYTES = 3 << 20  # below RocketMQ's maxMessageSize, which counts for a batch as a whole
_DEFAULT_TOPIC_QUEUES = 4
_WAIT = "WAIT\x01true\x02"


class BulkSend(NamedTuple):
    """Rows for one queue, as they can be sent again and again."""

    queue: MessageQueue
    parts: tuple[Bytes, ...]  # the records, ahead of them their sizes where these differ; or what stands for them
    rows: int
    record_size: int
    crc: int

    @classmethod
    def of(cls, queue: MessageQueue, bulk: EncodedRecords | BulkRows) -> BulkSend:
        return cls._of_rows(queue, bulk) if isinstance(bulk, BulkRows) else cls._of_records(queue, bulk)

    @classmethod
    def _of_rows(cls, queue: MessageQueue, rows: BulkRows) -> BulkSend:
        parts = rows.encode()
        crc = reduce(lambda so_far, part: crc32(part, so_far), parts, 0)
        return cls(queue, parts, len(rows.crcs), rows.record_size, crc)

    @classmethod
    def _of_records(cls, queue: MessageQueue, records: EncodedRecords) -> BulkSend:
        sizes = records.sizes
        if (sizes == sizes[0]).all():
            return cls(queue, (records.buffer,), len(sizes), int(sizes[0]), crc32(records.buffer))
        ahead: NDArray[np.uint8] = sizes.astype(">i4").view(np.uint8)
        return cls(queue, (ahead, records.buffer), len(sizes), 0, crc32(records.buffer, crc32(ahead)))

    @property
    def broker_name(self) -> str:
        return self.queue.broker_name

    @property
    def queues(self) -> frozenset[MessageQueue]:
        return frozenset((self.queue,))

    def __str__(self) -> str:
        return str(self.queue)

    @property
    def reusable(self) -> Bytes | None:
        """Where the records lie; the bodies of rows lie where Spark has put them."""
        return None if brings_rows(self.record_size) else self.parts[-1]

    def submit(self, broker: BrokerClient) -> Future[Any]:
        """Sends the rows; the future is done when they are stored, or raises what the broker answered."""
        able = broker.capabilities()
        if not able.bulk_send:
            return self._submit_batch(broker)
        if self.record_size == AS_ROWS_WITH_PROPERTIES and not able.takes_properties_of_rows:
            return self._as_records().submit(broker)
        topic, _, queue_id = self.queue
        views = [part.data for part in self.parts]
        return broker.bulk_send(topic, queue_id, views, self.rows, self.record_size, self.crc, group=PRODUCER_GROUP)

    def _as_records(self) -> BulkSend:
        """What an older broker of ours takes."""
        records = RecordBatch.scan(self._records())
        return self._of_records(self.queue, EncodedRecords(records.buffer, records.sizes.astype(np.int32)))

    def _submit_batch(self, broker: BrokerClient) -> Future[Any]:
        records = RecordBatch.scan(self._records())
        _check_stock(broker.name, records)
        elements = _elements(records)
        is_batch = len(elements) > 1 or len(elements[0].body) <= STOCK_BATCH_BYTES
        body = encode_batch(elements) if is_batch else elements[0].body
        properties = _WAIT if is_batch else elements[0].properties.decode("utf-8", "replace")
        header = self._stock_header(int(records.born_timestamps_ms[0]), properties, is_batch=is_batch)
        answer = broker.submit_send(header, body, timeout_ms=STOCK_TIMEOUT_MS)
        return then(answer, lambda response: response.raise_for_code())

    def _stock_header(self, born_timestamp_ms: int, properties: str, *, is_batch: bool) -> SendMessageRequestHeaderV2:
        topic, broker_name, queue_id = self.queue
        return SendMessageRequestHeaderV2(
            a=PRODUCER_GROUP,
            b=topic,
            c=AUTO_CREATE_TOPIC,
            d=_DEFAULT_TOPIC_QUEUES,
            e=queue_id,
            f=0,
            g=born_timestamp_ms,
            h=0,
            i=properties,
            j=0,
            k=False,
            m=is_batch,
            n=broker_name,
        )

    def _records(self) -> Bytes:
        if not brings_rows(self.record_size):
            return self.parts[-1]
        rows = BulkRows.decode(memoryview(b"".join(part.data for part in self.parts)), self.rows, self.record_size)
        return rows.records(self.queue.topic, self.queue.queue_id).buffer


def _check_stock(broker_name: str, records: RecordBatch) -> None:
    """Raises NotSupported for what the batches of a stock broker do not take."""
    if records.sys_flags.any():
        raise NotSupported(
            f"Broker {broker_name!r} is a stock broker, whose batches take no compressed bodies.",
            hint="Write with compression=none.",
        )


def _elements(records: RecordBatch) -> list[BatchElement]:
    raw = records.buffer.data
    columns = (records.bodies.starts, records.bodies.ends, records.properties.starts, records.properties.ends)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [BatchElement(raw[first:end], bytes(raw[named:closed])) for first, end, named, closed in rows]

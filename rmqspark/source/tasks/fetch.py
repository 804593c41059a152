"""The records of one range of a queue, in order, as batches: the loop of a reading task.

The next chunk is asked for before the current one is handed out, so that broker and task work at the same time, and
no more than two chunks are in memory. A request that fails is made again; messages that are gone are an error or a
counted gap, as failOnDataLoss says; and a broker that answers without getting on is not asked for ever.

A stock broker knows no bulk read: its queues are read by ordinary pulls, 32 messages at a time and an order of
magnitude slower.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.cluster.futures import asked, then
from rmqspark.client.cluster.pull_request import PullResult, PullStatus
from rmqspark.errors import Busy, OffsetMoved, StoreReplaced
from rmqspark.protocol.filters import TagFilter
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.source.loss import BEYOND_THE_END, DAMAGED, DELETED, REMOVED, REPLACED, TOPIC_IS_GONE, Fate, lose
from rmqspark.source.tasks.asking import Asking
from rmqspark.source.tasks.tags import matching

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.bulk import BulkChunk
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.source.queue_range import QueueRange
    from rmqspark.source.task_options import TaskOptions

CHUNK_BYTES = 4 << 20  # less costs requests and Arrow batches, more costs the broker fresh memory (docs/performance.md)
CHUNK_RECORDS = 40_000
PULL_RECORDS = 1_024  # what is asked of a stock broker; it gives 32 unless configured otherwise
PULL_GROUP = "rmqspark-source"

_log = logging.getLogger(__name__)


class Chunk(NamedTuple):
    """What one request brought: records, the offset to go on from, and how many messages before that are unreadable,
    as far as that can be told: of messages that a filter passed over nobody knows."""

    records: RecordBatch
    next_offset: int
    missing: int = 0


Request = Callable[[int], "Future[Chunk]"]


def fetch(client: ClusterClient, wanted: QueueRange, options: TaskOptions) -> Iterator[RecordBatch]:
    """The records of `wanted` that match the tags or the expression. Raises DataLoss, or what a last try raised."""
    tags = TagFilter.parse(options.tags)
    asking = Asking(client, wanted.queue.broker_name, options)
    request = _request(asking, wanted, options, is_filtered=tags is not None or options.sql is not None)
    for chunk in _Chunks(asking, wanted, options, request):
        records = chunk.records if tags is None else matching(chunk.records, tags)
        if len(records):
            yield records


class _Chunks:
    """Iterates over the chunks of a range, one request ahead."""

    def __init__(self, asking: Asking, wanted: QueueRange, options: TaskOptions, request: Request) -> None:
        self._asking = asking
        self._wanted = wanted
        self._options = options
        self._request = request

    def __iter__(self) -> Iterator[Chunk]:
        at = self._wanted.start
        ahead = asked(partial(self._request, at))
        while at < self._wanted.end:
            chunk = self._receive(ahead, at)
            at = self._next(chunk, at)
            if at < self._wanted.end:
                ahead = asked(partial(self._request, at))
            yield chunk

    def _receive(self, ahead: Future[Chunk], at: int) -> Chunk:
        """The answer; asked again where that may help; of messages that have expired, or went with their topic or
        store, where to go on."""
        try:
            return self._asking.answer(ahead, partial(self._request, at), self._wanted)
        except OffsetMoved as moved:
            next_offset = min(moved.next_offset, self._wanted.end)
            if next_offset > at:
                self._lose(at, next_offset, REMOVED)
            return Chunk(RecordBatch.scan(b""), next_offset)
        except TOPIC_IS_GONE:
            self._lose(at, self._wanted.end, DELETED)
        except StoreReplaced:
            self._lose(at, self._wanted.end, REPLACED)
        return Chunk(RecordBatch.scan(b""), self._wanted.end)

    def _next(self, chunk: Chunk, at: int) -> int:
        if chunk.next_offset <= at:
            self._lose(at, self._wanted.end, BEYOND_THE_END)
            return self._wanted.end
        if chunk.missing:
            self._lose(at, chunk.next_offset, DAMAGED, count=chunk.missing)
        return chunk.next_offset

    def _lose(self, first: int, end: int, fate: Fate, *, count: int | None = None) -> None:
        """Messages that cannot be read, all of these or `count` among them: an error, or a warning that counts them."""
        lose(self._wanted.queue, first, end, fate, tolerant=not self._options.fail_on_data_loss, count=count)


def _request(asking: Asking, wanted: QueueRange, options: TaskOptions, *, is_filtered: bool) -> Request:
    """How to ask the broker for the records at an offset."""
    broker = asking.broker
    if asking.able().reads_in_bulk(options.sql):
        return lambda at: _bulk_read(broker, wanted, options, at, is_filtered=is_filtered)
    _log.info("Broker %s is a stock broker: queue %s is read by ordinary pulls.", broker.name, wanted.queue)
    return lambda at: _pull(broker, wanted, options, at)


def _bulk_read(
    broker: BrokerClient, wanted: QueueRange, options: TaskOptions, at: int, *, is_filtered: bool
) -> Future[Chunk]:
    answer = broker.bulk_read(
        wanted.queue.topic,
        wanted.queue.queue_id,
        at,
        wanted.end,
        max_count=CHUNK_RECORDS,
        max_bytes=CHUNK_BYTES,
        tags=options.tags,
        sql=options.sql,
        topic_deleted_ms=wanted.topic_deleted_ms,
        group=options.reads_for,
    )

    def chunk(found: BulkChunk) -> Chunk:
        # Our brokers number the messages of a queue without gaps, and step over what is damaged.
        missing = 0 if is_filtered else max(0, found.next_offset - at - len(found.sizes))
        return Chunk(RecordBatch.from_sizes(found.records, found.sizes), found.next_offset, missing)

    return then(answer, chunk)


def _pull(broker: BrokerClient, wanted: QueueRange, options: TaskOptions, at: int) -> Future[Chunk]:
    answer = broker.submit_pull(
        wanted.queue,
        at,
        group=options.group or PULL_GROUP,
        max_count=min(PULL_RECORDS, wanted.end - at),
        max_bytes=CHUNK_BYTES,
        tags=options.tags or "*",
        sql=options.sql,
    )
    return then(answer, lambda pulled: _pulled(pulled, wanted, at))


def _pulled(pulled: PullResult, wanted: QueueRange, at: int) -> Chunk:
    """A pull's answer as a chunk: what lies behind the range, which a filtered pull may bring, is cut off."""
    if pulled.status is PullStatus.OFFSET_MOVED and pulled.next_offset > at:
        raise OffsetMoved(f"Offset {at} of {wanted.queue} has moved.", next_offset=pulled.next_offset)
    if pulled.status is PullStatus.NO_MATCHED and pulled.next_offset <= at:
        raise Busy(f"Offset {at} of {wanted.queue} is not on the slave that was asked: its master may have it.")
    records = RecordBatch.scan(pulled.records)
    inside = records.queue_offsets < wanted.end
    if not inside.all():
        records = RecordBatch(records.buffer, records.positions[inside], records.sizes[inside])
    return Chunk(records, min(pulled.next_offset, wanted.end))

"""Rows that a column divides among topics, sent for many queues at a time (`protocol/bulk/topic_rows.py`).

Rows of ten thousand, or of some megabytes, are few for each of a thousand topics: sent queue by queue, the sends would
cost far more than the rows. So what has no properties but its unique id, which is what most rows are, is brought
together by broker and queue once, and cut into sends between two queues.
"""

from __future__ import annotations

from functools import reduce
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from zlib_ng.zlib_ng import crc32

from rmqspark.client.cluster.bulk import TIMEOUT_MS
from rmqspark.client.cluster.futures import then
from rmqspark.errors import NotSupported
from rmqspark.protocol.bulk.topic_rows import MAX_QUEUES, TopicRun, encode_runs
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.bulk import TopicsSendRequestHeader, TopicsSendResponseHeader
from rmqspark.sink.sends.bulk_send import PRODUCER_GROUP
from rmqspark.sink.sends.dealing import evenly

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.model import MessageQueue
    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.protocol.bulk.bulk_rows import BulkRows


class QueueRows(NamedTuple):
    """Neighbouring rows, `first` up to `end`, for one queue."""

    queue: MessageQueue
    first: int
    end: int


class TopicsSend(NamedTuple):
    """Rows for many queues of one broker, as they can be sent again and again."""

    broker_name: str
    queues: frozenset[MessageQueue]
    parts: tuple[memoryview, ...]
    rows: int
    crc: int
    reusable: None = None

    @classmethod
    def of(cls, dealt: Sequence[QueueRows], rows: BulkRows) -> TopicsSend:
        """`rows` are those that are dealt, all to queues of one broker."""
        ahead = encode_runs([TopicRun(queue.topic, queue.queue_id, end - first) for queue, first, end in dealt])
        parts = (memoryview(ahead), *(part.data for part in rows.encode()))
        crc = reduce(lambda so_far, part: crc32(part, so_far), parts, 0)
        queues = frozenset(each.queue for each in dealt)
        return cls(dealt[0].queue.broker_name, queues, parts, len(rows.crcs), crc)

    def __str__(self) -> str:
        return f"{len(self.queues)} queues of {self.broker_name}"

    def submit(self, broker: BrokerClient) -> Future[Any]:
        """Sends the rows; the future is done when they are stored, or raises what the broker answered."""
        if not broker.capabilities().topics_send:
            raise NotSupported(f"Broker {self.broker_name!r} takes no rows for many queues any more.")
        header = TopicsSendRequestHeader(len(self.queues), self.rows, self.crc, PRODUCER_GROUP, broker.name)
        answer = broker.submit(RequestCode.RMQ_TOPICS_SEND, header, self.parts, timeout_ms=TIMEOUT_MS)
        return then(answer, lambda response: response.raise_for_code().header(TopicsSendResponseHeader).physicalOffset)


def shared_out(first: int, end: int, queues: Sequence[MessageQueue], turn: int, spread_over: int) -> list[QueueRows]:
    """Neighbouring rows dealt evenly over `spread_over` queues of a topic, or all, beginning with number `turn`."""
    count, pieces = end - first, min(end - first, len(queues), spread_over)
    cuts = [first + count * piece // pieces for piece in range(pieces + 1)]
    return [
        QueueRows(queues[(turn + piece) % len(queues)], low, high) for piece, (low, high) in enumerate(pairwise(cuts))
    ]


def by_broker(order: Positions, dealt: Sequence[QueueRows]) -> tuple[Positions, list[QueueRows]]:
    """The same rows with those for queues of one broker side by side, and the order that brings them there."""
    if len({rows.queue.broker_name for rows in dealt}) == 1:
        return order, [*dealt]
    dealt = sorted(dealt, key=lambda rows: rows.queue.broker_name)
    ends = accumulate(rows.end - rows.first for rows in dealt)
    moved = [QueueRows(rows.queue, end - (rows.end - rows.first), end) for rows, end in zip(dealt, ends, strict=True)]
    return np.concatenate([order[rows.first : rows.end] for rows in dealt]), moved


def full_sends(dealt: Sequence[QueueRows], sizes: Positions, max_bytes: int) -> Iterator[list[QueueRows]]:
    """Cuts rows, those for queues of one broker side by side, into sends: each for one broker, each queue in it once,
    none above `max_bytes` unless it is a single row, or for more than MAX_QUEUES."""
    held: dict[MessageQueue, QueueRows] = {}
    room, broker_name = 0, ""
    for rows, size_bytes in _none_too_large(dealt, sizes, max_bytes):
        is_full = size_bytes > room or len(held) == MAX_QUEUES
        if held and (is_full or rows.queue in held or rows.queue.broker_name != broker_name):
            yield [*held.values()]
            held = {}
        if not held:
            room, broker_name = max_bytes, rows.queue.broker_name
        held[rows.queue] = rows
        room -= size_bytes
    yield [*held.values()]


def _none_too_large(dealt: Sequence[QueueRows], sizes: Positions, max_bytes: int) -> Iterator[tuple[QueueRows, int]]:
    """The rows of each queue, in as many pieces as it takes, and the bytes of each piece."""
    totals = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    for rows in dealt:
        queue, first, end = rows
        size_bytes = int(totals[end] - totals[first])
        if size_bytes <= max_bytes:
            yield rows, size_bytes
            continue
        for low, high in evenly(sizes[first:end], max_bytes):
            yield QueueRows(queue, first + low, first + high), int(totals[first + high] - totals[first + low])

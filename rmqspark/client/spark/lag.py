"""How far a reader is behind: in messages, bytes and time, per queue and over all of them.

One pull of one message answers everything about a queue: where it begins and ends, and since when the first message
that was not read has been waiting. No request of stock brokers tells that time alone. Where that message has expired,
it is the first one that is still there, and takes another pull. Of a topic that is closed to readers the end alone is
known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqspark.client.cluster.broker_client import NO_GROUP
from rmqspark.errors import InvalidArgument, NoPermission, TopicNotFound
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.pull_request import PullResult


@dataclass(frozen=True, slots=True)
class QueueLag:
    """One queue. `waiting_since_ms` and `waiting_bytes` are the store time and size of the first message that was not
    read; None where there is none, or where it cannot be read."""

    queue: MessageQueue
    position: int
    end: int
    waiting_since_ms: int | None = None
    waiting_bytes: int | None = None

    @property
    def messages(self) -> int:
        return max(0, self.end - self.position)

    def behind_ms(self, now_ms: int) -> int | None:
        """For how long the first message that was not read has been stored; 0 where there is none."""
        if not self.messages:
            return 0
        return None if self.waiting_since_ms is None else max(0, now_ms - self.waiting_since_ms)


@dataclass(frozen=True, slots=True)
class LagFigures:
    """Over all queues, as Spark names them. None where nothing is known."""

    min_offsets: int | None = None
    max_offsets: int | None = None
    avg_offsets: float | None = None
    estimated_total_bytes: int | None = None
    max_ms: int | None = None


def look(cluster: ClusterClient, positions: Mapping[MessageQueue, int]) -> list[QueueLag]:
    """How far each queue is behind now, those left out that have gone since; all are asked before the first answer is
    awaited. Raises RmqError."""
    found = _look(cluster, positions)
    behind_expired = {queue: lag.position for queue, lag in found.items() if lag.position > positions[queue]}
    return list((found | _look(cluster, behind_expired)).values())


def _look(cluster: ClusterClient, positions: Mapping[MessageQueue, int]) -> dict[MessageQueue, QueueLag]:
    asked = [
        (queue, position, cluster.broker(queue.broker_name).submit_pull(queue, position, group=NO_GROUP, max_count=1))
        for queue, position in sorted(positions.items())
    ]
    answers = ((queue, _answer(cluster, queue, position, pull)) for queue, position, pull in asked)
    return {queue: lag for queue, lag in answers if lag is not None}


def figures(queues: Iterable[QueueLag], now_ms: int) -> LagFigures:
    """The whole of `queues`. Bytes are estimated: the messages of a queue are taken to be as large as its next one."""
    lags = list(queues)
    if not lags:
        return LagFigures()
    offsets = [lag.messages for lag in lags]
    waiting = [lag for lag in lags if lag.messages]
    times = [behind for lag in waiting if (behind := lag.behind_ms(now_ms)) is not None]
    sizes = [lag.messages * lag.waiting_bytes for lag in waiting if lag.waiting_bytes is not None]
    return LagFigures(
        min(offsets),
        max(offsets),
        sum(offsets) / len(offsets),
        None if waiting and not sizes else sum(sizes),
        None if waiting and not times else max(times, default=0),
    )


def _answer(cluster: ClusterClient, queue: MessageQueue, position: int, pull: Future[PullResult]) -> QueueLag | None:
    try:
        result = pull.result()
    except (TopicNotFound, InvalidArgument):
        return None
    except NoPermission:  # of a topic that is closed to readers: how many messages wait there can be asked all the same
        return QueueLag(queue, position, cluster.broker(queue.broker_name).max_offset(queue.topic, queue.queue_id))
    if not result.records:
        return QueueLag(queue, max(position, result.min_offset), result.max_offset)
    record = decode_record(result.records)
    return QueueLag(queue, position, result.max_offset, record.store_timestamp_ms, len(result.records))

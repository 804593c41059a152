"""Ways to read a queue, each telling a history what it was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.pulling.received import received_all
from rmqspark.errors import RmqError

from .servers import broker_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.model import MessageQueue
    from rmqspark.testing.history import History

_MOST_ROWS = 5000
_MOST_BYTES = 1 << 20
_WAIT_MS = 20


def read_by_bulk(history: History, reader: str, broker: BrokerClient, queue: MessageQueue, offset: int) -> int:
    """RMQ_BULK_READ of what is there; returns where to go on."""
    number = history.reading(reader, queue, offset)
    topic, broker_name, queue_id = queue
    try:
        chunk = broker.bulk_read(
            topic, queue_id, offset, offset + _MOST_ROWS, max_count=_MOST_ROWS, max_bytes=_MOST_BYTES
        ).result()
    except RmqError as error:
        history.not_seen(number, error)
        raise
    history.seen(number, chunk.next_offset, received_all(chunk.records, broker_name, chunk.sizes))
    return chunk.next_offset


def read_by_pull(history: History, reader: str, broker: BrokerClient, queue: MessageQueue, offset: int) -> int:
    """PULL_MESSAGE, which waits a moment in the broker where there is nothing; returns where to go on."""
    number = history.reading(reader, queue, offset)
    try:
        pulled = broker.pull(queue, offset, group=reader, suspend_ms=_WAIT_MS)
    except RmqError as error:
        history.not_seen(number, error)
        raise
    history.seen(number, pulled.next_offset, received_all(pulled.records, queue.broker_name))
    return pulled.next_offset


def scan(history: History, reader: str, namesrv: str, begins: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Reads queues to their ends while nobody sends, so that all that was acknowledged must be there; returns the
    ends."""
    ends = read_to_ends(history, reader, namesrv, begins)
    for queue, end in ends.items():
        history.scanned(reader, queue, begins[queue], end)
    return ends


def read_to_ends(
    history: History, reader: str, namesrv: str, begins: Mapping[MessageQueue, int]
) -> dict[MessageQueue, int]:
    """Reads queues as far as they go now; returns how far."""
    ends = {}
    with ClusterClient(namesrv, timeout_ms=60_000) as cluster:
        broker = broker_of(cluster)
        for queue, begin in begins.items():
            ends[queue] = end = broker.max_offset(queue.topic, queue.queue_id)
            at = begin
            while at < end:
                following = read_by_bulk(history, reader, broker, queue, at)
                assert following > at, f"{queue} ends at {end}, and nothing is read at {at}"
                at = following
    return ends


def scan_as_consumer(history: History, reader: str, namesrv: str, queues: Iterable[MessageQueue]) -> None:
    """The same with a `PullConsumer`, each queue from its beginning."""
    with PullConsumer(namesrv) as consumer:
        for queue in queues:
            end = consumer.max_offset(queue)
            consumer.assign([queue])
            consumer.seek(queue, 0)
            while (at := consumer.position(queue)) < end:
                number = history.reading(reader, queue, at)
                found = consumer.poll(60_000)
                assert found, f"{queue} ends at {end}, and nothing comes at {at}"
                history.seen(number, consumer.position(queue), found)
            history.scanned(reader, queue, 0, end)

"""Sends on their way: at most two unacknowledged for each broker, and one for each queue.

Two keep a broker busy while the next send is encoded; more would only hold memory. One for each queue keeps a queue's
rows in order, also when a send has to be made again. A send whose answer is lost may have been carried out: a bulk
send made again has its rows there twice, which is what at-least-once means; half a batch is held once.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rmqspark.client.cluster.futures import asked
from rmqspark.errors import RequestTimeout, RmqError, Unreachable
from rmqspark.sink.patience import UNDER_WAY

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.buffers.spans import Bytes
    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.records.record_builder import EncodedRecords
    from rmqspark.sink.sends.delivery import Send

UNACKNOWLEDGED = 2

_log = logging.getLogger(__name__)


class Outbox:
    """Packs records into sends and sees to it that each is acknowledged. Belongs to one task; `flush` at its end."""

    def __init__(self, client: ClusterClient, pack: Callable[[MessageQueue, EncodedRecords | BulkRows], Send]) -> None:
        self._client = client
        self._pack = pack
        self._clock = client.clock
        self._under_way: defaultdict[str, deque[tuple[Send, Future[Any]]]] = defaultdict(deque)
        self._spare: list[Bytes] = []

    def buffer(self) -> Bytes | None:
        """Memory of an acknowledged send, to encode the next one into; None while there is none."""
        return self._spare.pop() if self._spare else None

    def send(self, queue: MessageQueue, bulk: EncodedRecords | BulkRows) -> None:
        """Hands rows over, once there is room for them on the way. Raises what the last try of a send raised."""
        self.hand_over(self._pack(queue, bulk))

    def hand_over(self, send: Send) -> None:
        """The same for rows that are packed."""
        waiting = self._under_way[send.broker_name]
        while len(waiting) >= UNACKNOWLEDGED or any(not send.queues.isdisjoint(sent.queues) for sent, _ in waiting):
            self._settle(*waiting.popleft())
        waiting.append((send, self._submit(send)))

    def flush(self) -> None:
        """Waits until everything is acknowledged."""
        for waiting in self._under_way.values():
            while waiting:
                self._settle(*waiting.popleft())

    def _settle(self, send: Send, answer: Future[Any]) -> None:
        tries = UNDER_WAY.tries(self._clock)
        while (error := _failure(answer)) is not None:
            another = next(tries, None)
            if another is None:
                self._give_up(send.broker_name, error)
            _log.warning("%d rows for %s are sent again in %d ms: %s", send.rows, send, another.pause_ms, error)
            self._clock.sleep_ms(another.pause_ms)
            answer = self._submit(send)
        if send.reusable is not None:
            self._spare.append(_whole(send.reusable))

    def _give_up(self, broker_name: str, error: RmqError) -> NoReturn:
        """The task, made again in this process, can do without a broker that does not answer."""
        if isinstance(error, (Unreachable, RequestTimeout)):
            self._client.outages.add(broker_name)
        raise error

    def _submit(self, send: Send) -> Future[Any]:
        return asked(lambda: send.submit(self._client.broker(send.broker_name)))


def _failure(answer: Future[Any]) -> RmqError | None:
    """Waits; why the send has to be made again, None if it was taken. Raises what no further try would change."""
    try:
        answer.result()
    except RmqError as error:
        if not error.retriable:
            raise
        return error
    return None


def _whole(buffer: Bytes) -> Bytes:
    """The memory that a record buffer is the beginning of."""
    base = buffer.base
    return base if isinstance(base, np.ndarray) and base.dtype == np.uint8 and base.ndim == 1 else buffer

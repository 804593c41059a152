"""Where a push consumer's group keeps how far it has come: with the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rmqspark.client.futures import failing, then
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.remoting.response import Response


class Offsets(Protocol):
    """Neither call waits, or raises what went wrong: their futures do."""

    def committed(self, queue: MessageQueue) -> Future[int | None]:
        """Before which offset everything is consumed; None where nothing was ever committed."""

    def commit(self, queue: MessageQueue, queue_offset: int) -> Future[None]: ...


class GroupOffsets:
    """Those of a group whose members divide the queues: each broker has those of its own."""

    def __init__(self, cluster: ClusterClient, group: str) -> None:
        self._cluster = cluster
        self._group = group

    def committed(self, queue: MessageQueue) -> Future[int | None]:
        try:
            broker = self._cluster.broker(queue.broker_name)
            return broker.submit_query_offset(self._group, queue.topic, queue.queue_id)
        except RmqError as error:
            return failing(error)

    def commit(self, queue: MessageQueue, queue_offset: int) -> Future[None]:
        try:
            broker = self._cluster.broker(queue.broker_name)
            answer = broker.submit_commit(self._group, queue.topic, queue.queue_id, queue_offset)
        except RmqError as error:
            return failing(error)
        return then(answer, _raise_for_code)


def _raise_for_code(response: Response) -> None:
    response.raise_for_code()

"""Resets of the group that reach a query while it runs, or when it is started again (`rmq group reset`).

The broker keeps a reset until the query has it in its checkpoint, so none is lost whatever dies:

    asked     → the next offset has the queue at its new place, under a raised epoch: nothing is read across
    recorded  → Spark begins a batch at that offset: it is in the checkpoint, and the broker is told
    forgotten → the broker takes the group's commits again

A driver that dies before the broker was told is asked again, when nothing has been read from the new place yet: it
stands there, and says so.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rmqspark.client.cluster.group_reading import pending_resets
from rmqspark.client.cluster.patience import patiently

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.offsets import Offsets
    from rmqspark.source.planning.planner import Snapshot
    from rmqspark.source.retry import RetryPolicy

IDLE_LOOK_MS = 1_000  # Spark asks an idle query a hundred times a second; every batch that is planned asks


class Rewinds:
    """What one query is told to read from elsewhere. `client` is used, never closed."""

    def __init__(self, client: ClusterClient, retry: RetryPolicy) -> None:
        self._client = client
        self._retry = retry
        self._planned: tuple[dict[str, Any], Mapping[MessageQueue, int]] | None = None
        self._looked_at: dict[str, Any] | None = None
        self._looked_ms = 0

    def due(self, start: Offsets, snapshot: Snapshot, *, is_idle: bool = False) -> dict[MessageQueue, int]:
        """Queues of `start` and where the group was set to. Raises what a last try raised.

        Brokers out of sight are not asked: nothing is read of them, so that can wait until they are back. `is_idle`: no
        batch will be planned from here, so an answer that is not quite new will do.
        """
        recorded = start.to_json()
        settled = self._planned[1] if self._planned is not None and self._planned[0] == recorded else {}
        now_ms = self._client.clock.monotonic_ms()
        if is_idle and recorded == self._looked_at and now_ms - self._looked_ms < IDLE_LOOK_MS:
            return {}
        names = {queue.broker_name for queue in start.positions} & snapshot.stores.keys()
        pending = self._tell(start.group, names, settled)
        if carried_out := _carried_out(start, snapshot, pending):
            pending = self._tell(start.group, names, carried_out)
        self._planned, self._looked_at, self._looked_ms = None, recorded, now_ms
        return {queue: offset for queue, offset in pending.items() if queue in start.positions}

    def planned(self, end: Offsets, resets: Mapping[MessageQueue, int]) -> None:
        """`end` carries these resets out. Where Spark comes back with it, it is in the checkpoint."""
        if resets:
            self._planned, self._looked_at = (end.to_json(), resets), None

    def _tell(self, group: str, names: Collection[str], settled: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """What is pending once these are settled. Raises what a last try raised."""
        ask = partial(self._ask, group, names, settled)
        return patiently(ask, self._retry.beginning, self._client.clock)

    def _ask(self, group: str, names: Collection[str], settled: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """All these brokers, the requests on their way before the first answer is awaited."""
        brokers = [self._client.broker(name) for name in sorted(names)]
        answers = [
            pending_resets(broker, group, {q: at for q, at in settled.items() if q.broker_name == broker.name})
            for broker in brokers
            if broker.capabilities().groups
        ]
        return {queue: offset for answer in answers for queue, offset in answer.result().items()}


def _carried_out(start: Offsets, snapshot: Snapshot, pending: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Those that an earlier run has brought into the checkpoint, and did not live to say so, as none does with
    Trigger.Once. Of a member of a shared group it is not known yet whether these queues are its own."""
    if start.member:
        return {}
    return {
        queue: at
        for queue, at in pending.items()
        if start.positions.get(queue) == at and start.store_of(queue) == snapshot.store_of(queue)
    }

"""One request ahead: sent now, its answer taken when it is needed, and made again where that may help. An answer counts
if it is of the store that is meant: that of a broker may have been replaced since the batch was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rmqspark.client.cluster.futures import asked
from rmqspark.client.cluster.patience import patiently
from rmqspark.errors import OffsetMoved, StoreReplaced
from rmqspark.source.loss import TOPIC_IS_GONE

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from rmqspark.client.cluster.capabilities import Capabilities
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.source.queue_range import QueueRange
    from rmqspark.source.task_options import TaskOptions

A = TypeVar("A")


class Asking:
    """What a task asks of one broker."""

    def __init__(self, client: ClusterClient, broker_name: str, options: TaskOptions) -> None:
        self.broker = client.broker(broker_name)
        self._patience = options.retry.under_way
        self._clock = client.clock

    def able(self) -> Capabilities:
        """What the broker can do. Raises what a last try raised."""
        return patiently(self.broker.capabilities, self._patience, self._clock)

    def answer(self, ahead: Future[A], request: Callable[[], Future[A]], wanted: QueueRange) -> A:
        """What the request for this range that was sent comes back with, or one made again. Raises what the last one
        did, and StoreReplaced."""
        pending = [ahead]
        try:
            found = patiently(
                lambda: (pending.pop() if pending else asked(request)).result(), self._patience, self._clock
            )
        except (OffsetMoved, *TOPIC_IS_GONE):
            self._require_store_of(wanted)
            raise
        self._require_store_of(wanted)
        return found

    def _require_store_of(self, wanted: QueueRange) -> None:
        """Asked once it has answered: whoever that was is still there, or has gone since with his store."""
        if wanted.store_id and self.able().store_id != wanted.store_id:
            raise StoreReplaced(f"Broker {self.broker.name!r} serves another store than {wanted.store_id}.")

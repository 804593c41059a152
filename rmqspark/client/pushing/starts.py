"""Where a group is in queues that a member begins with. Asks brokers, all before the first answer, and waits.

The start of a queue of which nothing was committed is committed before anything is read: what is "latest" to a consumer
that dies with its first message in hand would otherwise be behind that message to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.cluster.futures import after, at_hand, failing, then
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.pushing.offsets import Offsets
    from rmqspark.client.pushing.subscription import ConsumeFrom, Place, Subscription
    from rmqspark.message_queue import MessageQueue


class Starts(NamedTuple):
    """Of one group."""

    cluster: ClusterClient
    offsets: Offsets
    consume_from: ConsumeFrom

    def of(
        self,
        queues: Iterable[MessageQueue],
        subscriptions: Mapping[str, Subscription],
        is_later: Callable[[MessageQueue], bool],
    ) -> dict[MessageQueue, int | RmqError]:
        """Where each begins, or what kept its broker from telling."""

        def place(queue: MessageQueue) -> Place:
            subscription = subscriptions.get(queue.topic)
            since_ms = subscription.since_ms if subscription else self.cluster.clock.now_ms()
            return self.consume_from.place(queue, since_ms, is_later=is_later(queue))

        asked = {queue: self._start(queue, place(queue)) for queue in queues}
        starts: dict[MessageQueue, int | RmqError] = {}
        for queue, answer in asked.items():
            try:
                starts[queue] = answer.result()
            except RmqError as error:
                starts[queue] = error
        self.offsets.flush()
        return starts

    def _start(self, queue: MessageQueue, place: Place) -> Future[int]:
        def begin(committed: int | None) -> Future[int]:
            if committed is not None:
                return at_hand(committed)
            return after(self._offset(queue, place), lambda offset: self._commit(queue, offset))

        return after(self.offsets.committed(queue), begin)

    def _commit(self, queue: MessageQueue, offset: int) -> Future[int]:
        return then(self.offsets.commit(queue, offset), lambda _: offset)

    def _offset(self, queue: MessageQueue, place: Place) -> Future[int]:
        try:
            broker = self.cluster.broker(queue.broker_name)
            if place == "earliest":
                return broker.submit_min_offset(queue.topic, queue.queue_id)
            if place == "latest":
                return broker.submit_max_offset(queue.topic, queue.queue_id)
            return broker.submit_offset_by_time(queue.topic, queue.queue_id, place)
        except RmqError as error:
            return failing(error)

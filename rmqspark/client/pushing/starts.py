"""Where a group is in queues that a member begins with. Asks brokers, all before the first answer, and waits.

The start of a queue of which nothing was committed is committed before anything is read: what is "latest" to a consumer
that dies with its first message in hand would otherwise be behind that message to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rmqspark.client.cluster.broker_client import NO_GROUP
from rmqspark.client.cluster.futures import after, asked, then
from rmqspark.errors import RmqError
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.pull_request import PullResult
    from rmqspark.client.pushing.offsets import Offsets
    from rmqspark.client.pushing.subscription import ConsumeFrom, Place, Subscription
    from rmqspark.message_queue import MessageQueue

T = TypeVar("T")


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
        committed = self._committed(queues)
        starts = {queue: offset for queue, offset in committed.items() if offset is not None}
        new = [queue for queue, offset in committed.items() if offset is None]
        topics = {queue.topic for queue in new if self.consume_from.goes_on(queue)}
        consumed_ms = {topic: self._consumed_ms(topic) for topic in topics}

        def place(queue: MessageQueue) -> Place:
            subscription = subscriptions.get(queue.topic)
            since_ms = subscription.since_ms if subscription else self.cluster.clock.now_ms()
            return self.consume_from.place(
                queue, since_ms, is_later=is_later(queue), consumed_ms=consumed_ms.get(queue.topic)
            )

        begun = _outcomes({queue: self._begin(queue, place(queue)) for queue in new})
        self.offsets.flush()
        return starts | begun

    def _committed(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | RmqError | None]:
        return _outcomes({queue: self.offsets.committed(queue) for queue in queues})

    def _consumed_ms(self, topic: str) -> int | None:
        """When the newest message of a topic was stored that the group has consumed, as far as brokers tell; None where
        there is none."""
        try:
            queues = self.cluster.route(topic).subscribe_queues
        except RmqError:
            return None
        last = {
            queue: offset - 1
            for queue, offset in self._committed(queues).items()
            if isinstance(offset, int) and offset > 0
        }
        times = _outcomes({queue: self._stored_ms(queue, offset) for queue, offset in last.items()})
        return max((time for time in times.values() if isinstance(time, int)), default=None)

    def _stored_ms(self, queue: MessageQueue, offset: int) -> Future[int | None]:
        """None where the message has expired. In nobody's name: a pull of the group's would be told of a reset."""

        def pull() -> Future[int | None]:
            pulled = self.cluster.broker(queue.broker_name).submit_pull(queue, offset, group=NO_GROUP, max_count=1)
            return then(pulled, _first_stored_ms)

        return asked(pull)

    def _begin(self, queue: MessageQueue, place: Place) -> Future[int]:
        return after(asked(lambda: self._offset(queue, place)), lambda offset: self._commit(queue, offset))

    def _commit(self, queue: MessageQueue, offset: int) -> Future[int]:
        return then(self.offsets.commit(queue, offset), lambda _: offset)

    def _offset(self, queue: MessageQueue, place: Place) -> Future[int]:
        broker = self.cluster.broker(queue.broker_name)
        if place == "earliest":
            return broker.submit_min_offset(queue.topic, queue.queue_id)
        if place == "latest":
            return broker.submit_max_offset(queue.topic, queue.queue_id)
        return broker.submit_offset_by_time(queue.topic, queue.queue_id, place)


def _outcomes(answers: Mapping[MessageQueue, Future[T]]) -> dict[MessageQueue, T | RmqError]:
    """What each came to, or what went wrong."""
    outcomes: dict[MessageQueue, T | RmqError] = {}
    for queue, answer in answers.items():
        try:
            outcomes[queue] = answer.result()
        except RmqError as error:
            outcomes[queue] = error
    return outcomes


def _first_stored_ms(found: PullResult) -> int | None:
    return decode_record(found.records).store_timestamp_ms if found.records else None

"""How far groups are in the queues of a topic: what store, offset table and registry know of it, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.admin import ConsumeStats, OffsetWrapper, QueueTimeSpan
from rmqspark.protocol.bodies.client import Queue

if TYPE_CHECKING:
    from rmqspark.broker.clients import ClientRegistry
    from rmqspark.broker.consumption import ConsumptionRates
    from rmqspark.broker.state.offsets import ConsumerOffsets
    from rmqspark.clock import Clock
    from rmqspark.store.message_store import MessageStore


class Progress:
    """Of one broker. RocketMQ: AdminBrokerProcessor, in several places."""

    def __init__(
        self,
        broker_name: str,
        store: MessageStore,
        offsets: ConsumerOffsets,
        clients: ClientRegistry,
        rates: ConsumptionRates,
        clock: Clock,
    ) -> None:
        self._broker_name = broker_name
        self._queues = store.queues
        self._offsets = offsets
        self._clients = clients
        self._rates = rates
        self._clock = clock

    def queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._broker_name, queue_id)

    def of(self, group: str, topic: str, queues: range) -> ConsumeStats:
        """In these queues, and how fast it is there."""
        per_second = self._rates.per_second(group, topic, self._clock.monotonic_ms())
        table = {self.queue(topic, queue_id): self._of_queue(group, topic, queue_id) for queue_id in queues}
        return ConsumeStats(table, per_second)

    def time_span(self, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
        """Who consumed nothing is where the queue begins."""
        queues, (low, high) = self._queues, self._queues.bounds(topic, queue_id)
        first_ms = queues.store_time_at(topic, queue_id, low)
        committed = self._offsets.committed(group, topic, queue_id) or 0
        waiting = max(low, committed)
        waiting_since_ms = queues.store_time_at(topic, queue_id, waiting) if waiting < high else -1
        return QueueTimeSpan(
            messageQueue=Queue(topic, self._broker_name, queue_id),
            minTimeStamp=first_ms,
            maxTimeStamp=queues.store_time_at(topic, queue_id, high - 1),
            consumeTimeStamp=queues.store_time_at(topic, queue_id, committed - 1) if committed > 0 else first_ms,
            delayTime=max(0, self._clock.now_ms() - waiting_since_ms) if waiting_since_ms >= 0 else 0,
        )

    def goes_on(self, group: str, topic: str) -> bool:
        """False while the group is online and subscribes to other topics only."""
        online = self._clients.consumer_group(group)
        return online is None or not online.subscriptions or topic in online.subscriptions

    def _of_queue(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        committed = max(0, self._offsets.committed(group, topic, queue_id) or 0)
        pulled = self._offsets.pull_offset(group, topic, queue_id) or 0
        last_ms = self._queues.store_time_at(topic, queue_id, committed - 1) if committed else 0
        return OffsetWrapper(
            brokerOffset=self._queues.max_offset(topic, queue_id),
            consumerOffset=committed,
            pullOffset=max(committed, pulled),
            lastTimestamp=max(0, last_ms),
        )

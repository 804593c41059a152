"""The topics a task writes to, and their queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.patience import patiently
from rmqspark.errors import NoPermission, NotSupported, TopicNotFound
from rmqspark.protocol.names import check_sendable
from rmqspark.sink.bulk_send import STOCK_BATCH_BYTES
from rmqspark.sink.outbox import RETRY_PAUSES_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqspark.client.capabilities import Capabilities
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.sink.options import SinkOptions


class Targets:
    """Looks each topic up once per task, creating it if the options say so."""

    def __init__(self, client: ClusterClient, options: SinkOptions) -> None:
        self._client = client
        self._options = options
        self._queues: dict[str, list[MessageQueue]] = {}
        self._turns: dict[str, int] = {}
        self._looked_up: set[str] = set()

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of `topic` that may be written to, by broker name and id. Raises TopicNotFound, NoPermission …"""
        if topic not in self._queues:
            self.look_up((topic,))
            self._queues[topic] = self._find(topic)
        return self._queues[topic]

    def look_up(self, topics: Sequence[str]) -> None:
        """Asks for those of these topics that are new, all together. The worker may know them from a task before;
        queues may have been added since. Raises what is wrong with the name of one."""
        new = [check_sendable(topic) for topic in topics if topic not in self._looked_up]
        for topic in new:
            self._client.expire_route(topic)
        self._client.look_up(new)
        self._looked_up.update(new)

    def max_bytes(self, topic: str) -> int:
        """How large a send to `topic` may be: stock brokers take batches up to the size of one message only."""
        if all(self._able(name).bulk_send for name in self._broker_names([topic])):
            return self._options.batch_bytes
        return min(self._options.batch_bytes, STOCK_BATCH_BYTES)

    def take_topics(self, topics: Iterable[str]) -> bool:
        """Whether all brokers of these topics take rows for many queues at once."""
        return all(self._able(name).topics_send for name in self._broker_names(topics))

    def require_delays(self, topic: str) -> None:
        """Raises NotSupported unless rows for this topic can wait, on all of its brokers."""
        for name in self._broker_names([topic]):
            able = self._able(name)
            if not able.delays:
                kind = f"is {able.product}" if able.bulk_send else "is a stock broker"
                raise NotSupported(
                    f"Broker {name!r} {kind}, whose batches take no delays.",
                    hint="Leave out delayLevel and deliverTime, or send such messages with a Producer.",
                )

    def has_begun(self, topic: str) -> bool:
        """Whether queues of `topic` had their turn in this task."""
        return topic in self._turns

    def turn(self, topic: str) -> int:
        """Whose turn it is among the queues of `topic`. Tasks begin anywhere, so that they do not march in step."""
        if topic not in self._turns:
            self._turns[topic] = self._client.entropy.below(1 << 16)
        return self._turns[topic]

    def took_turns(self, topic: str, count: int) -> None:
        self._turns[topic] = self.turn(topic) + count

    def _broker_names(self, topics: Iterable[str]) -> list[str]:
        return sorted({queue.broker_name for topic in topics for queue in self.queues(topic)})

    def _able(self, broker_name: str) -> Capabilities:
        broker = self._client.broker(broker_name)
        return patiently(broker.capabilities, RETRY_PAUSES_MS, self._client.clock.sleep_ms)

    def _find(self, topic: str) -> list[MessageQueue]:
        try:
            queues = patiently(lambda: self._client.publish_queues(topic), RETRY_PAUSES_MS, self._client.clock.sleep_ms)
        except TopicNotFound as missing:
            if not self._options.auto_create_topic:
                missing.hint = f"Create it with: rmq topic create {topic}, or write with autoCreateTopic=true."
                raise
            queues = self._create(topic)
        if not queues:
            raise NoPermission(f"Topic {topic!r} has no queue that may be written to.")
        return queues

    def _create(self, topic: str) -> list[MessageQueue]:
        """On all brokers. Tasks may meet here; a topic that another one has just made is fine."""
        from rmqspark.client.admin_topics import create_topic, topic_config  # few tasks ever make one

        queues = self._options.queues
        config = topic_config(topic, read_queues=queues, write_queues=queues, perm="rw", message_type="normal")
        create_topic(self._client, config, None, exist_ok=True)
        return self._client.publish_queues(topic)

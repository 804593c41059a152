"""What the tests of push consumers share: listeners that take notes, and questions about their groups."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from rmqspark import AdminClient, Message, MessageQueue, Producer, PullConsumer, PushConsumer, ReceivedMessage
from rmqspark.client.pushing.config import PushConfig

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 30  # less than the minute after which a lock that nobody gave up ends by itself
QUICK = PushConfig(rebalance_interval=500, persist_consumer_offset_interval=100, suspend_current_queue_time_millis=50)


class Listener:
    """Notes every message, and then does with it what `act` says."""

    def __init__(self, act: Callable[[ReceivedMessage], object] = lambda message: None) -> None:
        self._act = act
        self._noted = threading.Condition()
        self.messages: list[ReceivedMessage] = []

    def __call__(self, message: ReceivedMessage) -> None:
        with self._noted:
            self.messages.append(message)
            self._noted.notify_all()
        self._act(message)

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]

    def wait(self, count: int) -> list[str]:
        """The bodies of all messages once there are so many."""
        with self._noted:
            assert self._noted.wait_for(lambda: len(self.messages) >= count, PATIENCE_S), self.bodies
            return self.bodies


def wait_until(holds: Callable[[], Any], what: str) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE_S * 100):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError(f"waited in vain until {what}")


def fail(message: ReceivedMessage) -> None:
    raise RuntimeError(f"no {message.body.decode()} today")


def send(producer: Producer, topic: str, count: int, *, first: int = 0, queues: int = 4) -> list[str]:
    """Numbers, to the queues in turn."""
    for number in range(first, first + count):
        producer.send(Message(topic, b"%d" % number), queue=number % queues)
    return [str(number) for number in range(first, first + count)]


def committed(namesrv: str, group: str, topic: str) -> dict[MessageQueue, int | None]:
    with PullConsumer(namesrv, group) as consumer:
        return {queue: consumer.committed(queue) for queue in consumer.queues(topic)}


def of_topic(consumer: PushConsumer, topic: str) -> list[MessageQueue]:
    return [queue for queue in consumer.assignment if queue.topic == topic]


def read(namesrv: str, topic: str, count: int) -> list[ReceivedMessage]:
    """The first messages of a topic, once it is there and has so many."""
    with AdminClient(namesrv) as admin:
        wait_until(lambda: topic in admin.topics(), f"{topic} is there")
    with PullConsumer(namesrv) as consumer:
        consumer.assign(consumer.queues(topic))
        found: list[ReceivedMessage] = []
        while len(found) < count:
            found += consumer.poll(timeout_ms=1000)
    return found

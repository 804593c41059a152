"""A client that does nothing wrong beside those that do: it must not notice them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.model import Message

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

TOPIC: Final = "canary"
_QUEUES: Final = 2


class Canary:
    """Sends and reads, and knows what must be in the store: what it sends, behind `song`."""

    def __init__(self, namesrv: str, song: Iterable[bytes] = ()) -> None:
        self._namesrv = namesrv
        self._sent = list(song)
        with AdminClient(namesrv) as admin:
            admin.create_topic(TOPIC, _QUEUES, exist_ok=True)
        self._producer = Producer(namesrv, "canary-producer")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.close()

    def sing(self) -> None:
        """Sends one message, which must be stored at the first try."""
        body = b"note %d" % len(self._sent)
        self._producer.send(Message(TOPIC, body))
        self._sent.append(body)

    def check(self) -> int:
        """Reads the topic from its beginning: everything sent is there, and nothing else. How many messages."""
        check_song(self._namesrv, self._sent)
        return len(self._sent)

    @property
    def song(self) -> list[bytes]:
        """What was sent."""
        return list(self._sent)


def check_song(namesrv: str, sent: list[bytes]) -> None:
    """Reads the canary's topic; raises AssertionError unless it holds just these bodies."""
    with AdminClient(namesrv) as admin, PullConsumer(namesrv, "canary-reader") as consumer:
        ends = {queue.queue: queue.max_offset for queue in admin.topic(TOPIC).queues}
        consumer.assign(ends)
        consumer.seek_to_beginning()
        bodies: list[bytes] = []
        while any(consumer.position(queue) < end for queue, end in ends.items()):
            bodies += [message.body for message in consumer.poll(1_000)]
    if sorted(bodies) != sorted(sent):
        raise AssertionError(f"{len(bodies)} messages are there, {len(sent)} were sent; or they differ.")

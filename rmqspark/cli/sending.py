"""Many messages to brokers, with receipts in their order."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from rmqspark.model import Message, SendReceipt

_IN_FLIGHT = 512


class Addressed(NamedTuple):
    """A message, and where it is to go: to a queue by its id, to the queue of a shard, or to all in turn."""

    message: Message
    queue: int | None = None
    shard: str | None = None


def send_all(messages: Iterable[Addressed], namesrv: str | None) -> Iterator[SendReceipt]:
    """Many in flight, receipts in the order of the messages; also of those on their way when another one failed."""
    from rmqspark.cli.progress import counting
    from rmqspark.client.producer import Producer

    waiting: deque[Future[SendReceipt]] = deque()
    with Producer(namesrv, group="rmq-cli") as producer:
        try:
            for message, queue, shard in counting(messages, "sent"):
                waiting.append(producer.send_async(message, queue=queue, shard=shard))
                while waiting and (waiting[0].done() or len(waiting) >= _IN_FLIGHT):
                    yield waiting.popleft().result()
        except (RmqError, OSError, KeyboardInterrupt):  # the second of whoever reads them
            yield from _stored(waiting)
            raise
        while waiting:
            yield waiting.popleft().result()


def _stored(waiting: Iterable[Future[SendReceipt]]) -> Iterator[SendReceipt]:
    for future in waiting:
        with suppress(RmqError):
            yield future.result()

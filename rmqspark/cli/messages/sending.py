"""Many messages to brokers, with receipts in their order."""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.cli.messages.places import naming
from rmqspark.cli.terminal.output import complain
from rmqspark.errors import DecodeError, InvalidArgument, RmqError
from rmqspark.model import SendStatus
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from rmqspark.model import Message, SendReceipt

_IN_FLIGHT = 512


class Addressed(NamedTuple):
    """A message, and where it is to go: to a queue by its id, to the queue of a shard, or to all in turn; and the
    place it comes from, where that is worth a word: a row of a file."""

    message: Message
    queue: int | None = None
    shard: str | None = None
    place: str = ""


class _UnderWay(NamedTuple):
    """A message that was handed over, and where it comes from."""

    future: Future[SendReceipt]
    place: str

    def receipt(self) -> SendReceipt:
        with naming(self.place):
            return self.future.result()


def send_all(messages: Iterable[Addressed], namesrv: str | None) -> Iterator[SendReceipt]:
    """Many in flight, receipts in the order of the messages; also of all that are stored when another one failed, or
    when this is interrupted. An error names the place of its message; none is a wrong command line, which has done
    nothing, once a message is stored. How many are stored, and not as safely as their broker is set to, is told on
    standard error."""
    less_safe: Counter[str] = Counter()
    has_stored = False
    try:
        for receipt in _receipts(messages, namesrv):
            has_stored = True
            if receipt.status is not SendStatus.OK:
                less_safe[receipt.status.value] += 1
            yield receipt
    except InvalidArgument as error:
        raise DecodeError(error.message, hint=error.hint) if has_stored else error from None
    finally:
        for status, count in less_safe.items():
            complain(f"{counted(count, 'message')} stored, but not as safely as the broker is set to: {status}.")


def _receipts(messages: Iterable[Addressed], namesrv: str | None) -> Iterator[SendReceipt]:
    from rmqspark.cli.terminal.progress import counting
    from rmqspark.client.producer import Producer

    waiting: deque[_UnderWay] = deque()
    with Producer(namesrv, group="rmq-cli") as producer, counting(messages, "sent") as counted_messages:
        try:
            for message, queue, shard, place in counted_messages:
                with naming(place):
                    waiting.append(_UnderWay(producer.send_async(message, queue=queue, shard=shard), place))
                while waiting and (waiting[0].future.done() or len(waiting) >= _IN_FLIGHT):
                    yield _oldest(waiting)
            while waiting:
                yield _oldest(waiting)
        except (RmqError, OSError, KeyboardInterrupt, SystemExit):  # OSError of whoever reads them
            yield from _stored(waiting)
            raise


def _oldest(waiting: deque[_UnderWay]) -> SendReceipt:
    """Which stays there for who is interrupted, or for who looks for those that are stored."""
    receipt = waiting[0].receipt()
    waiting.popleft()
    return receipt


def _stored(waiting: Iterable[_UnderWay]) -> Iterator[SendReceipt]:
    for each in waiting:
        with suppress(RmqError):
            yield each.future.result()

"""What becomes of messages when a listener is called with them: consumed if it returns, else given back or left.

A message that failed comes again later, to whoever has the queue of the retry topic; only where no broker takes it back
it is left with this consumer. Where queues are consumed in order it is always left, and holds up those behind it, until
it has failed too often. RocketMQ: ConsumeMessageConcurrentlyService, ConsumeMessageOrderlyService; spec: semantics,
sections 8.8 and 8.9.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from rmqspark.client.pushing.complaints import Complaints, story
from rmqspark.client.pushing.instant import Instant
from rmqspark.protocol.records.properties import Property

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.client.pushing.process_queue import Batch
    from rmqspark.clock import Clock
    from rmqspark.model import ReceivedMessage

LEFT_FOR_MS: Final = 5_000  # what no broker took back

_log = logging.getLogger(__name__)


class Ways(Protocol):
    """Where failed messages go; `SendBacks` has them."""

    def give_back(self, message: ReceivedMessage) -> None: ...
    def send(self, message: ReceivedMessage) -> None: ...


class Outcome(NamedTuple):
    """What of a batch is still to be consumed, and after which time; and whether the listener raised anything."""

    left: Sequence[ReceivedMessage] = ()
    delay_ms: int = 0
    failed: bool = False


class Listening:
    """Calls a listener from many threads. `call` gets the messages of one batch."""

    def __init__(self, call: Callable[[list[ReceivedMessage]], Any], failed: Callable[[Batch], Outcome]) -> None:
        self._call = call
        self._failed = failed
        self._complaints = Complaints()

    def consume(self, batch: Batch) -> Outcome:
        """Raises nothing that the listener raises: it is logged, and its messages have failed. It has a list of its
        own: whatever it takes out of that, all of the batch is consumed or comes again."""
        try:
            self._call(list(batch.messages))
        except BaseException as error:  # noqa: BLE001 - a user's code, sys.exit() in it too: logged, and consumed again
            self._complaints.failed(batch, error)
            return self._failed(batch)
        self._complaints.passed(batch)
        return Outcome()


def give_back(ways: Ways) -> Callable[[Batch], Outcome]:
    """Of consumers without order: a failed message comes again from a broker; if none takes it, from here. What was
    given back already, since it took too long, is not once more."""

    def failed(batch: Batch) -> Outcome:
        ours = [each for each in batch.messages if batch.of.holds(each)]
        return Outcome([_again(each) for each in ours if not _is_away(ways.give_back, each)], LEFT_FOR_MS, True)

    return failed


def hold_up(ways: Ways, max_times: int, pause_ms: int) -> Callable[[Batch], Outcome]:
    """Of consumers in order: a failed message is tried again after a pause, and `max_times` again is enough."""

    def failed(batch: Batch) -> Outcome:
        left = [each for each in batch.messages if each.reconsume_times < max_times or not _is_away(ways.send, each)]
        return Outcome([_again(each) for each in left], pause_ms, True)

    return failed


def pass_by(batch: Batch) -> Outcome:
    """Of consumers that all get all: nobody could have it sent to himself alone, so it is over, as in RocketMQ."""
    _log.warning("No other try is made at %s: this consumer broadcasts", ", ".join(map(story, batch.messages)))
    return Outcome(failed=True)


class Locked(NamedTuple):
    """Consumes only while this consumer has the queue for itself."""

    listening: Listening
    clock: Clock

    def consume(self, batch: Batch) -> Outcome | None:
        """None where it comes too late for that: the listener is not called."""
        if batch.of.locked_until.is_past(Instant.now(self.clock)):
            return None
        return self.listening.consume(batch)


def as_sent(message: ReceivedMessage, retry_topic: str) -> ReceivedMessage:
    """The message under the topic to which it was sent, where it comes from its group's retry topic."""
    if message.topic != retry_topic:
        return message
    topic = message.properties.get(Property.RETRY_TOPIC, retry_topic)
    return msgspec.structs.replace(message, topic=topic)


def _again(message: ReceivedMessage) -> ReceivedMessage:
    return msgspec.structs.replace(message, reconsume_times=message.reconsume_times + 1)


def _is_away(way: Callable[[ReceivedMessage], None], message: ReceivedMessage) -> bool:
    try:
        way(message)
    except Exception as error:  # noqa: BLE001 - whatever it is, the message is kept, and tried again from here
        _log.warning("No broker takes back %s, it is tried again here: %s", story(message), error)
        return False
    return True

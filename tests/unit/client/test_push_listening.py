"""What becomes of messages when a listener fails, whatever it raises and whoever takes them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.pushing.instant import Instant
from rmqspark.client.pushing.listening import (
    LEFT_FOR_MS,
    Listening,
    Locked,
    Outcome,
    as_sent,
    give_back,
    hold_up,
    pass_by,
)
from rmqspark.client.pushing.process_queue import Batch, ProcessQueue
from rmqspark.client.pushing.send_backs import returned_properties
from rmqspark.errors import Unreachable
from rmqspark.model import MessageQueue, ReceivedMessage
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

QUEUE = MessageQueue("orders", "broker-a", 0)
RETRY = "%RETRY%billing"


def message(queue_offset: int, reconsume_times: int = 0, topic: str = "orders", **properties: str) -> ReceivedMessage:
    return ReceivedMessage(topic, b"x", None, (), properties, f"id-{queue_offset}", QUEUE, queue_offset, 0, 0,
                           reconsume_times, 0, "offset-id")  # fmt: skip


def batch(*messages: ReceivedMessage) -> Batch:
    held = ProcessQueue(QUEUE, 0)
    held.arrived(messages, 100)
    taken = held.take(100)
    assert taken is not None
    return taken


class Ways:
    """Takes back all but some messages, by their offsets, and notes in which way."""

    def __init__(self, *refused: int) -> None:
        self._refused = refused
        self.taken: list[tuple[str, int]] = []

    def give_back(self, message: ReceivedMessage) -> None:
        self._take("given back", message)

    def send(self, message: ReceivedMessage) -> None:
        self._take("sent", message)

    def _take(self, way: str, message: ReceivedMessage) -> None:
        if message.queue_offset in self._refused:
            raise Unreachable("Nobody is there.", address="nowhere")
        self.taken.append((way, message.queue_offset))


def fail(messages: Sequence[ReceivedMessage]) -> None:
    raise SystemExit(1)


def left(outcome: Outcome) -> list[tuple[int, int]]:
    return [(each.queue_offset, each.reconsume_times) for each in outcome.left]


def test_what_a_listener_returns_from_is_consumed() -> None:
    ways = Ways()
    heard: list[ReceivedMessage] = []
    assert Listening(heard.extend, give_back(ways)).consume(batch(message(0), message(1))) == Outcome()
    assert [each.queue_offset for each in heard] == [0, 1]
    assert ways.taken == []


def test_what_a_listener_does_to_its_list_is_its_own_affair() -> None:
    """One that takes messages out of it has consumed them, or failed at them, all the same."""

    def take_out(messages: list[ReceivedMessage]) -> None:
        while messages:
            messages.pop()

    def take_out_and_fail(messages: list[ReceivedMessage]) -> None:
        take_out(messages)
        raise ValueError

    ways = Ways()
    taken = batch(message(0), message(1))
    assert Listening(take_out, give_back(ways)).consume(taken) == Outcome()
    taken.of.finish(taken)
    assert (taken.of.commit_offset, len(taken.of)) == (100, 0)
    Listening(take_out_and_fail, give_back(ways)).consume(batch(message(0), message(1)))
    assert ways.taken == [("given back", 0), ("given back", 1)]


def test_a_failed_batch_is_given_back(caplog: pytest.LogCaptureFixture) -> None:
    """As far as brokers take it; the rest is tried again here, later. Not even sys.exit() ends a thread."""
    ways = Ways(1)
    outcome = Listening(fail, give_back(ways)).consume(batch(message(0), message(1, 4), message(2)))
    assert ways.taken == [("given back", 0), ("given back", 2)]
    assert (left(outcome), outcome.delay_ms) == ([(1, 5)], LEFT_FOR_MS)
    assert "orders orders/broker-a/0 offset 1 (id-1)" in caplog.text


def test_in_order_a_failed_batch_is_held_up_until_it_has_failed_too_often() -> None:
    """Then it is sent away; what cannot be is held up on."""
    ways = Ways(2)
    failing = Listening(fail, hold_up(ways, 3, 1_000))
    outcome = failing.consume(batch(message(0, 2), message(1, 3), message(2, 3)))
    assert ways.taken == [("sent", 1)]
    assert (left(outcome), outcome.delay_ms) == ([(0, 3), (2, 4)], 1_000)
    assert left(failing.consume(batch(message(1, 3)))) == []


def test_without_its_lock_a_batch_is_left_as_it_is() -> None:
    """The listener does not even see it, and it counts neither as a try nor as consumed."""
    clock, heard = ManualClock(), []
    locked = Locked(Listening(heard.extend, pass_by), clock)
    taken = batch(message(0))
    assert locked.consume(taken) is None
    taken.of.locked_until = Instant.now(clock).later(30_000)
    assert locked.consume(taken) == Outcome()
    clock.advance(ms=30_000)
    assert locked.consume(taken) is None
    assert len(heard) == 1


def test_who_broadcasts_passes_failures_by() -> None:
    assert Listening(fail, pass_by).consume(batch(message(0))) == Outcome(failed=True)


def test_a_message_that_comes_again_has_the_topic_it_was_sent_to() -> None:
    """Only what comes from the retry topic of its own group: another's is a topic like others."""
    again = message(0, 1, RETRY, RETRY_TOPIC="orders")
    assert as_sent(again, RETRY).topic == "orders"
    assert as_sent(again, "%RETRY%others") is again
    assert as_sent(message(0, RETRY_TOPIC="elsewhere"), RETRY).topic == "orders"


def test_what_is_sent_to_come_again_says_where_it_came_from() -> None:
    """The first return says it for all later ones; a transaction that is over is nobody's to check."""
    first = returned_properties(message(0, TRAN_MSG="true", a="b", DELAY="7"))
    assert first == {"a": "b", "DELAY": "3", "ORIGIN_MESSAGE_ID": "offset-id", "RETRY_TOPIC": "orders"}
    later = returned_properties(message(0, 2, ORIGIN_MESSAGE_ID="the-first"))
    assert (later["ORIGIN_MESSAGE_ID"], later["DELAY"]) == ("the-first", "5")


def test_a_message_that_fails_over_and_over_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A traceback the first time, then a line at the 2nd, 4th and 8th; another failure is another story."""
    kinds: list[type[Exception]] = [RuntimeError]

    def call(messages: Sequence[ReceivedMessage]) -> None:
        if messages[0].queue_offset != 7:
            raise kinds[0](f"no {messages[0].queue_offset} today")

    failing = Listening(call, hold_up(Ways(), 100, 1_000))

    def told(queue_offset: int) -> list[str]:
        caplog.clear()
        failing.consume(batch(message(queue_offset)))
        return ["traceback" if each.exc_info else each.message for each in caplog.records]

    lines = [told(0) for _ in range(8)]
    assert [bool(each) for each in lines] == [True, True, False, True, False, False, False, True]
    assert lines[0] == ["traceback"]
    assert lines[3] == [
        "The listener has failed 4 times at orders orders/broker-a/0 offset 0 (id-0): RuntimeError: no 0 today"
    ]
    kinds[0] = KeyError
    assert told(0) == ["traceback"]
    assert told(1) == ["traceback"]
    assert told(7) == []
    assert told(1) == ["traceback"]

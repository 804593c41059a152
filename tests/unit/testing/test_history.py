"""The history checker: what must hold passes, and each law has histories that break it and are caught."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from rmqspark.errors import Busy, ConnectionLost, NotWritable, RequestTimeout, Unreachable
from rmqspark.model import Message, MessageQueue, ReceivedMessage, SendReceipt, SendStatus
from rmqspark.testing.history import (
    History,
    JsonLines,
    Opened,
    Scan,
    Seen,
    Sent,
    content_of,
    content_received,
    content_to_send,
    outcome_of,
    read_events,
)
from rmqspark.testing.history_checker import Checker
from rmqspark.testing.history_laws import Law

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = MessageQueue("orders", "broker-a", 3)


class Story:
    """A history in a few words: messages are named by letters, their content is `content` of the letter."""

    def __init__(self) -> None:
        self.checker = Checker()
        self.history = History(self.checker.feed)

    def begin(self, *names: str, producer: str = "p") -> int:
        return self.history.sending(producer, [(name, content(name)) for name in names])

    def ack(self, number: int, offset: int, *, durable: bool = False, unknown_tries: int = 0) -> None:
        self.history.stored(number, QUEUE, offset, durable=durable, unknown_tries=unknown_tries)

    def send(self, name: str, offset: int, producer: str = "p", *, durable: bool = False) -> None:
        self.ack(self.begin(name, producer=producer), offset, durable=durable)

    def lose(self, name: str) -> None:
        self.history.not_sent(self.begin(name), ConnectionLost("gone", address="here"))

    def refuse(self, name: str) -> None:
        self.history.not_sent(self.begin(name), NotWritable("full"))

    def see(self, offset: int, *names: str, reader: str = "r") -> None:
        """A read from `offset` on shows these."""
        self.show(offset, [(offset + index, name, content(name)) for index, name in enumerate(names)], reader=reader)

    def show(
        self, offset: int, messages: list[tuple[int, str, str]], next_offset: int | None = None, reader: str = "r"
    ) -> None:
        number = self.history.reading(reader, QUEUE, offset)
        following = offset + len(messages) if next_offset is None else next_offset
        self.checker.feed(Seen(number, "ok", following, messages))

    def scan(self, offset: int, *names: str) -> None:
        """All that the queue holds from `offset` to its end are these."""
        self.see(offset, *names, reader="scan")
        self.history.scanned("scan", QUEUE, offset, offset + len(names))

    def open(self, incarnation: int) -> None:
        self.history.opened("broker-a", incarnation)

    @property
    def broken(self) -> list[Law]:
        self.checker.finish()
        return [violation.law for violation in self.checker.violations]


def content(name: str) -> str:
    return content_of(name.encode(), {"KEYS": name})


def batch_in_a_queue(story: Story) -> None:
    story.ack(story.begin("a", "b"), 0)
    story.send("c", 2)
    story.scan(0, "a", "b", "c")


def unknown_that_was_stored(story: Story) -> None:
    story.lose("a")
    story.send("b", 1)
    story.scan(0, "a", "b")


def unknown_that_was_not_stored(story: Story) -> None:
    story.lose("a")
    story.send("b", 0)
    story.scan(0, "b")


def stored_twice_by_a_try_of_which_nobody_heard(story: Story) -> None:
    story.ack(story.begin("a"), 1, unknown_tries=1)
    story.scan(0, "a", "a")


def read_while_it_is_being_sent(story: Story) -> None:
    number = story.begin("a")
    story.see(0, "a")
    story.ack(number, 0)
    story.scan(0, "a")


def client_that_died(story: Story) -> None:
    story.begin("a")
    story.send("b", 1)
    story.scan(0, "a", "b")


def pipelined_answers_in_another_order(story: Story) -> None:
    first, second = story.begin("a"), story.begin("b")
    story.ack(second, 1)
    story.ack(first, 0)
    story.scan(0, "a", "b")


def retried_send_that_was_overtaken(story: Story) -> None:
    first, second = story.begin("a"), story.begin("b")
    story.ack(second, 0)
    story.ack(first, 1, unknown_tries=1)
    story.scan(0, "b", "a")


def only_what_is_new_is_scanned_after_a_crash(story: Story) -> None:
    story.send("a", 0)
    story.scan(0, "a")
    story.open(0)
    story.send("b", 1)
    story.scan(1, "b")


def tail_lost_with_its_incarnation(story: Story) -> None:
    story.open(0)
    story.send("a", 0, durable=True)
    story.send("b", 1)
    story.see(0, "a", "b")
    story.open(1)
    story.send("c", 1)
    story.scan(0, "a", "c")


def read_that_failed(story: Story) -> None:
    story.history.not_seen(story.history.reading("r", QUEUE, 0), ConnectionLost("gone", address="here"))
    story.scan(0)


@pytest.mark.parametrize(
    "tell",
    [
        batch_in_a_queue,
        unknown_that_was_stored,
        unknown_that_was_not_stored,
        stored_twice_by_a_try_of_which_nobody_heard,
        read_while_it_is_being_sent,
        client_that_died,
        pipelined_answers_in_another_order,
        retried_send_that_was_overtaken,
        only_what_is_new_is_scanned_after_a_crash,
        tail_lost_with_its_incarnation,
        read_that_failed,
    ],
)
def test_what_may_happen_passes(tell: Callable[[Story], None]) -> None:
    """No false alarm: all of this is allowed."""
    story = Story()
    tell(story)
    assert story.broken == [], story.checker.violations


def acked_and_gone_at_the_end(story: Story) -> None:
    story.send("a", 0)
    story.send("b", 1)
    story.scan(0, "a")


def acked_and_another_is_there(story: Story) -> None:
    story.lose("b")
    story.send("a", 0)
    story.scan(0, "b")


def acked_where_another_had_been_read(story: Story) -> None:
    story.lose("b")
    story.see(0, "b")
    story.send("a", 0)


def two_acked_at_one_place(story: Story) -> None:
    story.send("a", 0)
    story.send("b", 0, producer="q")
    story.see(0, "a")


def acked_and_never_scanned(story: Story) -> None:
    story.send("a", 0)


def second_of_a_batch_gone(story: Story) -> None:
    story.ack(story.begin("a", "b"), 0)
    story.scan(0, "a")


def durable_and_gone_with_the_incarnation(story: Story) -> None:
    story.open(0)
    story.send("a", 0, durable=True)
    story.open(1)
    story.scan(0)


def never_sent(story: Story) -> None:
    story.scan(0, "a")


def another_body(story: Story) -> None:
    story.send("a", 0)
    story.show(0, [(0, "a", content_of(b"A", {"KEYS": "a"}))])


def another_property(story: Story) -> None:
    story.send("a", 0)
    story.show(0, [(0, "a", content_of(b"a", {"KEYS": "a", "colour": "red"}))])


def another_message_to_another_reader(story: Story) -> None:
    story.lose("a")
    story.lose("b")
    story.see(0, "a")
    story.see(0, "b", reader="other")


def read_and_gone(story: Story) -> None:
    story.lose("a")
    story.see(0, "a")
    story.scan(0)


def incarnation_that_goes_back(story: Story) -> None:
    story.open(2)
    story.open(1)


def offset_left_out(story: Story) -> None:
    story.lose("a")
    story.show(0, [(1, "a", content("a"))], next_offset=2)


def offset_repeated(story: Story) -> None:
    story.lose("a")
    story.show(0, [(0, "a", content("a")), (0, "a", content("a"))], next_offset=1)


def told_to_skip_one(story: Story) -> None:
    story.lose("a")
    story.show(0, [(0, "a", content("a"))], next_offset=2)


def scan_with_a_hole(story: Story) -> None:
    for name in "abc":
        story.lose(name)
    story.see(0, "a")
    story.see(2, "c")
    story.history.scanned("r", QUEUE, 0, 3)


def stored_in_another_order(story: Story) -> None:
    first, second = story.begin("a"), story.begin("b")
    story.ack(second, 0)
    story.ack(first, 1)
    story.scan(0, "b", "a")


def stored_in_another_order_past_a_client_that_died(story: Story) -> None:
    story.begin("x")
    stored_in_another_order(story)


def stored_twice(story: Story) -> None:
    story.send("a", 0)
    story.scan(0, "a", "a")


def unknown_stored_twice(story: Story) -> None:
    story.lose("a")
    story.scan(0, "a", "a")


def refused_and_stored(story: Story) -> None:
    story.refuse("a")
    story.scan(0, "a")


def read_and_then_refused(story: Story) -> None:
    number = story.begin("a")
    story.see(0, "a")
    story.history.not_sent(number, NotWritable("full"))


@pytest.mark.parametrize(
    ("law", "tell"),
    [
        (Law.NOTHING_LOST, acked_and_gone_at_the_end),
        (Law.NOTHING_LOST, acked_and_another_is_there),
        (Law.NOTHING_LOST, acked_where_another_had_been_read),
        (Law.NOTHING_LOST, two_acked_at_one_place),
        (Law.NOTHING_LOST, acked_and_never_scanned),
        (Law.NOTHING_LOST, second_of_a_batch_gone),
        (Law.NOTHING_LOST, durable_and_gone_with_the_incarnation),
        (Law.NOTHING_INVENTED, never_sent),
        (Law.NOTHING_INVENTED, another_body),
        (Law.NOTHING_INVENTED, another_property),
        (Law.STABLE, another_message_to_another_reader),
        (Law.STABLE, read_and_gone),
        (Law.STABLE, incarnation_that_goes_back),
        (Law.DENSE, offset_left_out),
        (Law.DENSE, offset_repeated),
        (Law.DENSE, told_to_skip_one),
        (Law.DENSE, scan_with_a_hole),
        (Law.IN_ORDER, stored_in_another_order),
        (Law.IN_ORDER, stored_in_another_order_past_a_client_that_died),
        (Law.COPIES, stored_twice),
        (Law.COPIES, unknown_stored_twice),
        (Law.COPIES, refused_and_stored),
        (Law.COPIES, read_and_then_refused),
    ],
)
def test_what_may_not_happen_is_caught(law: Law, tell: Callable[[Story], None]) -> None:
    """Each law has teeth: histories that break it are reported under its name."""
    story = Story()
    tell(story)
    assert law in story.broken
    assert set(story.broken) == {law}, story.checker.violations


def test_every_law_has_a_history_that_breaks_it() -> None:
    """A law that is added needs one, too."""
    marks = vars(test_what_may_not_happen_is_caught)["pytestmark"]
    assert {law for law, _ in marks[0].args[1]} == set(Law)


def test_a_violation_says_where_and_what() -> None:
    """Law, topic, broker, queue, offset and message stand in one line."""
    story = Story()
    acked_and_another_is_there(story)
    (line,) = map(str, story.checker.violations)
    assert line == (
        "Law 1 (what was acknowledged is there): orders/broker-a/3 offset 0: a: acknowledged there, but b is there"
    )


@pytest.mark.parametrize(
    "event", [Sent(7, "ok", QUEUE, 0), Seen(7, "ok", 0, []), object()], ids=["unsent", "unread", "something else"]
)
def test_a_history_that_cannot_be_is_refused(event: object) -> None:
    """An outcome of something that was never begun is a fault of the test, not of the broker."""
    with pytest.raises(ValueError, match="never begun|no event"):
        Checker().feed(event)


def test_names_are_unique() -> None:
    """Two messages of one name could not be told apart."""
    story = Story()
    story.begin("a")
    with pytest.raises(ValueError, match="two messages"):
        story.begin("a")


def test_a_history_is_judged_again_from_its_file() -> None:
    """Written as JSON lines and read again, it says the same."""
    file = io.BytesIO()
    story = Story()
    story.history = History(story.checker.feed, JsonLines(file))
    story.open(4)
    acked_and_gone_at_the_end(story)
    events = list(read_events(file.getvalue().splitlines()))
    assert events[0] == Opened("broker-a", 4)
    assert events[-1] == Scan("scan", QUEUE, 0, 1)
    again = Checker()
    for event in events[:-2]:  # but what was read
        again.feed(event)
    again.feed(events[-1])
    assert story.broken == [Law.NOTHING_LOST] * 2
    assert [violation.law for violation in again.violations][:1] == [Law.DENSE]


def test_what_was_sent_and_what_is_read_have_one_content() -> None:
    """What clients and brokers add does not count; body, properties, tag and keys do."""
    sent = Message("orders", b"body", tags="paid", keys=["a"], properties={"colour": "red"})
    stored = {"colour": "red", "TAGS": "paid", "KEYS": "a", "UNIQ_KEY": "ID", "WAIT": "true", "CLUSTER": "c"}

    def received(body: bytes = b"body", **other: str) -> tuple[int, str, str]:
        properties = {**stored, **other}
        return content_received(
            ReceivedMessage("orders", body, "paid", ["a"], properties, "ID", QUEUE, 5, 0, 0),
        )

    assert received() == (5, *content_to_send(sent))
    for other in (received(b"Body"), received(TAGS="open"), received(colour="blue"), received(size="1")):
        assert other[2] != content_to_send(sent)[1]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ConnectionLost("", address=""), "unknown"),
        (RequestTimeout(""), "unknown"),
        (RuntimeError(""), "unknown"),
        (Unreachable("", address=""), "fail"),
        (NotWritable(""), "fail"),
        (Busy(""), "fail"),
    ],
)
def test_errors_say_whether_a_message_may_be_stored(error: Exception, outcome: str) -> None:
    """Only what a broker refused, or never got, is certain not to be."""
    assert outcome_of(error) == outcome


def test_a_receipt_that_is_not_ok_promises_nothing() -> None:
    """FLUSH_DISK_TIMEOUT: it may be there, or not after a power loss."""
    story = Story()
    receipt = SendReceipt("ID", QUEUE, 0, status=SendStatus.FLUSH_DISK_TIMEOUT)
    story.history.sent(story.begin("a"), receipt, durable=True)
    story.scan(0)
    assert story.broken == []
    assert (story.history.acknowledged, story.history.unknown, story.history.under_way) == (0, 1, 0)


def test_faults_wait_for_what_is_under_way() -> None:
    """Whoever kills a broker knows how many messages are in flight at that moment."""
    story = Story()
    number = story.begin("a", "b")
    story.send("c", 0)
    assert story.history.under_way == 2
    assert story.history.wait_for(lambda: story.history.acknowledged == 1, 0)
    assert not story.history.wait_for(lambda: story.history.under_way == 0, 0)
    story.history.not_sent(number, ConnectionLost("gone", address="here"))
    assert (story.history.under_way, story.history.unknown) == (0, 2)

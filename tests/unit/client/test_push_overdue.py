"""Messages that a listener is at for too long: they are given back, and their queue goes on."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.pushing.agenda import Agenda
from rmqspark.client.pushing.listening import Listening, Outcome, give_back
from rmqspark.client.pushing.overdue import Overdue
from rmqspark.client.pushing.process_queue import Batch, ProcessQueue
from rmqspark.client.pushing.workers import Took, Workers
from rmqspark.errors import Unreachable
from rmqspark.model import MessageQueue, ReceivedMessage
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUE = MessageQueue("orders", "broker-a", 0)
PATIENCE_S = 30


def message(queue_offset: int) -> ReceivedMessage:
    return ReceivedMessage("orders", b"12", None, (), {}, f"id-{queue_offset}", QUEUE, queue_offset, 0, 0)


class Bench:
    """One thread, whose listener fails when the test lets it go on, and a queue of which it has the first two."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.agenda = Agenda()
        self.held = ProcessQueue(QUEUE, 0)
        self.held.arrived([message(0), message(1), message(2)], 3)
        self.began, self.go_on = threading.Event(), threading.Event()
        self.given_back: list[int] = []
        self.is_away = False
        self.told: SimpleQueue[tuple[Batch, ReceivedMessage]] = SimpleQueue()
        self.reports: SimpleQueue[tuple[Batch, Outcome | None, Took]] = SimpleQueue()
        listening = Listening(self.listen, give_back(self))
        self.workers = Workers(1, listening, lambda *report: self.reports.put(report), self.clock)
        self.workers.start()
        self.overdue = Overdue(self.workers, self.give_back, lambda *told: self.told.put(told), 15)
        self.overdue.watch(self.agenda, self.clock)

    def listen(self, messages: list[ReceivedMessage]) -> None:
        self.began.set()
        assert self.go_on.wait(PATIENCE_S)
        raise RuntimeError("no more")

    def give_back(self, message: ReceivedMessage) -> None:
        if self.is_away:
            raise Unreachable("Nobody is there.", address="nowhere")
        self.given_back.append(message.queue_offset)

    send = give_back

    def begin(self) -> None:
        batch = self.held.take(2)
        assert batch is not None
        self.workers.give(batch)
        assert self.began.wait(PATIENCE_S)

    def after(self, minutes: int) -> None:
        """Does what is due after so long, to its end."""
        self.clock.advance(seconds=60 * minutes)
        for thing in list(self.agenda.due(self.clock.monotonic_ms())):
            thing()
        if self.overdue._thread is not None:
            self.overdue._thread.join(PATIENCE_S)

    def end(self) -> Outcome:
        self.go_on.set()
        batch, outcome, _ = self.reports.get(timeout=PATIENCE_S)
        assert outcome is not None
        self.held.finish(batch, outcome.left)
        return outcome


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.go_on.set()
    made.workers.stop()
    made.workers.join(PATIENCE_S)


def test_what_takes_too_long_is_given_back_and_its_queue_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Once; and what the listener comes to in the end counts for nothing."""
    bench.begin()
    bench.after(14)
    assert bench.given_back == []
    bench.after(1)
    assert bench.given_back == [0, 1]
    assert "offset 1 (id-1) for more than 15 minutes: it comes again" in caplog.text
    for _ in range(2):
        bench.held.given_away(*bench.told.get(timeout=PATIENCE_S))
    assert (bench.held.commit_offset, len(bench.held), bench.held.size_bytes) == (2, 1, 2)
    bench.after(15)
    assert bench.end() == Outcome([], 5_000, failed=True)
    assert bench.given_back == [0, 1]
    assert (bench.held.commit_offset, len(bench.held)) == (2, 1)


def test_what_no_broker_takes_back_stays_with_the_listener(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again with the next round."""
    bench.begin()
    bench.is_away = True
    bench.after(15)
    assert bench.told.empty()
    assert caplog.text.count("No broker takes back") == 2
    bench.is_away = False
    bench.after(15)
    assert bench.given_back == [0, 1]


def test_what_was_begun_with_later_has_its_time(bench: Bench) -> None:
    """Rounds come as often as a listener may take, so it may take twice as long at most."""
    bench.after(7)
    bench.begin()
    bench.after(8)
    assert bench.given_back == []
    bench.after(15)
    assert bench.given_back == [0, 1]


def test_what_another_member_has_is_not_given_back(bench: Bench) -> None:
    """He has had it anyway."""
    bench.begin()
    bench.held.drop()
    bench.after(15)
    assert bench.given_back == []

"""What a push consumer tells of how much it reads and consumes."""

from __future__ import annotations

from rmqspark.client.pushing.agenda import Agenda
from rmqspark.client.pushing.figures import SAMPLED_EVERY_MS, Figures
from rmqspark.protocol.bodies.admin import ConsumeStatus
from rmqspark.testing.manual_clock import ManualClock


class Bench:
    """Figures, and a clock by which samples are taken."""

    def __init__(self) -> None:
        self.clock, self.agenda, self.figures = ManualClock(), Agenda(), Figures()
        self.figures.watch(self.agenda, self.clock)

    def after(self, seconds: int) -> None:
        for _ in range(seconds * 1000 // SAMPLED_EVERY_MS):
            self.clock.advance(ms=SAMPLED_EVERY_MS)
            for thing in list(self.agenda.due(self.clock.monotonic_ms())):
                thing()

    def status(self, topic: str = "orders") -> ConsumeStatus:
        return self.figures.status(topic, self.clock.monotonic_ms())


def test_figures_are_those_of_the_last_minute() -> None:
    """By the second, and how long a pull and a call took on average; what was before is forgotten."""
    bench = Bench()
    bench.figures.consumed("orders", 6_000, 10, failed=False)
    bench.after(120)
    bench.figures.pulled("orders", 32, 3)
    bench.figures.pulled("orders", 28, 5)
    bench.figures.pulled("orders", 0, 15_000)
    bench.figures.consumed("orders", 30, 40, failed=False)
    bench.figures.consumed("orders", 6, 20, failed=True)
    assert bench.status() == ConsumeStatus(
        pullRT=4.0, pullTPS=1.0, consumeRT=30.0, consumeOKTPS=0.5, consumeFailedTPS=0.1, consumeFailedMsgs=6
    )
    assert bench.status("others") == ConsumeStatus()


def test_failures_are_those_of_the_last_hour() -> None:
    bench = Bench()
    bench.figures.consumed("orders", 5, 1, failed=True)
    bench.after(1_800)
    bench.figures.consumed("orders", 7, 1, failed=True)
    assert (bench.status().consumeFailedMsgs, bench.status().consumeFailedTPS) == (12, 7 / 60)
    bench.after(1_810)
    assert bench.status().consumeFailedMsgs == 7
    bench.after(3_600)
    assert bench.status() == ConsumeStatus()


def test_of_topics_that_are_idle_nothing_is_kept() -> None:
    """A consumer may live long, and be subscribed to one topic after the other; or to many that have little."""
    bench = Bench()
    for number in range(500):
        bench.figures.pulled(f"run{number}", 5, 1)
        bench.figures.consumed(f"run{number}", 4, 1, failed=True)
        bench.after(100)
        assert bench.status(f"run{number}").consumeFailedMsgs == 4
        assert bench.status(f"run{max(0, number - 30)}").consumeFailedMsgs == 4
    kept = sum(map(len, bench.figures._changes.values()))
    assert (len(bench.figures._counts), kept) == (36, 36), "those of the last hour"
    bench.figures.consumed("run0", 1, 1, failed=True)
    assert bench.status("run0").consumeFailedMsgs == 1


def test_a_consumer_that_has_just_started_divides_by_its_own_time() -> None:
    bench = Bench()
    bench.clock.advance(seconds=2)
    bench.figures.consumed("orders", 10, 1, failed=False)
    assert bench.status().consumeOKTPS == 5.0

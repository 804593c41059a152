"""An idle query leaves the cores to others."""

from __future__ import annotations

import pytest

from rmqspark.source.offsets import Offsets
from rmqspark.source.planning.idle_pace import IdlePace
from rmqspark.testing.manual_clock import ManualClock

from .one_cluster import Q0

START, END = Offsets("g", {Q0: 1}), Offsets("g", {Q0: 2})


class Looks:
    """Asks for ends, each behind the last; a look takes `look_ms`."""

    def __init__(self, look_ms: int) -> None:
        self.clock = ManualClock()
        self.at_ms: list[int] = []
        self._begun_ms, self._look_ms = self.clock.monotonic_ms(), look_ms
        self._pace = IdlePace(self.clock)

    def ask(self, *, found: bool = False, after_ms: int = 0) -> Offsets:
        self.clock.advance(ms=after_ms)
        return self._pace.end_of(START, lambda _: self._look(END if found else START))

    def _look(self, end: Offsets) -> Offsets:
        self.at_ms.append(self.clock.monotonic_ms() - self._begun_ms)
        self.clock.advance(ms=self._look_ms)
        return end


@pytest.mark.parametrize(("look_ms", "second_at_ms"), [(0, 0), (1, 5), (10, 50), (25, 125), (26, 126), (3_000, 3_100)])
def test_after_a_look_that_found_nothing_it_rests_four_times_as_long(look_ms: int, second_at_ms: int) -> None:
    """A tenth of a second at most: one that waits for a broker is no reason to have messages wait."""
    looks = Looks(look_ms)
    assert (looks.ask(), looks.ask(found=True)) == (START, END)
    assert looks.at_ms == [0, second_at_ms]


@pytest.mark.parametrize(("after_ms", "second_at_ms"), [(39, 50), (40, 50), (41, 51), (60_000, 60_010)])
def test_the_time_between_two_questions_counts(after_ms: int, second_at_ms: int) -> None:
    looks = Looks(10)
    looks.ask()
    looks.ask(after_ms=after_ms)
    assert looks.at_ms == [0, second_at_ms]


def test_after_messages_it_looks_at_once() -> None:
    looks = Looks(10)
    looks.ask(found=True)
    looks.ask()
    assert looks.at_ms == [0, 10]

"""What a log hears of once: nobody fills it, by doing a thing again and again, or by inventing kinds of it."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from rmqspark.testing.manual_clock import ManualClock
from rmqspark.told_once import ToldOnce


def test_each_kind_is_news_once() -> None:
    told: ToldOnce[str] = ToldOnce(structlog.get_logger(), "refusals")
    assert [told.is_news(kind) for kind in ("a", "b", "a")] == [True, True, False]


def test_that_no_more_are_told_is_said_once() -> None:
    """Whoever reads the log knows that what stands there is not all."""
    told: ToldOnce[int] = ToldOnce(structlog.get_logger(), "refusals", most=3)
    with capture_logs() as logs:
        assert [told.is_news(kind) for kind in range(6)] == [True] * 3 + [False] * 3
    (full,) = logs
    assert (full["event"], full["told"]) == ("no further kinds of refusals are told for a day", 3)


def test_who_invents_kinds_keeps_others_from_being_told_for_a_day_alone() -> None:
    """Then all are news again, as many as before."""
    clock = ManualClock()
    told: ToldOnce[int] = ToldOnce(structlog.get_logger(), "refusals", most=2, clock=clock)
    with capture_logs() as logs:
        for hours in (0, 23, 1):
            clock.advance(hours=hours)
            assert [told.is_news(kind) for kind in (1, 2, 3, 4)] == [hours != 23] * 2 + [False] * 2
    assert len(logs) == 2


def test_what_is_forgotten_is_news_again() -> None:
    told: ToldOnce[str] = ToldOnce(structlog.get_logger(), "refusals", most=1)
    assert told.is_news("a")
    told.forget(["a", "b"])
    assert told.is_news("b")

"""How counters stood over a minute, an hour and a day: sums and times as RocketMQ's StatsItem has them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rmqspark.broker.metrics.history import History

ROUND_MS, HOUR_MS = 10_000, 3_600_000


def minute(history: History, key: str) -> tuple[int, int] | None:
    """In which time, and by how much its first number grew."""
    moved = history.moved(key)
    return None if moved is None else (moved[0].elapsed_ms, moved[0].by[0])


def test_a_counter_is_told_of_from_the_sample_before_it_came() -> None:
    """A new topic's rate is not thinned by the time before it was there."""
    history = History(2, 0)
    assert history.moved("a") is None
    history.sample(10_000, {"a": (5, 50)})
    history.sample(20_000, {"a": (6, 60), "b": (8, 80)})
    assert minute(history, "a") == (20_000, 6)
    assert minute(history, "b") == (10_000, 8)
    assert history.moved("b")[0].by == (8, 80)  # type: ignore[index]


def test_a_minute_is_what_lies_between_seven_samples() -> None:
    """What is older has faded."""
    history = History(1, 0)
    for number in range(1, 12):
        history.sample(number * ROUND_MS, {"a": (min(number, 8),)})
    assert minute(history, "a") == (60_000, 3)


def test_hours_and_days_are_sampled_less_often() -> None:
    """Each tells of nothing until its first period is over; in full an hour is one of ten minutes less, as there."""
    history = History(1, 0)
    for number in range(1, 361):
        history.sample(number * ROUND_MS, {"a": (number,)})
        moved = history.moved("a")
        assert moved is not None
        if number < 60:
            assert [each.by for each in moved[1:]] == [(0,), (0,)]
    assert moved is not None
    assert [(each.elapsed_ms, each.by) for each in moved] == [(60_000, (6,)), (HOUR_MS, (360,)), (HOUR_MS, (360,))]


def test_what_is_gone_is_forgotten_and_begins_anew() -> None:
    """And what stays keeps its own numbers."""
    history = History(1, 0)
    history.sample(10_000, {"a": (10,), "b": (20,), "c": (30,)})
    history.sample(20_000, {"c": (33,), "d": (1,)})
    assert [minute(history, key) for key in "abcd"] == [None, None, (20_000, 33), (10_000, 1)]
    history.sample(30_000, {"a": (4,), "c": (33,), "d": (2,)})
    assert [minute(history, key) for key in "abcd"] == [(10_000, 4), None, (30_000, 33), (20_000, 2)]


def test_a_counter_that_began_anew_between_two_samples_is_at_rest() -> None:
    """It never moves back."""
    history = History(1, 0)
    history.sample(10_000, {"a": (10,)})
    for number in range(2, 8):
        history.sample(number * ROUND_MS, {"a": (3,)})
    assert minute(history, "a") == (60_000, 0)


def test_samples_of_idle_counters_take_no_room() -> None:
    """However many topics rest."""
    history = History(1, 0)
    for number in range(1, 9):
        history.sample(number * ROUND_MS, {"a": (1,)})
    samples = history._windows[0]._samples
    assert all(before.numbers is after.numbers for before, after in pairwise(samples))


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)), max_size=12))
def test_it_is_what_a_list_of_samples_for_each_counter_says(rounds: list[dict[str, int]]) -> None:
    """RocketMQ's StatsItem keeps one each, which begins with a 0 one period before."""
    history, lists, totals = History(1, 0), dict[str, list[tuple[int, int]]](), dict[str, int]()
    for number, more in enumerate(rounds, 1):
        totals = {key: totals.get(key, 0) + grown for key, grown in more.items()}
        now_ms = number * ROUND_MS
        lists = {key: [*lists.get(key, [(now_ms - ROUND_MS, 0)]), (now_ms, totals[key])][-7:] for key in totals}
        history.sample(now_ms, {key: (total,) for key, total in totals.items()})
    for key in "abcd":
        samples = lists.get(key)
        expected = None if samples is None else (samples[-1][0] - samples[0][0], samples[-1][1] - samples[0][1])
        assert minute(history, key) == expected

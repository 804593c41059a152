"""Pulls that wait: what wakes them and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.broker.pulling.long_poll import ParkedPull, ParkedPulls
from rmqspark.errors import Busy

steps_of_a_day = st.tuples(
    st.sampled_from(["message", "filtered", "unfiltered"]), st.frozensets(st.integers(0, 4), max_size=3)
)


def parked(name: str, *, queue: int = 0, offset: int = 5, tags: set[int] | None = None, deadline: int = 15_000):
    return ParkedPull("orders", queue, offset, None if tags is None else frozenset(tags), deadline, name)


def names(pulls):
    return [pull.request for pull in pulls]


def arrive(pulls, *, queue: int = 0, end: int = 6, tags: tuple[int, ...] = (0,)):
    return names(pulls.arrived("orders", queue, end, lambda: tags))


def nobody_gone(_request: str) -> bool:
    return False


def test_a_topic_s_pulls_are_taken_out_together() -> None:
    """Of all its queues and whatever they filter by; their places are free then, and other topics' pulls stay."""
    pulls: ParkedPulls[str] = ParkedPulls(limit=6)
    for pull in (parked("a"), parked("b", queue=1, tags={7}), replace(parked("c"), topic="bills")):
        pulls.park(pull)
    assert sorted(names(pulls.take_topic("orders"))) == ["a", "b"]
    assert len(pulls) == 1
    pulls.park(parked("d"))
    assert names(pulls.take_topic("orders")) == ["d"]


@pytest.mark.parametrize(
    ("tags_wanted", "end", "tags_arriving", "wakes"),
    [
        (None, 6, (7,), True),
        (None, 5, (7,), False),  # nothing beyond the offset waited for
        ({7}, 6, (7,), True),
        ({7}, 6, (8,), False),
        ({7, 8}, 9, (1, 2, 8), True),
        ({-3}, 6, (-3,), True),
    ],
)
def test_messages_wake_the_pulls_that_want_them(tags_wanted, end, tags_arriving, wakes) -> None:
    """A pull is woken by a message beyond its offset whose tag its filter accepts."""
    pulls = ParkedPulls(limit=10)
    pulls.park(parked("p", tags=tags_wanted))
    assert arrive(pulls, end=end, tags=tags_arriving) == (["p"] if wakes else [])
    assert len(pulls) == (0 if wakes else 1)


def test_messages_wake_only_pulls_of_their_queue() -> None:
    """Who waits at another queue goes on waiting."""
    pulls = ParkedPulls(limit=10)
    pulls.park(parked("here"))
    pulls.park(parked("elsewhere", queue=1))
    assert arrive(pulls) == ["here"]
    assert len(pulls) == 1


def test_tags_are_not_looked_at_when_nobody_filters() -> None:
    """A bulk of thousands of tags costs nothing to a pull that takes everything."""
    pulls = ParkedPulls(limit=10)
    pulls.park(parked("p"))

    def never() -> list[int]:
        raise AssertionError("nobody filters")

    assert names(pulls.arrived("orders", 0, 6, never)) == ["p"]


def test_the_scan_wakes_what_waited_long_enough_or_missed_something() -> None:
    """Time over, or messages there although the filter let none of them wake it."""
    pulls = ParkedPulls(limit=10)
    pulls.park(parked("late", deadline=10_000))
    pulls.park(parked("behind", queue=1, tags={7}, deadline=90_000))
    pulls.park(parked("patient", queue=2, deadline=90_000))
    ends = {0: 5, 1: 6, 2: 5}
    assert names(pulls.due(9_999, lambda _, queue_id: ends[queue_id], nobody_gone)) == ["behind"]
    assert names(pulls.due(10_000, lambda _, queue_id: ends[queue_id], nobody_gone)) == ["late"]
    assert len(pulls) == 1


def test_pulls_of_clients_that_are_gone_are_dropped() -> None:
    """Their place is free again after the next scan, and nobody answers them."""
    pulls = ParkedPulls(limit=4)
    pulls.park(parked("gone"))
    pulls.park(parked("here"))
    assert pulls.due(0, lambda *_: 5, lambda request: request == "gone") == []
    pulls.park(parked("next"))
    assert names(pulls.take_all()) == ["here", "next"]


def test_a_broker_holds_a_bounded_number_of_pulls() -> None:
    """One more than the limit is told that the broker is busy; those held are not disturbed."""
    pulls = ParkedPulls(limit=2)
    pulls.park(parked("a"))
    pulls.park(replace(parked("b", queue=1), address="10.0.0.2"))
    with pytest.raises(Busy):
        pulls.park(replace(parked("c"), address="10.0.0.3"))
    assert len(pulls) == 2


def test_one_address_holds_half_of_the_pulls_at_most() -> None:
    """However many connections it has; others find room, and it gets its part back."""
    pulls: ParkedPulls[str] = ParkedPulls(limit=4)
    greedy = replace(parked("greedy"), address="10.0.0.1")
    for _ in range(2):
        pulls.park(greedy)
    with pytest.raises(Busy, match=r"clients at 10\.0\.0\.1 get 2 of 4 places"):
        pulls.park(greedy)
    pulls.park(replace(parked("other"), address="10.0.0.2"))
    assert arrive(pulls) == ["greedy", "greedy", "other"]
    for _ in range(2):
        pulls.park(greedy)


def test_long_filters_take_more_room() -> None:
    """Filters of hundreds of tags cannot fill the memory that is meant for thousands of pulls; room comes back."""
    pulls = ParkedPulls(limit=200)
    pulls.park(parked("long", tags=set(range(300))))
    with pytest.raises(Busy):
        pulls.park(parked("as long", tags=set(range(300))))
    assert arrive(pulls, tags=(299,)) == ["long"]
    pulls.park(parked("as long", tags=set(range(300))))


def test_pulls_are_woken_in_the_order_they_came() -> None:
    """Whoever waits longest is served first, whatever it filters by."""
    pulls = ParkedPulls(limit=100)
    wanted = [None, {1}, {2, 1}, {3}, None, {1, 2, 3}]
    for number, tags in enumerate(wanted):
        pulls.park(parked(str(number), tags=tags))
    assert arrive(pulls, tags=(2, 1)) == ["0", "1", "2", "4", "5"]
    assert arrive(pulls, tags=(1, 2)) == []
    assert arrive(pulls, tags=(3,)) == ["3"]
    assert len(pulls) == 0


@pytest.mark.property
@given(st.lists(steps_of_a_day, max_size=30))
def test_waking_agrees_with_looking_at_everybody(steps: list[tuple[str, frozenset[int]]]) -> None:
    """However pulls come and messages arrive, the ones woken are those whose filter accepts a tag."""
    pulls, model = ParkedPulls[str](limit=10_000), dict[str, frozenset[int] | None]()
    for number, (kind, tags) in enumerate(steps):
        if kind == "message":
            woken = [name for name, wanted in model.items() if wanted is None or wanted & tags]
            assert arrive(pulls, tags=tuple(tags)) == woken
            model = {name: wanted for name, wanted in model.items() if name not in woken}
        else:
            wanted = tags if kind == "filtered" else None
            pulls.park(parked(str(number), tags=None if wanted is None else set(wanted)))
            model[str(number)] = wanted
        assert len(pulls) == len(model)


def test_taking_all_leaves_none() -> None:
    """At shutdown every held pull is answered, and the table is empty."""
    pulls = ParkedPulls(limit=10)
    pulls.park(parked("a"))
    pulls.park(parked("b", queue=3))
    assert names(pulls.take_all()) == ["a", "b"]
    assert len(pulls) == 0
    assert arrive(pulls) == []


def test_a_pull_that_moved_is_told_so_by_the_next_scan() -> None:
    """One that was parked again behind messages it does not want is due, though nothing lies beyond it."""
    pulls = ParkedPulls(limit=10)
    pulls.park(parked("stays"))
    pulls.park(replace(parked("moved"), has_moved=True))
    assert names(pulls.due(0, lambda topic, queue: 5, nobody_gone)) == ["moved"]
    assert len(pulls) == 1


def test_long_texts_take_more_of_the_room() -> None:
    """What waits is bounded by what it holds in memory."""
    pulls = ParkedPulls(limit=20)
    pulls.park(replace(parked("long"), text_length=2048))
    pulls.park(parked("short"))
    with pytest.raises(Busy):
        pulls.park(parked("one too many"))


@pytest.mark.parametrize(
    ("tags", "was_at_end", "end", "wants_now", "skips"),
    [
        ({7}, True, 6, {7}, True),
        ({7}, True, 5, {7}, False),  # its time is over, and nothing came
        ({7}, False, 6, {7}, False),  # there was something behind it that it has not been shown
        ({7}, True, 6, {8}, False),  # it has another filter by now
        ({7}, True, 6, None, False),
        (None, True, 6, None, False),  # it wants all that came
    ],
)
def test_who_was_shown_all_that_came_is_sent_on_unread(tags, was_at_end, end, wants_now, skips) -> None:
    """A pull by tags that waited at the very end needs no second look at what did not wake it."""
    pulls = ParkedPulls(limit=10)
    pulls.park(replace(parked("p", tags=tags, deadline=0), was_at_end=was_at_end))
    (pull,) = pulls.due(0, lambda *_: end, nobody_gone)
    assert pull.passed_offset == end
    assert pull.may_skip(None if wants_now is None else frozenset(wants_now)) is skips

"""Pulls that wait: what wakes them and what does not."""

from __future__ import annotations

import pytest

from rmqspark.broker.long_poll import ParkedPull, ParkedPulls
from rmqspark.errors import Busy


def parked(name: str, *, queue: int = 0, offset: int = 5, tags: set[int] | None = None, deadline: int = 15_000):
    return ParkedPull("orders", queue, offset, None if tags is None else frozenset(tags), deadline, name)


def names(pulls):
    return [pull.request for pull in pulls]


def arrive(pulls, *, queue: int = 0, end: int = 6, tags: tuple[int, ...] = (0,)):
    return names(pulls.arrived("orders", queue, end, lambda: tags))


def nobody_gone(_request: str) -> bool:
    return False


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
    pulls = ParkedPulls(limit=2)
    pulls.park(parked("gone"))
    pulls.park(parked("here"))
    assert pulls.due(0, lambda *_: 5, lambda request: request == "gone") == []
    pulls.park(parked("next"))
    assert names(pulls.take_all()) == ["here", "next"]


def test_a_broker_holds_a_bounded_number_of_pulls() -> None:
    """One more than the limit is told that the broker is busy; those held are not disturbed."""
    pulls = ParkedPulls(limit=2)
    pulls.park(parked("a"))
    pulls.park(parked("b", queue=1))
    with pytest.raises(Busy):
        pulls.park(parked("c"))
    assert len(pulls) == 2


def test_taking_all_leaves_none() -> None:
    """At shutdown every held pull is answered, and the table is empty."""
    pulls = ParkedPulls(limit=10)
    pulls.park(parked("a"))
    pulls.park(parked("b", queue=3))
    assert names(pulls.take_all()) == ["a", "b"]
    assert len(pulls) == 0
    assert arrive(pulls) == []

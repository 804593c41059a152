"""When a connection has had its time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rmqspark.remoting.deadlines import Activity, Ticks, ticks_of
from rmqspark.remoting.limits import Limits

TICKS = Ticks(first_frame=10, frame=30, idle=120, shrink=10, report=10, visit=2)


@pytest.mark.parametrize(
    ("active", "opened", "frame_since", "deadline", "reason"),
    [
        pytest.param(5, None, None, 125, "idle for too long", id="has sent a frame, and nothing since"),
        pytest.param(5, 0, None, 10, "no whole frame in time", id="new"),
        pytest.param(9, 0, 4, 10, "no whole frame in time", id="new, in the middle of its first frame"),
        pytest.param(109, None, 100, 130, "a frame takes too long", id="a byte now and then"),
        pytest.param(5, None, 120, 125, "idle for too long", id="began a frame just before it had been idle too long"),
    ],
)
def test_the_nearest_deadline_counts(
    active: int, opened: int | None, frame_since: int | None, deadline: int, reason: str
) -> None:
    """A first frame, a frame that was begun, and silence have times of their own."""
    activity = Activity(opened or 0)
    activity.is_proven = opened is None
    if frame_since is not None:
        activity.worked_off(frame_since, 0, waits=True)
    activity.last = active
    assert activity.deadline(TICKS, is_read=True) == (deadline, reason)


def deadline_of(activity: Activity, *, is_read: bool = True) -> int:
    activity.is_proven = True
    return activity.deadline(TICKS, is_read=is_read)[0]


def test_a_frame_is_timed_from_its_first_byte() -> None:
    """Not from the last of those that came; once it is whole, the next one has a time of its own."""
    activity = Activity(0)
    for now in (100, 110, 120):
        activity.last = now
        activity.worked_off(now, 0, waits=True)
    assert deadline_of(activity) == 100 + TICKS.frame
    activity.worked_off(125, 1, waits=True)
    assert deadline_of(activity) == 125 + TICKS.frame
    activity.worked_off(126, 1, waits=False)
    assert deadline_of(activity) == 120 + TICKS.idle


def test_no_client_is_blamed_for_a_server_that_does_not_read() -> None:
    """Its frame has all the time again when it is read on."""
    activity = Activity(0)
    activity.last = 100
    activity.worked_off(100, 0, waits=True)
    assert deadline_of(activity, is_read=False) == 100 + TICKS.idle
    activity.read_on(200)
    activity.worked_off(200, 0, waits=True)
    assert deadline_of(activity) == 200 + TICKS.frame


def test_a_client_that_takes_its_answers_slowly_is_not_idle() -> None:
    """One that takes nothing is."""
    activity = Activity(0)
    for now, unsent_bytes in ((10, 500), (20, 400), (30, 400)):
        activity.took(now, unsent_bytes)
    assert deadline_of(activity) == 20 + TICKS.idle


@pytest.mark.parametrize(("shortest_ms", "tick_ms"), [(4, 10), (400, 100), (3_600_000, 1_000)])
def test_a_tick_is_a_fraction_of_the_shortest_timeout(shortest_ms: int, tick_ms: int) -> None:
    """And within bounds; no timeout ends early for being no multiple of it."""
    idle_ms = max(120_000, shortest_ms)
    limits = replace(Limits(), first_frame_timeout_ms=shortest_ms, frame_timeout_ms=idle_ms, idle_timeout_ms=idle_ms)
    length_ms, ticks = ticks_of(limits)
    assert length_ms == tick_ms
    assert ticks.first_frame * length_ms >= shortest_ms
    assert (ticks.first_frame - 1) * length_ms < shortest_ms
    assert ticks.visit >= 1

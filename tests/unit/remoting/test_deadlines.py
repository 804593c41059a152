"""When a connection has had its time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rmqspark.remoting.deadlines import Ticks, nearest_deadline, ticks_of
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
    assert nearest_deadline(TICKS, active, opened, frame_since) == (deadline, reason)


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

"""How long a connection may take for what, in ticks of its server's wheel, and which of it is over first. Pure.

An idle connection is looked at now and then rather than woken for: a request costs a note of the time and nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rmqspark.remoting.limits import Limits

_SHORTEST_TICK_MS: Final = 10
_LONGEST_TICK_MS: Final = 1_000
_KEEP_LARGE_BUFFER_MS: Final = 10_000
_REPORT_INTERVAL_MS: Final = 10_000


class Ticks(NamedTuple):
    """The timeouts of Limits in ticks."""

    first_frame: int
    frame: int
    idle: int
    shrink: int
    """How long a connection of large frames keeps its buffer without need."""
    report: int
    """How often the log says how many connections were closed."""
    visit: int
    """How often a connection is looked at, whatever its deadline is: a nearer one may have come up meanwhile."""


def ticks_of(limits: Limits) -> tuple[int, Ticks]:
    """The length of a tick in milliseconds, a fraction of the shortest timeout, and the timeouts in ticks."""
    shortest_ms = min(limits.first_frame_timeout_ms, limits.frame_timeout_ms, limits.idle_timeout_ms)
    tick_ms = max(_SHORTEST_TICK_MS, min(_LONGEST_TICK_MS, shortest_ms // 4))

    def ticks(duration_ms: int) -> int:
        return -(-duration_ms // tick_ms)

    return tick_ms, Ticks(
        first_frame=ticks(limits.first_frame_timeout_ms),
        frame=ticks(limits.frame_timeout_ms),
        idle=ticks(limits.idle_timeout_ms),
        shrink=ticks(_KEEP_LARGE_BUFFER_MS),
        report=ticks(_REPORT_INTERVAL_MS),
        visit=max(1, ticks(shortest_ms) // 4),
    )


def nearest_deadline(ticks: Ticks, active: int, opened: int | None, frame_since: int | None) -> tuple[int, str]:
    """The tick at which a connection is closed, and why, unless something happens before.

    It was last `active` then; `opened` is None once it has sent a whole frame, `frame_since`, the tick at which the
    frame began that is not whole yet, where there is none, or where it is not read on for reasons of ours.
    """
    deadline, reason = active + ticks.idle, "idle for too long"
    if opened is not None and opened + ticks.first_frame < deadline:
        deadline, reason = opened + ticks.first_frame, "no whole frame in time"
    if frame_since is not None and frame_since + ticks.frame < deadline:
        deadline, reason = frame_since + ticks.frame, "a frame takes too long"
    return deadline, reason

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


class Activity:
    """What one connection did when, in ticks of its server's wheel."""

    __slots__ = ("_frame_since", "_opened", "_unsent_bytes", "is_proven", "last")

    def __init__(self, now: int) -> None:
        self.last = now
        """When it did anything."""
        self.is_proven = False
        """Whether it has ever sent a whole frame."""
        self._opened = now
        self._frame_since: int | None = None
        self._unsent_bytes = 0

    def worked_off(self, now: int, handled: int, *, waits: bool) -> None:
        """So many frames that it sent were handled; `waits`: there is a part of another one."""
        if not waits:
            self._frame_since = None
        elif handled or self._frame_since is None:
            self._frame_since = now

    def read_on(self, now: int) -> None:
        """It is read from again: the time in which it was not is not its own."""
        self.last, self._frame_since = now, None

    def took(self, now: int, unsent_bytes: int) -> None:
        """So much of its answers it has not taken yet. One that takes some is slow, not idle."""
        if unsent_bytes != self._unsent_bytes:
            self.last = now
        self._unsent_bytes = unsent_bytes

    def deadline(self, ticks: Ticks, *, is_read: bool) -> tuple[int, str]:
        """The tick at which it is closed, and why, unless something happens before; `is_read`: what it sends is read,
        so that it could complete a frame."""
        deadline, reason = self.last + ticks.idle, "idle for too long"
        if not self.is_proven and self._opened + ticks.first_frame < deadline:
            deadline, reason = self._opened + ticks.first_frame, "no whole frame in time"
        if is_read and self._frame_since is not None and self._frame_since + ticks.frame < deadline:
            deadline, reason = self._frame_since + ticks.frame, "a frame takes too long"
        return deadline, reason

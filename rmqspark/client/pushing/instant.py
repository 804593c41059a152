"""A moment by both clocks of a process. Pure.

What lasts as long as a broker says is over by whichever of them comes first: while a machine sleeps only the wall clock
goes on, and the other one is nobody's to set back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from rmqspark.clock import Clock


class Instant(NamedTuple):
    """What the two clocks show."""

    monotonic_ms: int = 0
    wall_ms: int = 0

    @classmethod
    def now(cls, clock: Clock) -> Self:
        return cls(clock.monotonic_ms(), clock.now_ms())

    def later(self, ms: int) -> Instant:
        return Instant(self.monotonic_ms + ms, self.wall_ms + ms)

    def is_past(self, now: Instant) -> bool:
        """By either clock."""
        return self.monotonic_ms <= now.monotonic_ms or self.wall_ms <= now.wall_ms

    def wall(self, monotonic_ms: int) -> int:
        """What the wall clock showed when the other one did that."""
        return self.wall_ms - (self.monotonic_ms - monotonic_ms)


LONG_AGO: Final = Instant()

"""How long a coordinator has been running, all its starts together: what ages in its ledger are counted by.

The wall clock may be wrong at a start, be put right later, or back; by it a batch could be given up or an id forgotten
that was used a moment ago, or neither ever. So each sign of life notes the uptime, and a start goes on from the latest
one that the ledger has. What has passed since that one, before the stop, is not counted: things live that much longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.clock import Clock


class Uptime:
    """Goes on from `so_far_ms`."""

    def __init__(self, clock: Clock, so_far_ms: int) -> None:
        self._clock = clock
        self._before_ms = so_far_ms - clock.monotonic_ms()

    def now_ms(self) -> int:
        """Milliseconds. Never goes back, nor, within one run, jumps ahead."""
        return self._before_ms + self._clock.monotonic_ms()

"""The clock of a simulated host: the loop's time, and a wall clock that may be set."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.testing.sim.loop import SimLoop

_START_MS = 1_700_000_000_000


class SimClock:
    """A `Clock`. `wrong_by_ms` is how far its wall time is off."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.wrong_by_ms = 0

    def now_ms(self) -> int:
        return _START_MS + self.wrong_by_ms + int(self._loop.time() * 1000)

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def thread_cpu_ns(self) -> int:
        """Nothing costs any."""
        return 0

    def sleep_ms(self, duration_ms: int) -> None:
        """Nobody who runs on a loop may block it."""
        raise AssertionError(f"the loop would be blocked for {duration_ms} ms")

"""A clock that stands still until a test moves it."""

from __future__ import annotations

_START_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z: a round number far from any edge of a day or month


class ManualClock:
    """A `Clock` that moves by `advance` and `sleep_ms`; its wall time alone by `set_now_ms`."""

    def __init__(self, now_ms: int = _START_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def thread_cpu_ns(self) -> int:
        """Nothing costs any."""
        return 0

    def sleep_ms(self, duration_ms: int) -> None:
        """Returns at once, with the time moved on by as much."""
        self.advance(ms=duration_ms)

    def advance(self, *, ms: int = 0, seconds: float = 0, hours: float = 0) -> None:
        """Lets time go by. Never back: that is what `set_now_ms` is for."""
        step_ms = ms + round(seconds * 1000) + round(hours * 3_600_000)
        if step_ms < 0:
            raise ValueError("Time does not go back; to set the wall clock back use set_now_ms.")
        self._now_ms += step_ms
        self._monotonic_ms += step_ms

    def set_now_ms(self, now_ms: int) -> None:
        """Sets the wall clock, forward or back, as an operator or NTP would. Monotonic time takes no notice."""
        self._now_ms = now_ms

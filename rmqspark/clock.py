"""The only place that reads the time. Everything else is given a `Clock`; tests give a manual one."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is written down, monotonic time for what is waited for."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970 UTC."""

    def monotonic_ms(self) -> int:
        """A clock that never goes back; only differences mean something."""

    def thread_cpu_ns(self) -> int:
        """Processor time of the calling thread; only differences mean something."""

    def sleep_ms(self, duration_ms: int) -> None:
        """Blocks the calling thread. Servers never call it."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def thread_cpu_ns(self) -> int:
        return time.thread_time_ns()

    def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)


def sleep_us(duration_us: int) -> None:
    """Blocks the calling thread for a moment too short to be waited for by anybody's clock."""
    time.sleep(duration_us / 1_000_000)


class SteadyClock:
    """The wall clock as it is now, and from now on as much later as time has passed: whoever sets the clock forward or
    back meanwhile makes nothing come due early, or never."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()

    def now_ms(self) -> int:
        return self._clock.monotonic_ms() + self._ahead_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def thread_cpu_ns(self) -> int:
        return self._clock.thread_cpu_ns()

    def sleep_ms(self, duration_ms: int) -> None:
        self._clock.sleep_ms(duration_ms)


class Punctuality:
    """How late rounds come that are to come every `interval_ms`. A process that was stopped for a while, as by SIGSTOP,
    comes late, and has heard nothing of what was said to it meanwhile."""

    def __init__(self, clock: Clock, interval_ms: int) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._due_ms = clock.monotonic_ms() + interval_ms

    def late_ms(self) -> int:
        """To be asked as a round begins; 0 where it is not late by as much as another round."""
        now_ms = self._clock.monotonic_ms()
        late_ms, self._due_ms = now_ms - self._due_ms, now_ms + self._interval_ms
        return late_ms if late_ms > self._interval_ms else 0

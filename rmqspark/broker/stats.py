"""What a broker counts, and the rates over 10 seconds, a minute and ten minutes. Pure: told what time it is, by a clock
that nobody sets.

RocketMQ: StoreStatsService, BrokerStats; spec: requests, section 7 (code 28).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

_WINDOWS = (1, 6, 60)  # samples: 10 s, 1 min, 10 min
_DAY_MS = 86_400_000


class Counts(NamedTuple):
    """Totals since start."""

    puts: int = 0
    put_bytes: int = 0
    failed_puts: int = 0
    gets_found: int = 0  # pulls that brought messages
    gets_missed: int = 0
    transferred: int = 0  # messages handed out


class BrokerStats:
    """Running totals and their history. `sample` is to be called about every ten seconds."""

    def __init__(self, *, now_ms: int) -> None:
        self.boot_ms = now_ms
        self.puts = self.put_bytes = self.failed_puts = 0
        self.gets_found = self.gets_missed = self.transferred = 0
        self._samples: deque[tuple[int, Counts]] = deque([(now_ms, Counts())], maxlen=_WINDOWS[-1] + 1)
        self._day = now_ms // _DAY_MS
        self.today_morning = self.yesterday_morning = Counts()

    def count_puts(self, messages: int, size_bytes: int) -> None:
        self.puts += messages
        self.put_bytes += size_bytes

    def count_failed_puts(self, messages: int) -> None:
        self.failed_puts += messages

    def count_get(self, messages: int) -> None:
        if messages:
            self.gets_found += 1
            self.transferred += messages
        else:
            self.gets_missed += 1

    def totals(self) -> Counts:
        return Counts(self.puts, self.put_bytes, self.failed_puts, self.gets_found, self.gets_missed, self.transferred)

    def sample(self, now_ms: int) -> None:
        """Remembers the totals of this moment; at midnight (UTC) also as those of the morning."""
        totals = self.totals()
        self._samples.append((now_ms, totals))
        if now_ms // _DAY_MS > self._day:
            self._day = now_ms // _DAY_MS
            self.yesterday_morning, self.today_morning = self.today_morning, totals

    def per_second(self, name: str) -> tuple[float, float, float]:
        """Rates of one counter over the last 10 s, 1 min and 10 min, as far back as there are samples."""
        return tuple(self._rate(name, samples) for samples in _WINDOWS)  # type: ignore[return-value] # three windows

    def _rate(self, name: str, samples: int) -> float:
        end_ms, end = self._samples[-1]
        begin_ms, begin = self._samples[max(-len(self._samples), -1 - samples)]
        elapsed = (end_ms - begin_ms) / 1000
        return float(getattr(end, name) - getattr(begin, name)) / elapsed if elapsed > 0 else 0.0

"""How counters stood over the last minute, hour and day. Pure: told what time it is, by a clock that never goes back.

RocketMQ: StatsItem. All counters are sampled every ten seconds, ten minutes and hour; what is told lies between the
first and the last sample of a window, and so is nothing of a day before an hour is over. A counter that came later than
a window's first sample was 0 at the one before it came.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_EVERY_SAMPLE: Final = 0
_WINDOWS: Final = ((_EVERY_SAMPLE, 7), (600_000, 7), (3_600_000, 25))
"""Milliseconds between two samples, and how many there are: of a minute, an hour and a day."""


class Moved(NamedTuple):
    """By how much a counter's numbers grew, and in which time."""

    elapsed_ms: int
    by: tuple[int, ...]


class _Sample(NamedTuple):
    at_ms: int
    numbers: NDArray[np.int64]
    """One row for each counter that was known. Samples of idle counters share it."""


class _Window:
    def __init__(self, period_ms: int, most: int, beginning: _Sample) -> None:
        self._period_ms = period_ms
        self._samples = deque([beginning], maxlen=most)

    def take(self, sample: _Sample) -> None:
        if sample.at_ms - self._samples[-1].at_ms >= self._period_ms:
            self._samples.append(sample)

    def forget(self, rows: Sequence[int]) -> None:
        kept: deque[_Sample] = deque(maxlen=self._samples.maxlen)
        for at_ms, numbers in self._samples:
            kept.append(_Sample(at_ms, np.delete(numbers, [row for row in rows if row < len(numbers)], axis=0)))
        self._samples = kept

    def moved(self, row: int) -> Moved:
        last = self._samples[-1]
        for before, after in pairwise(self._samples):
            if row < len(after.numbers):
                grown = last.numbers[row] - (before.numbers[row] if row < len(before.numbers) else 0)
                return Moved(last.at_ms - before.at_ms, tuple(np.maximum(0, grown).tolist()))
        return Moved(0, (0,) * last.numbers.shape[1])


class History:
    """Of counters by key, each of `width` numbers."""

    def __init__(self, width: int, now_ms: int) -> None:
        self._width = width
        self._rows: dict[str, int] = {}
        self._last = np.empty((0, width), np.int64)
        beginning = _Sample(now_ms, self._last)
        self._windows = [_Window(period_ms, most, beginning) for period_ms, most in _WINDOWS]

    def sample(self, now_ms: int, totals: Mapping[str, Sequence[int]]) -> None:
        """Takes all counters as they stand now; one that is not among them is forgotten. To be called every ten
        seconds."""
        self._forget([key for key in self._rows if key not in totals])
        for key in totals:
            self._rows.setdefault(key, len(self._rows))
        flat = np.fromiter(chain.from_iterable(totals[key] for key in self._rows), np.int64)
        numbers = flat.reshape(-1, self._width)
        if not np.array_equal(numbers, self._last):
            self._last = numbers
        for window in self._windows:
            window.take(_Sample(now_ms, self._last))

    def moved(self, key: str) -> tuple[Moved, ...] | None:
        """In the last minute, hour and day. None for a counter that no sample knows."""
        row = self._rows.get(key)
        return None if row is None else tuple(window.moved(row) for window in self._windows)

    def _forget(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        rows = [self._rows[key] for key in keys]
        for window in self._windows:
            window.forget(rows)
        for key in keys:
            del self._rows[key]
        self._rows = {key: row for row, key in enumerate(self._rows)}

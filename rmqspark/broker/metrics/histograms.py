"""A histogram with fixed bounds, as Prometheus has them: how many values are at most so large, and their sum. Pure."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


class Histogram:
    """`counts` has one item more than there are `bounds`: for what is above all of them."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0

    def record(self, value: int, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def record_all(self, values: NDArray[np.signedinteger]) -> None:
        """Many at once."""
        if not len(values):
            return
        self.total += int(values.sum(dtype=np.int64))
        if values.max() <= self.bounds[0]:  # nearly always
            self.counts[0] += len(values)
            return
        found = np.bincount(np.searchsorted(self.bounds, values, side="left"), minlength=len(self.counts))
        self.counts = [known + more for known, more in zip(self.counts, found.tolist(), strict=True)]

    def minus(self, others: Iterable[Histogram]) -> Histogram:
        """What is in this one and not in others that it has taken in; nowhere below 0."""
        rest = Histogram(self.bounds)
        rest.counts, rest.total = self.counts, self.total
        for other in others:
            rest.counts = [count - less for count, less in zip(rest.counts, other.counts, strict=True)]
            rest.total -= other.total
        rest.counts, rest.total = [max(0, count) for count in rest.counts], max(0, rest.total)
        return rest

    def at_least(self, other: Histogram) -> None:
        """Takes over what the other has more of."""
        self.counts = list(map(max, self.counts, other.counts))
        self.total = max(self.total, other.total)

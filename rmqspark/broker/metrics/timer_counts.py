"""Timed messages as they come in and go out, by their topic. RocketMQ: TimerMetrics, DefaultStoreMetricsManager.

A message that is recalled waits on here until its time, and then counts as one whose time came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.metrics.families import DELAY_LATENCY, LOCAL_DISK, TIMER_DEQUEUE, TIMER_ENQUEUE, TIMING
from rmqspark.broker.metrics.histograms import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.metrics.figures import Figures


class _Topic:
    __slots__ = ("gone", "taken_in", "waiting", "waits_s")

    def __init__(self) -> None:
        self.waiting = self.taken_in = self.gone = 0
        self.waits_s = Histogram(DELAY_LATENCY.bounds)


class TimerCounts:
    """What waits, and what came and went since the broker started."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}

    def taken_in(self, topic: str, wait_ms: int, *, is_new: bool) -> None:
        """One that is to wait so long from its birth on; those that were there at the start are not new."""
        counts = self._topics.setdefault(topic, _Topic())
        counts.waiting += 1
        if is_new:
            counts.taken_in += 1
            counts.waits_s.record(max(0, wait_ms) // 1000)

    def time_came(self, topic: str) -> None:
        counts = self._topics.setdefault(topic, _Topic())
        counts.waiting -= 1
        counts.gone += 1

    def forget(self, is_there: Callable[[str], bool]) -> None:
        """Drops topics that are gone, when nothing waits for them any more."""
        self._topics = {topic: counts for topic, counts in self._topics.items() if counts.waiting or is_there(topic)}

    def tell(self, figures: Figures) -> None:
        for topic, counts in self._topics.items():
            labels = (topic, *LOCAL_DISK)
            figures.add(TIMING, labels, counts.waiting)
            if counts.taken_in:
                figures.add(TIMER_ENQUEUE, labels, counts.taken_in)
                figures.add_histogram(DELAY_LATENCY, labels, counts.waits_s)
            if counts.gone:
                figures.add(TIMER_DEQUEUE, labels, counts.gone)

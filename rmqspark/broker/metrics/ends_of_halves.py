"""How half messages of stock producers ended, by their topic. RocketMQ: EndTransactionProcessor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.metrics.families import COMMITS, FINISH_LATENCY, ROLLBACKS
from rmqspark.broker.metrics.histograms import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.metrics.figures import Figures


class EndsOfHalves:
    """Those that ended since the broker started."""

    def __init__(self) -> None:
        self._commits: dict[str, Histogram] = {}
        self._rollbacks: dict[str, int] = {}

    def committed(self, topic: str, age_ms: int) -> None:
        """So long after it was born."""
        ages_s = self._commits.get(topic)
        if ages_s is None:
            ages_s = self._commits[topic] = Histogram(FINISH_LATENCY.bounds)
        ages_s.record(max(0, age_ms) // 1000)

    def rolled_back(self, topic: str) -> None:
        self._rollbacks[topic] = self._rollbacks.get(topic, 0) + 1

    def forget(self, is_there: Callable[[str], bool]) -> None:
        """Drops topics that are gone: nobody fills a broker's memory with names."""
        self._commits = {topic: ages_s for topic, ages_s in self._commits.items() if is_there(topic)}
        self._rollbacks = {topic: count for topic, count in self._rollbacks.items() if is_there(topic)}

    def tell(self, figures: Figures) -> None:
        for topic, ages_s in self._commits.items():
            figures.add(COMMITS, (topic,), sum(ages_s.counts))
            figures.add_histogram(FINISH_LATENCY, (topic,), ages_s)
        for topic, count in self._rollbacks.items():
            figures.add(ROLLBACKS, (topic,), count)

"""What one scrape has gathered: plain values by family, which any thread may make text of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rmqspark.broker.metrics.families import Family
    from rmqspark.broker.metrics.histograms import Histogram


class Sample(NamedTuple):
    """One series. `counts` are those of a histogram, whose sum is `value`; `labels` None is the series for what was
    beyond the limit."""

    labels: tuple[str, ...] | None
    value: float
    counts: tuple[int, ...] = ()


class Figures:
    """Takes what is wanted; `off` names the settings whose families are not. All series have the `common` labels."""

    def __init__(self, common: Mapping[str, str], off: Collection[str] = ()) -> None:
        self.common = dict(common)
        self._off = off
        self.families: dict[Family, list[Sample]] = {}

    def wants(self, family: Family) -> bool:
        return family.switch not in self._off

    def add(self, family: Family, labels: tuple[str, ...] | None, value: float) -> None:
        if self.wants(family):
            self.families.setdefault(family, []).append(Sample(labels, value))

    def add_histogram(self, family: Family, labels: tuple[str, ...], histogram: Histogram) -> None:
        if self.wants(family):
            sample = Sample(labels, histogram.total, tuple(histogram.counts))
            self.families.setdefault(family, []).append(sample)


def word(value: bool) -> str:
    """As labels say it."""
    return "true" if value else "false"

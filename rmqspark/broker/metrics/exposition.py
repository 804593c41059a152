"""Figures in Prometheus' text format. Imports prometheus-client, so it is imported when it is first asked for."""

from __future__ import annotations

import asyncio
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from rmqspark.broker.metrics.families import Family
    from rmqspark.broker.metrics.figures import Figures, Sample

_SCOPE: Final = {"otel_scope_name": "broker-meter"}
_OVERFLOW: Final = {"otel_metric_overflow": "true"}
_SAMPLES_AT_ONCE: Final = 50  # a millisecond or two
_HEADER_LINES: Final = 2  # HELP and TYPE


class _One(NamedTuple):
    """A registry with one metric, for `generate_latest`."""

    metric: Metric

    def collect(self) -> Iterator[Metric]:
        yield self.metric


async def text_of(figures: Figures) -> AsyncIterator[bytes]:
    """All there is, family by family, piece by piece, with looks at what else there is to do in between: a line takes
    some 20 µs, and there may be tens of thousands."""
    for family, samples in figures.families.items():
        common = figures.common if family.is_ours else {**_SCOPE, **figures.common}
        for name in filter(None, (family.name, family.alias)):
            for first in range(0, len(samples), _SAMPLES_AT_ONCE):
                metric = _metric(family, name, samples[first : first + _SAMPLES_AT_ONCE], common)
                text = generate_latest(cast("CollectorRegistry", _One(metric)))
                yield text.split(b"\n", _HEADER_LINES)[_HEADER_LINES] if first else text
                await asyncio.sleep(0)


def _metric(family: Family, name: str, samples: Sequence[Sample], common: dict[str, str]) -> Metric:
    metric = Metric(name, f"{family.meaning}.", family.kind)
    bounds = [*map(floatToGoString, family.bounds), "+Inf"]
    for sample in samples:
        own = _OVERFLOW if sample.labels is None else dict(zip(family.labels, sample.labels, strict=True))
        labels = {**common, **own}
        if family.kind != "histogram":
            metric.add_sample(family.exposed if name == family.name else name, labels, sample.value)
            continue
        counts = list(accumulate(sample.counts))
        for bound, count in zip(bounds, counts, strict=True):
            metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, count)
        metric.add_sample(f"{name}_count", labels, counts[-1])
        metric.add_sample(f"{name}_sum", labels, sample.value)
    return metric

"""Numbers by labels, so many series at most: beyond, all that is counted goes into one. Pure.

RocketMQ: OpenTelemetry's cardinality limit, and its series with `otel_metric_overflow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.metrics.turns import Turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_AT_ONCE: Final = 200


class Tally:
    """`width` numbers for each key, all 0 at first. `overflow` has what no key was left for."""

    def __init__(self, limit: int, width: int = 1) -> None:
        self._limit = limit
        self._width = width
        self._series: dict[tuple[str, str], list[int]] = {}
        self.overflow = [0] * width

    def __len__(self) -> int:
        return len(self._series)

    def of(self, key: tuple[str, str]) -> list[int]:
        """The numbers of a key, to be added to."""
        series = self._series.get(key)
        if series is not None:
            return series
        if len(self._series) >= self._limit:
            return self.overflow
        series = self._series[key] = [0] * self._width
        return series

    def items(self) -> list[tuple[tuple[str, str], list[int]]]:
        return list(self._series.items())

    async def of_those(self, is_there: Callable[[str, str], bool]) -> AsyncIterator[tuple[tuple[str, str], list[int]]]:
        """The same, a few a turn of the loop; what is counted of a topic or group that is gone is dropped on the
        way."""
        turns = Turns(_AT_ONCE)
        for key, series in self.items():
            await turns.did()
            if is_there(*key):
                yield key, series
            else:
                self._series.pop(key, None)

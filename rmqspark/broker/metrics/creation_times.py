"""How long it takes to make topics and groups, and how it went. RocketMQ: AdminBrokerProcessor, InvocationStatus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.metrics.families import GROUP_CREATION, TOPIC_CREATION
from rmqspark.broker.metrics.figures import word
from rmqspark.broker.metrics.histograms import Histogram

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rmqspark.broker.metrics.families import Family
    from rmqspark.broker.metrics.figures import Figures
    from rmqspark.clock import Clock


class Creation:
    """One request that makes topics or groups: it began when this was made, and ends when what it made is kept, or with
    `failed` before that."""

    def __init__(self, times: CreationTimes, family: Family, labels: tuple[str, ...], began_ms: int) -> None:
        self._times = times
        self._family = family
        self._labels = labels
        self._began_ms = began_ms

    async def until(self, keep: Callable[[], Awaitable[None]]) -> None:
        """Ends it with this, which is the last of it. Raises what that raises."""
        try:
            await keep()
        except BaseException:  # also of a request that is cancelled: it is counted, and raised on
            self.failed()
            raise
        self._ended("success")

    def failed(self) -> None:
        self._ended("failure")

    def _ended(self, status: str) -> None:
        self._times.note(self._family, (status, *self._labels), self._began_ms)


class CreationTimes:
    """Measures requests from their beginning to their answer, refused ones, too."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[tuple[Family, tuple[str, ...]], Histogram] = {}

    def of_topic(self, *, is_system: bool = False) -> Creation:
        """One that begins now."""
        return Creation(self, TOPIC_CREATION, (word(is_system),), self._clock.monotonic_ms())

    def of_group(self) -> Creation:
        """The same of a group."""
        return Creation(self, GROUP_CREATION, (), self._clock.monotonic_ms())

    def note(self, family: Family, labels: tuple[str, ...], began_ms: int) -> None:
        """That it ended now."""
        times = self._times.setdefault((family, labels), Histogram(family.bounds))
        times.record(self._clock.monotonic_ms() - began_ms)

    def tell(self, figures: Figures) -> None:
        for (family, labels), times in self._times.items():
            figures.add_histogram(family, labels, times)

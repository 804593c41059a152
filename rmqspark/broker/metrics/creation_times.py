"""How long it takes to make topics and groups, and how it went. RocketMQ: AdminBrokerProcessor, InvocationStatus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqspark.broker.metrics.families import GROUP_CREATION, TOPIC_CREATION
from rmqspark.broker.metrics.figures import word
from rmqspark.broker.metrics.histograms import Histogram
from rmqspark.broker.metrics.if_memory_allows import IF_MEMORY_ALLOWS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from rmqspark.broker.metrics.families import Family
    from rmqspark.broker.metrics.figures import Figures
    from rmqspark.clock import Clock
    from rmqspark.remoting.reply import Reply

    Answering = Coroutine[Any, Any, Reply]


class CreationTimes:
    """Measures requests from their beginning to their answer, refused ones, too."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[tuple[Family, tuple[str, ...]], Histogram] = {}

    def of_topic(self, work: Callable[[], Answering], *, is_system: bool = False) -> Awaitable[Reply]:
        """Does it, and notes how long that took."""
        return self._timed(TOPIC_CREATION, work, (word(is_system),))

    def of_group(self, work: Callable[[], Answering]) -> Awaitable[Reply]:
        """The same of a group."""
        return self._timed(GROUP_CREATION, work, ())

    def tell(self, figures: Figures) -> None:
        for (family, labels), times in self._times.items():
            figures.add_histogram(family, labels, times)

    def _timed(self, family: Family, work: Callable[[], Answering], labels: tuple[str, ...]) -> Awaitable[Reply]:
        """What `work` does at once it does at once."""
        began_ms = self._clock.monotonic_ms()
        try:
            rest = work()
        except Exception:
            self._note(family, ("failure", *labels), began_ms)
            raise
        return self._awaited(family, rest, labels, began_ms)

    async def _awaited(self, family: Family, rest: Answering, labels: tuple[str, ...], began_ms: int) -> Reply:
        try:
            reply = await rest
        except Exception:
            rest.close()  # where it is this that failed: or it would go on holding what it waits with
            self._note(family, ("failure", *labels), began_ms)
            raise
        with IF_MEMORY_ALLOWS:
            self._note(family, ("success", *labels), began_ms)
        return reply

    def _note(self, family: Family, labels: tuple[str, ...], began_ms: int) -> None:
        times = self._times.setdefault((family, labels), Histogram(family.bounds))
        times.record(self._clock.monotonic_ms() - began_ms)

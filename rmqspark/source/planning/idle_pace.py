"""How soon an idle query looks for messages again.

Spark asks for the next end as soon as a query has nothing to do, and then every ten milliseconds. With a few queues a
look costs one, with a thousand it costs ten: an idle query would take a core from those that are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.clock import Clock
    from rmqspark.source.offsets import Offsets

REST_FACTOR: Final = 4
"""A look that found nothing is followed by a rest this many times as long."""

MOST_REST_MS: Final = 100
"""A look may wait for a broker that hangs, and messages are not to wait for that, too."""


class IdlePace:
    """Belongs to one query. A look that it lets through is made afresh: what was sent before it is found."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_ms = clock.monotonic_ms()

    def end_of(self, start: Offsets, look: Callable[[Offsets], Offsets]) -> Offsets:
        """What `look` says is the end of the batch that begins at `start`, once that look is due."""
        if (early_ms := self._due_ms - self._clock.monotonic_ms()) > 0:
            self._clock.sleep_ms(early_ms)
        begun_ms = self._clock.monotonic_ms()
        end = look(start)
        ended_ms = self._clock.monotonic_ms()
        rest_ms = min(REST_FACTOR * (ended_ms - begun_ms), MOST_REST_MS) if end == start else 0
        self._due_ms = ended_ms + rest_ms
        return end

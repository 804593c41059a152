"""How fast groups consume, from how their committed offsets move. Pure: told what time it is, by a clock that
never goes back.

The offsets as they were half a minute to a minute ago are compared with those of now. A queue whose offset went back
(a reset), or which the group committed for the first time since, is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rmqspark.broker.state.offsets import ConsumerOffsets

WINDOW_MS: Final = 30_000


class ConsumptionRates:
    """Messages a second by group and topic. `sample` is to be called every some seconds."""

    def __init__(self, offsets: ConsumerOffsets, monotonic_ms: int) -> None:
        self._offsets = offsets
        self._base = self._next = (monotonic_ms, offsets.snapshot())

    def sample(self, monotonic_ms: int) -> None:
        """Takes the offsets of now as the ones to compare with later."""
        if monotonic_ms - self._next[0] >= WINDOW_MS:
            self._base, self._next = self._next, (monotonic_ms, self._offsets.snapshot())

    def per_second(self, group: str, topic: str, monotonic_ms: int) -> float:
        """Over the last half minute or more; 0.0 where nothing moved."""
        since_ms, snapshot = self._base
        before = snapshot.get((topic, group), {})
        committed = self._offsets.committed_queues(group, topic)
        moved = sum(max(0, offset - before.get(queue_id, offset)) for queue_id, offset in committed.items())
        return moved * 1000 / max(1, monotonic_ms - since_ms)

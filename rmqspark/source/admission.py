"""How much of what waits goes into the next micro-batch: maxOffsetsPerTrigger, maxBytesPerTrigger, and
minOffsetsPerTrigger with maxTriggerDelay, all together.

What is remembered here (when the last batch was made, whose turn it was) is fairness, not correctness: after a restart
the first batch comes at once, and turns go on from a place that the offset gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqspark.source.planner import QueueRange
from rmqspark.source.shares import share, share_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.client.measuring import Extent
    from rmqspark.clock import Clock
    from rmqspark.model import MessageQueue
    from rmqspark.source.shares import Budget

    MeasureRanges = Callable[[Sequence[tuple[QueueRange, int]]], Sequence[Extent]]

DEFAULT_MAX_DELAY_MS = 900_000


@dataclass(frozen=True)
class Limits:
    """What a micro-batch may hold at most, and what it waits for: so many messages, or so long since the last one."""

    max_rows: int | None = None
    max_bytes: int | None = None
    min_rows: int | None = None
    max_delay_ms: int = DEFAULT_MAX_DELAY_MS


class Admission:
    """Decides batch after batch. `measure` asks how far budgets of bytes reach into ranges of queues."""

    def __init__(self, measure: MeasureRanges, clock: Clock) -> None:
        self._measure = measure
        self._clock = clock
        self._last_batch_ms: int | None = None
        self._served: MessageQueue | None = None  # the last one that came before others

    def admit(self, backlogs: Sequence[QueueRange], limits: Limits) -> list[int]:
        """How many messages of each queue are let through; none while it is worth waiting for more."""
        waiting = [backlog for backlog in backlogs if backlog.size]
        if not waiting or self._should_wait(sum(backlog.size for backlog in waiting), limits):
            return [0] * len(backlogs)
        self._last_batch_ms = self._clock.monotonic_ms()
        let_through = iter(self._limited(waiting, limits))
        return [next(let_through) if backlog.size else 0 for backlog in backlogs]

    def _should_wait(self, rows: int, limits: Limits) -> bool:
        if limits.min_rows is None or rows >= limits.min_rows or self._last_batch_ms is None:
            return False
        return self._clock.monotonic_ms() - self._last_batch_ms < limits.max_delay_ms

    def _limited(self, waiting: Sequence[QueueRange], limits: Limits) -> list[int]:
        sizes = [backlog.size for backlog in waiting]
        if limits.max_bytes is None:
            if limits.max_rows is None or limits.max_rows >= sum(sizes):
                return sizes
            return share(sizes, limits.max_rows, self._next_first(waiting, limits.max_rows))
        first = self._next_first(waiting, 1)
        if limits.max_rows is not None:
            sizes = share(sizes, limits.max_rows, first)

        def measure(budgets: Sequence[Budget]) -> Sequence[Extent]:
            return self._measure(
                [(QueueRange(waiting[number].queue, start, end), budget) for number, start, end, budget in budgets]
            )

        starts = [backlog.start for backlog in waiting]
        return share_bytes(starts, sizes, limits.max_bytes, measure, first=sum(size > 0 for size in sizes[:first]))

    def _next_first(self, waiting: Sequence[QueueRange], count: int) -> int:
        """The number of the queue behind those that came first last time; `count` come first now.

        By name, round and round, so each that waits comes first within as many batches as there are queues, whichever
        others come and go.
        """
        if self._served is None:
            first = sum(backlog.start for backlog in waiting) % len(waiting)
        else:
            served = self._served
            first = next((index for index, backlog in enumerate(waiting) if backlog.queue > served), 0)
        self._served = waiting[(first + count - 1) % len(waiting)].queue
        return first

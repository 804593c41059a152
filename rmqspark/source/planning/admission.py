"""How much of what waits goes into the next micro-batch: maxOffsetsPerTrigger, maxBytesPerTrigger, and
minOffsetsPerTrigger with maxTriggerDelay, all together.

What is remembered here (when the last batch was made, whose turn it was) is fairness, not correctness: after a restart
the first batch comes at once, and turns go on from a place that the offset gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqspark.source.planning.shares import share, share_bytes
from rmqspark.source.queue_range import QueueRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.client.cluster.measuring import Extent
    from rmqspark.clock import Clock
    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.planning.shares import Budget

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
        self._served: MessageQueue | None = None  # the last one of those whose turn it was

    def admit(self, backlogs: Sequence[QueueRange], limits: Limits) -> list[int]:
        """How many messages of each queue are let through; none while it is worth waiting for more."""
        waiting = [backlog for backlog in backlogs if backlog.size]
        if not waiting or self._should_wait(sum(backlog.size for backlog in waiting), limits):
            return [0] * len(backlogs)
        let_through = iter(self._limited(waiting, limits))
        self._last_batch_ms = self._clock.monotonic_ms()  # not before: a broker that cannot be asked makes no batch
        return [next(let_through) if backlog.size else 0 for backlog in backlogs]

    def _should_wait(self, rows: int, limits: Limits) -> bool:
        if limits.min_rows is None or rows >= limits.min_rows or self._last_batch_ms is None:
            return False
        return self._clock.monotonic_ms() - self._last_batch_ms < limits.max_delay_ms

    def _limited(self, waiting: Sequence[QueueRange], limits: Limits) -> list[int]:
        counts = [backlog.size for backlog in waiting]
        first = self._first(waiting)
        if limits.max_rows is not None:
            counts = share(counts, limits.max_rows, first)
        if limits.max_bytes is not None:
            counts = self._within_bytes(waiting, counts, limits.max_bytes, first)
        self._note_served(waiting, counts, first)
        return counts

    def _within_bytes(self, waiting: Sequence[QueueRange], counts: list[int], max_bytes: int, first: int) -> list[int]:
        def measure(budgets: Sequence[Budget]) -> Sequence[Extent]:
            return self._measure(
                [(QueueRange(waiting[number].queue, start, end), budget) for number, start, end, budget in budgets]
            )

        starts = [backlog.start for backlog in waiting]
        return share_bytes(starts, counts, max_bytes, measure, first=sum(count > 0 for count in counts[:first]))

    def _first(self, waiting: Sequence[QueueRange]) -> int:
        """The number of the queue whose turn it is: the next one, by name and round and round, behind those served."""
        served = self._served
        if served is None:
            return sum(backlog.start for backlog in waiting) % len(waiting)
        return next((number for number, backlog in enumerate(waiting) if backlog.queue > served), 0)

    def _note_served(self, waiting: Sequence[QueueRange], counts: Sequence[int], first: int) -> None:
        """The turn goes on with the first that got nothing. Whose turn it is always gets something, so none waits for
        more batches than there are queues, whichever others come and go."""
        for number in (*range(first, len(waiting)), *range(first)):
            if not counts[number]:
                break
            self._served = waiting[number].queue

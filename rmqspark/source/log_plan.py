"""Dealing messages to tasks by where they lie in the log, over all queues. Pure, but for entries that are looked at.

Busy queues take turns in the log. A task for each queue would have each of them read the same bytes and keep its share;
a task for each stretch of the log reads its bytes once. So the stretches are chosen such that each holds about as many
of the wanted messages, and a task gets from every queue what lies in its stretch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.source.planner import QueueRange, split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqspark.model import MessageQueue
    from rmqspark.protocol.spans import Positions
    from rmqspark.store.consume_queue import Entries
    from rmqspark.store.direct.lanes import EntrySource

_LOOKED_AT_IN_ONE_GO: Final = 1 << 15  # entries; 640 KiB
_SAMPLES: Final = 256  # of a queue
_BEHIND_ALL: Final = np.iinfo(np.int64).max


def stretches(
    queues: Mapping[MessageQueue, EntrySource | None], ranges: Sequence[QueueRange], count: int, max_records: int
) -> list[list[QueueRange]]:
    """The ranges of some `count` tasks, none with more than `max_records`. A queue without files has a task to itself.

    Raises OSError or StoreError.
    """
    tasks = [[wanted] for wanted in ranges if queues[wanted.queue] is None]
    found = [Places(queue, wanted) for wanted in ranges if (queue := queues[wanted.queue]) is not None]
    tasks += _deal(found, count)
    return [part for task in tasks for part in _bounded(queues, task, max_records)]


def _bounded(
    queues: Mapping[MessageQueue, EntrySource | None], task: list[QueueRange], max_records: int
) -> list[list[QueueRange]]:
    """The task cut in halves, in the log, until no part is too large; by queues where that leads no further."""
    if sum(wanted.size for wanted in task) <= max_records:
        return [task]
    places = [Places(queue, wanted) for wanted in task if (queue := queues[wanted.queue]) is not None]
    halves = _deal(places, 2) if len(places) == len(task) else []
    if len(halves) < 2:
        return [[piece] for piece in split(task, max_records=max_records)]
    return [part for half in halves for part in _bounded(queues, half, max_records)]


class Places:
    """Where the messages of one range lie in the log. Of a long range only some entries are looked at."""

    def __init__(self, queue: EntrySource, wanted: QueueRange) -> None:
        self._queue = queue
        self.wanted = wanted
        short = wanted.size <= _LOOKED_AT_IN_ONE_GO
        self._all = _positions(queue.entries(wanted.start, wanted.end)) if short else None

    def sample(self) -> Positions:
        """Physical offsets of evenly spaced messages of the range."""
        if self._all is not None:
            return self._all[:: -(-len(self._all) // _SAMPLES)]
        _, start, end = self.wanted
        offsets = (start + (end - start) * step // _SAMPLES for step in range(_SAMPLES))
        return np.concatenate([_positions(self._queue.entries(offset, offset + 1)) for offset in offsets])

    def first_from(self, physical_offset: int) -> int:
        """The first offset of the range whose message lies at or behind that place; the range's end if none does."""
        _, low, high = self.wanted
        while self._all is None and high - low > _LOOKED_AT_IN_ONE_GO // 16:
            middle = (low + high) // 2
            if _positions(self._queue.entries(middle, middle + 1))[0] < physical_offset:
                low = middle + 1
            else:
                high = middle
        positions = self._all if self._all is not None else _positions(self._queue.entries(low, high))
        return low + int(np.searchsorted(positions, physical_offset))


def _deal(places: Sequence[Places], count: int) -> list[list[QueueRange]]:
    """The ranges of at most `count` tasks, which follow each other in the log."""
    if not places:
        return []
    cuts = _quantiles([each.sample() for each in places], [each.wanted.size for each in places], count)
    bounds = [[each.wanted.start, *(each.first_from(cut) for cut in cuts), each.wanted.end] for each in places]
    tasks = [
        [
            QueueRange(each.wanted.queue, edges[number], edges[number + 1])
            for each, edges in zip(places, bounds, strict=True)
            if edges[number] < edges[number + 1]
        ]
        for number in range(len(cuts) + 1)
    ]
    return [ranges for ranges in tasks if ranges]


def _quantiles(samples: Sequence[Positions], sizes: Sequence[int], count: int) -> list[int]:
    """Places that cut all messages into `count` shares of about one size."""
    positions = np.concatenate(samples)
    weights = np.concatenate([np.full(len(some), size / len(some)) for some, size in zip(samples, sizes, strict=True)])
    order = np.argsort(positions, kind="stable")
    passed = np.cumsum(weights[order])
    rows = np.searchsorted(passed, [passed[-1] * share / count for share in range(1, count)])
    return sorted(set(positions[order][rows].tolist()))


def _positions(entries: Entries) -> Positions:
    """Where messages lie. Entries that the broker has not written yet belong to the newest: behind all others."""
    positions = np.where(entries["size"] > 0, entries["physical_offset"], _BEHIND_ALL).astype(np.int64)
    return np.maximum.accumulate(positions)

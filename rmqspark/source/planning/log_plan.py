"""Dealing messages to tasks by where they lie in the log, over all queues. Pure, but for entries that are looked at.

Busy queues take turns in the log. A task for each queue would have each of them read the same bytes and keep its share;
a task for each stretch of the log reads its bytes once. So the stretches are chosen such that each holds about as many
of the wanted messages, and a task gets from every queue what lies in its stretch.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.source.planning.dealing import split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.source.queue_range import QueueRange
    from rmqspark.store.direct.lanes import EntrySource

_LOOKED_AT_IN_ONE_GO: Final = 1 << 15  # entries; 640 KiB
_SEARCHED_IN_ONE_GO: Final = 1 << 11
_SAMPLES: Final = 256  # of a queue
_BEHIND_ALL: Final = np.iinfo(np.int64).max


def stretches(
    queues: Mapping[MessageQueue, EntrySource | None], ranges: Sequence[QueueRange], count: int, max_records: int
) -> list[list[QueueRange]]:
    """The ranges of some `count` tasks, none with more than `max_records`. A queue without files has a task to itself.

    Raises OSError or StoreError.
    """
    tasks = [[wanted] for wanted in ranges if queues[wanted.queue] is None]
    found = [_Places(queue, wanted) for wanted in ranges if (queue := queues[wanted.queue]) is not None]
    tasks += _deal(found, count)
    return [part for task in tasks for part in _bounded(queues, task, max_records)]


def _bounded(
    queues: Mapping[MessageQueue, EntrySource | None], task: list[QueueRange], max_records: int
) -> list[list[QueueRange]]:
    """The task cut in halves, in the log, until no part is too large; by queues where that leads no further."""
    if sum(wanted.size for wanted in task) <= max_records:
        return [task]
    places = [_Places(queue, wanted) for wanted in task if (queue := queues[wanted.queue]) is not None]
    halves = _deal(places, 2) if len(places) == len(task) else []
    if len(halves) < 2:
        return [[piece] for piece in split(task, max_records=max_records)]
    return [part for half in halves for part in _bounded(queues, half, max_records)]


class _Places:
    """Where the messages of one range lie in the log. Of a long range only some entries are looked at, and none are
    kept: there may be thousands of queues."""

    def __init__(self, queue: EntrySource, wanted: QueueRange) -> None:
        self._queue = queue
        self.wanted = wanted

    def sample(self) -> Positions:
        """Physical offsets of evenly spaced messages of the range."""
        start, end = self.wanted.start, self.wanted.end
        if self.wanted.size <= _LOOKED_AT_IN_ONE_GO:
            return self._positions(start, end)[:: -(-self.wanted.size // _SAMPLES)].copy()
        offsets = (start + self.wanted.size * step // _SAMPLES for step in range(_SAMPLES))
        return np.concatenate([self._positions(offset, offset + 1) for offset in offsets])

    def first_from(self, cuts: Sequence[int]) -> list[int]:
        """For each of some places in the log the first offset of the range whose message lies there or behind; the
        range's end if none does."""
        start, end = self.wanted.start, self.wanted.end
        if self.wanted.size <= _LOOKED_AT_IN_ONE_GO:
            return [start + found for found in np.searchsorted(self._positions(start, end), cuts).tolist()]
        return [self._search(cut) for cut in cuts]

    def _search(self, cut: int) -> int:
        low, high = self.wanted.start, self.wanted.end
        while high - low > _SEARCHED_IN_ONE_GO:
            middle = (low + high) // 2
            if self._positions(middle, middle + 1)[0] < cut:
                low = middle + 1
            else:
                high = middle
        return low + int(np.searchsorted(self._positions(low, high), cut))

    def _positions(self, start: int, end: int) -> Positions:
        """Where messages lie. Entries not written yet belong to the newest messages: they are behind all others."""
        entries = self._queue.entries(start, end)
        positions = np.where(entries["size"] > 0, entries["physical_offset"], _BEHIND_ALL).astype(np.int64)
        return np.maximum.accumulate(positions)


def _deal(places: Sequence[_Places], count: int) -> list[list[QueueRange]]:
    """The ranges of at most `count` tasks, which follow each other in the log."""
    if not places:
        return []
    cuts = _quantiles([each.sample() for each in places], [each.wanted.size for each in places], count)
    bounds = [[each.wanted.start, *_rising(each.first_from(cuts)), each.wanted.end] for each in places]
    tasks = [
        [
            each.wanted._replace(start=edges[number], end=edges[number + 1])
            for each, edges in zip(places, bounds, strict=True)
            if edges[number] < edges[number + 1]
        ]
        for number in range(len(cuts) + 1)
    ]
    return [ranges for ranges in tasks if ranges]


def _rising(offsets: Sequence[int]) -> list[int]:
    """Where a recovery cuts the queue between two searches the later one ends before the earlier one, and what lies
    between them would be dealt to two tasks."""
    return list(accumulate(offsets, max))


def _quantiles(samples: Sequence[Positions], sizes: Sequence[int], count: int) -> list[int]:
    """Places that cut all messages into `count` shares of about one size."""
    positions = np.concatenate(samples)
    weights = np.concatenate([np.full(len(some), size / len(some)) for some, size in zip(samples, sizes, strict=True)])
    order = np.argsort(positions, kind="stable")
    passed = np.cumsum(weights[order])
    rows = np.searchsorted(passed, [passed[-1] * share / count for share in range(1, count)])
    return sorted(set(positions[order][rows].tolist()))

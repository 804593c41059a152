"""How far a budget of bytes reaches into a queue: sizes are in the queue's entries, so no message is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.store.reading.wanted_entries import have_messages

if TYPE_CHECKING:
    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queue import ConsumeQueue, Entries

_WINDOW_ENTRIES: Final = 1 << 15


class Extent(NamedTuple):
    """Messages up to, not including, `next_offset` take `size_bytes` in the log; `next_bytes` is the size of the one
    that did not fit any more, 0 where the measuring ended for another reason."""

    next_offset: int
    size_bytes: int = 0
    next_bytes: int = 0


def measure(log: CommitLog, queue: ConsumeQueue, start: int, end: int, *, max_bytes: int, max_entries: int) -> Extent:
    """The messages of [start, end) that fit into `max_bytes`, looking at `max_entries` entries at most.

    Entries whose messages are gone or damaged count nothing: readers step over them.
    """
    low, high = max(start, queue.min_offset), min(end, queue.max_offset)
    if low >= high:
        return Extent(max(start, min(low, end)))
    high = min(high, low + max_entries)
    size_bytes = 0
    for offset in range(low, high, _WINDOW_ENTRIES):
        sizes = _sizes(log, queue.entries(offset, min(high, offset + _WINDOW_ENTRIES)))
        reached = np.cumsum(sizes)
        fit = int(np.searchsorted(reached, max_bytes - size_bytes, side="right"))
        if fit < len(sizes):
            return Extent(offset + fit, size_bytes + (int(reached[fit - 1]) if fit else 0), int(sizes[fit]))
        size_bytes += int(reached[-1])
    return Extent(high, size_bytes)


def _sizes(log: CommitLog, entries: Entries) -> Positions:
    return np.where(have_messages(log, entries), entries["size"].astype(np.int64), 0)

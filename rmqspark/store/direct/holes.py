"""Queues that lack files: of a store without a broker there is nobody else to ask, so what is there is read."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.errors import StoreError
from rmqspark.store.queues.consume_queue import ENTRY_BYTES, ENTRY_DTYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.store.log.segment import Segment
    from rmqspark.store.queues.consume_queue import ConsumeQueue, Entries

_PIECE_BYTES: Final = ENTRY_BYTES << 15


class HoledQueue:
    """A queue whose entries are zeros, which no message has, where its files cannot be read or are gone by now."""

    def __init__(self, queue: ConsumeQueue) -> None:
        self._queue = queue

    def entries(self, start: int, end: int) -> Entries:
        with suppress(OSError, StoreError):
            return self._queue.entries(start, end)
        each = self._queue.entries_per_segment
        edges = [start, *range(start - start % each + each, end, each), end]
        return np.concatenate([self._of_one_file(*edges[at : at + 2]) for at in range(len(edges) - 1)])

    def _of_one_file(self, start: int, end: int) -> Entries:
        try:
            return self._queue.entries(start, end)
        except (OSError, StoreError):
            return np.zeros(end - start, ENTRY_DTYPE)


def end_below(queue: ConsumeQueue, physical_offset: int) -> int:
    """One past the queue's last entry for a message below that place. A search that halves the queue, as recovery has
    it, ends at a hole that it happens to look at: so what is written behind is looked at, too. There is hardly any."""
    queue.find_end_below(physical_offset)
    end = queue.max_offset
    for first, entries in _written_from(queue, end):
        places = entries["physical_offset"]
        found = np.flatnonzero((entries["size"] > 0) & (places >= 0) & (places < physical_offset))
        end = first + int(found[-1]) + 1 if len(found) else end
    return end


def is_hole(queue: ConsumeQueue, offset: int) -> bool:
    """Whether an entry behind the queue's first one is missing."""
    return offset >= queue.first_offset and HoledQueue(queue).entries(offset, offset + 1)["size"][0] <= 0


def _written_from(queue: ConsumeQueue, offset: int) -> Iterator[tuple[int, Entries]]:
    """What is written behind an offset in files that can be read, a piece at a time, each with its first offset."""
    for segment in queue.segments:
        at = max(0, offset * ENTRY_BYTES - segment.base)
        with suppress(OSError, StoreError):
            while (at := _next_entry(segment, at)) < segment.length:
                data = segment.read(at, min(_PIECE_BYTES, segment.length - at))
                yield (segment.base + at) // ENTRY_BYTES, np.frombuffer(data, ENTRY_DTYPE)
                at += len(data)


def _next_entry(segment: Segment, at: int) -> int:
    """The place of the first entry from there on that may be written."""
    found = segment.file().next_data(at) if at < segment.length else at
    return found - found % ENTRY_BYTES if found < segment.length else found


def with_holes(queue: ConsumeQueue | None) -> HoledQueue | None:
    """The queue, if there is one."""
    return None if queue is None else HoledQueue(queue)

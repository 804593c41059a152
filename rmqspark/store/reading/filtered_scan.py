"""Messages of a queue chosen by what is in them, which entries do not say: their records are read and asked.

A scan takes a window of entries at a time, reads its records, and keeps those that match. How far one scan goes is
bounded by messages, by bytes, and by what the filter costs for each: others wait while it runs. RocketMQ bounds the
entries a pull looks at, and asks records one by one (DefaultMessageStore.getMessage, isMatchedByCommitLog).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from rmqspark.protocol.buffers.spans import Spans, copy_spans
from rmqspark.protocol.records.record_batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.store.queues.consume_queue import ConsumeQueue, Entries
    from rmqspark.store.reading.collect import Collector

_MOST_SCANNED: Final = 1 << 13  # messages a scan looks at
_MOST_SCANNED_BYTES: Final = 8 << 20
_MOST_STEPS: Final = 1 << 17  # of the filter in a scan: messages times its cost
_MOST_STEP_BYTES: Final = 64 << 20  # bytes of messages times its cost
_WINDOW_ENTRIES: Final = 1 << 12


class RecordFilter(Protocol):
    """Says which messages are wanted. `cost` is about how many steps it takes for one."""

    @property
    def cost(self) -> int: ...

    def matching(self, records: RecordBatch) -> NDArray[np.bool_]:
        """Which of the records are; one that cannot be read is not."""
        ...


class Limits(NamedTuple):
    """What an answer may hold; one message is let through whatever its size."""

    messages: int
    size_bytes: int


class Found(NamedTuple):
    """The messages found before `next_offset`, back to back, and their sizes."""

    next_offset: int
    body: Bytes
    sizes: Positions
    all_gone: bool  # there were entries, but none of them has a message any more


class _Window(NamedTuple):
    """The records of some entries, which entry each is of, and where the entries end."""

    records: RecordBatch
    offsets: Positions
    next_offset: int


class FilteredScan:
    """One scan of a queue. `rows_there` says which entries have a message."""

    def __init__(
        self,
        queue: ConsumeQueue,
        collector: Collector,
        rows_there: Callable[[Entries], NDArray[np.int64]],
        wanted: RecordFilter,
    ) -> None:
        self._queue = queue
        self._collector = collector
        self._rows_there = rows_there
        self._wanted = wanted
        self._left_bytes = min(_MOST_SCANNED_BYTES, max(1, _MOST_STEP_BYTES // wanted.cost))
        self._found: list[RecordBatch] = []
        self._is_full = False

    def run(self, start: int, end: int, limits: Limits) -> Found:
        """Looks at entries [start, end), as far as it may; at one at least."""
        self._left = limits
        end = min(end, start + min(_MOST_SCANNED, max(1, _MOST_STEPS // self._wanted.cost)))
        offset, all_gone = start, start < end
        size = max(1, self._left.messages)
        while offset < end and self._left_bytes > 0 and not self._is_full:
            window = self._read(offset, min(end, offset + min(_WINDOW_ENTRIES, size)))
            all_gone = all_gone and not len(window.records)
            offset = self._take(window)
            size *= 2
        bodies = [records.buffer for records in self._found]
        sizes = [records.sizes for records in self._found]
        if len(bodies) == 1:
            return Found(offset, bodies[0], sizes[0], all_gone)
        return Found(offset, np.concatenate([_NO_BYTES, *bodies]), np.concatenate([_NO_SIZES, *sizes]), all_gone)

    def _read(self, start: int, end: int) -> _Window:
        """The records of entries from `start` on; of fewer than there are before `end` where they are large."""
        entries = self._queue.entries(start, end)
        rows = self._rows_there(entries)
        sizes = entries["size"][rows].astype(np.int64)
        fit = max(1, int(np.searchsorted(np.cumsum(sizes), self._left_bytes, side="right")))
        next_offset = start + (int(rows[fit]) if fit < len(rows) else len(entries))
        rows, sizes = rows[:fit], sizes[:fit]
        self._left_bytes -= int(sizes.sum())
        body, sizes, sound = self._collector.collect_sound(entries["physical_offset"][rows].astype(np.int64), sizes)
        return _Window(RecordBatch.from_sizes(body, sizes), start + rows[sound], next_offset)

    def _take(self, window: _Window) -> int:
        """Keeps what matches and there is room for; returns the offset to go on from."""
        hits = np.flatnonzero(self._wanted.matching(window.records))
        if not len(hits):
            return window.next_offset
        sizes = window.records.sizes[hits]
        fit = int(np.searchsorted(np.cumsum(sizes), self._left.size_bytes, side="right"))
        fit = min(max(fit, 0 if self._found else 1), max(1, self._left.messages))
        if fit:
            self._found.append(_alone(window.records, hits[:fit]))
            self._left = Limits(self._left.messages - fit, self._left.size_bytes - int(sizes[:fit].sum()))
        self._is_full = fit < len(hits) or min(self._left) <= 0
        return int(window.offsets[hits[fit]]) if fit < len(hits) else window.next_offset


_NO_BYTES: Final[Bytes] = np.empty(0, np.uint8)
_NO_SIZES: Final[Positions] = np.empty(0, np.int64)


def _alone(records: RecordBatch, rows: Positions) -> RecordBatch:
    """These records in a buffer of their own; all of them are as they were."""
    if len(rows) == len(records):
        return records
    spans = Spans(records.positions[rows], records.sizes[rows])
    ends = np.cumsum(spans.lengths)
    target: Bytes = np.empty(int(ends[-1]), np.uint8)
    copy_spans(records.buffer, spans, target, ends - spans.lengths)
    return RecordBatch(target, ends - spans.lengths, spans.lengths)

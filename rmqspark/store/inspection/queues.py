"""A consume queue compared with the log, record by record as the log is gone through, and entry by entry behind it.

The log is the only truth: each of its records must have its entry, and each entry below the log's end its record. A
message with queue offset 0 where the queue has others says that its topic was deleted and made again; what was found
about the queue before that is about entries that are gone, and forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.store.inspection.findings import MOST_PER_KIND, Finding, Kind, QueueFigures
from rmqspark.store.queues.consume_queue import ENTRY_BYTES, ENTRY_DTYPE, NO_MESSAGE_SIZE
from rmqspark.store.queues.consume_queues import queue_directory
from rmqspark.store.queues.end_by_scan import first_invalid
from rmqspark.store.reading.wanted_entries import ELSEWHERE_BELOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.store.queues.consume_queue import ConsumeQueue, Entries

_CHUNK_ENTRIES: Final = 1 << 16


class QueueCheck:
    """One queue. `compare` with its records in log order, then `finish`, then ask for `findings`.

    `settled_offset`: entries of records from there on do no harm, since the next start enters them anew. That some are
    missing says nothing: a broker writes them a little later than the log.
    """

    def __init__(self, queue: ConsumeQueue, log_start: int, settled_offset: int) -> None:
        self._queue = queue
        self._log_start = log_start
        self._settled_offset = settled_offset
        self._next: int | None = None  # the queue offset that the next record must have
        self._stretches: list[_Stretch] = []
        self.figures = QueueFigures(queue.topic, queue.queue_id)

    def end_in_log(self) -> int:
        """The end of the newest message that the queue leads to, as RocketMQ would find it."""
        self._queue.end_at(first_invalid(self._queue))
        return self._queue.end_physical_offset()

    def findings(self) -> list[Finding]:
        """What is wrong, stretch by stretch."""
        return [self._finding(stretch) for stretch in self._stretches]

    def compare(self, queue_offsets: Positions, entries: Entries, timestamps_ms: NDArray[np.int64]) -> None:
        """Records of this queue, in log order, as the entries that they should have."""
        breaks = np.flatnonzero(np.diff(queue_offsets) != 1) + 1
        for run in np.split(np.arange(len(entries)), breaks):
            self._compare_run(int(queue_offsets[run[0]]), entries[run])
        figures = self.figures
        figures.records += len(entries)
        figures.last_timestamp_ms = int(timestamps_ms[-1])
        if figures.first_timestamp_ms < 0:
            figures.first_timestamp_ms = int(timestamps_ms[0])

    def finish(self, log_end: int, *, is_open: bool, is_exact: bool) -> None:
        """The log has ended. What is written behind the last record's entry leads nowhere.

        `is_open`: another process goes on writing, so entries of records from `log_end` on are no surprise.
        `is_exact`: nothing may be there at all, or else it is what a crash or RocketMQ may leave.
        """
        start = self._queue.first_offset if self._next is None else self._next
        end = start
        for first, entries in self._written_from(start):
            offsets, sizes = entries["physical_offset"], entries["size"]
            is_written = (sizes != 0) | (offsets != 0)
            is_extra = is_written & (sizes != NO_MESSAGE_SIZE) & (offsets >= self._log_start)
            if is_open:
                is_extra &= offsets < log_end
            for row, count in _runs(is_extra):
                detail = f"behind the last message, and leads to {int(offsets[row]):,} in the log."
                self._find(Kind.EXTRA_ENTRIES, first + row, count, detail, is_broken=is_exact)
            if self._next is None and (expired := is_written & ~is_extra).any():
                end = first + int(np.flatnonzero(expired)[-1]) + 1
        figures = self.figures
        figures.max_offset = self._next if self._next is not None else end
        if not figures.records:
            figures.min_offset = figures.max_offset

    def _compare_run(self, first: int, expected: Entries) -> None:
        """Entries of consecutive queue offsets."""
        if first == 0 and self._next:
            self._stretches.clear()
            self.figures = QueueFigures(self._queue.topic, self._queue.queue_id)
            self._next = 0
        if self._next is None:
            self.figures.min_offset = first
            self._check_gap(self._queue.first_offset, first)
        elif first < self._next:
            where = int(expected["physical_offset"][0])
            detail = f"the record at {where:,} has this queue offset, but the one before it had {self._next - 1}."
            self._find(Kind.REPEATED_OFFSET, first, len(expected), detail)
            return
        else:
            self._check_gap(self._next, first)
        self._next = first + len(expected)
        self._check_entries(first, expected)

    def _check_entries(self, first: int, expected: Entries) -> None:
        stored = self._entries(first, first + len(expected))
        differs = (stored["physical_offset"] != expected["physical_offset"]) | (stored["size"] != expected["size"])
        if not self._queue.delay_ms:
            codes = stored["tags_code"]
            differs |= (codes != expected["tags_code"]) & (codes >= ELSEWHERE_BELOW)
        if not differs.any():
            return
        is_missing = differs & (stored["size"] == 0) & (stored["physical_offset"] == 0)
        for row, count in _runs(is_missing & (expected["physical_offset"] < self._settled_offset)):
            where = int(expected["physical_offset"][row])
            detail = f"missing; the log has the message at {where:,}."
            self._find(Kind.MISSING_ENTRIES, first + row, count, detail)
        for row, count in _runs(differs & ~is_missing):
            where = int(expected["physical_offset"][row])
            detail = f"says {_told(stored[row])}, and the log {_told(expected[row])}."
            self._find(Kind.WRONG_ENTRIES, first + row, count, detail, is_broken=where < self._settled_offset)

    def _check_gap(self, start: int, end: int) -> None:
        """Entries [start, end), of which the log has no records: expired, or lost and marked so."""
        for first, entries in self._written_from(start, end):
            offsets, sizes = entries["physical_offset"], entries["size"]
            for row, count in _runs((sizes == NO_MESSAGE_SIZE) & (offsets >= max(1, self._log_start))):
                detail = "marked as lost to damage that was found before."
                self._find(Kind.LOST_MESSAGES, first + row, count, detail, is_broken=False)
            is_extra = (sizes > 0) & (sizes != NO_MESSAGE_SIZE) & (offsets >= self._log_start)
            for row, count in _runs(is_extra):
                detail = f"leads to {int(offsets[row]):,} in the log, where it has no message."
                self._find(Kind.EXTRA_ENTRIES, first + row, count, detail)

    # --- the queue's files

    def _entries(self, start: int, end: int) -> Entries:
        """Entries [start, end); zeros where there is no file."""
        found = np.zeros(end - start, ENTRY_DTYPE)
        per_segment = self._queue.entries_per_segment
        while start < end:
            until = min(end, start - start % per_segment + per_segment)
            if self._queue.segments.segment_at(start * ENTRY_BYTES) is not None:
                found[len(found) - (end - start) :][: until - start] = self._queue.entries(start, until)
            start = until
        return found

    def _written_from(self, start: int, end: int | None = None) -> Iterator[tuple[int, Entries]]:
        """Entries of [start, end) with the offset of the first, a chunk at a time; what was never written is left
        out, as far as the file system knows."""
        for segment in self._queue.segments:
            limit = segment.length if end is None else min(segment.length, end * ENTRY_BYTES - segment.base)
            at = max(0, start * ENTRY_BYTES - segment.base)
            while at < limit and (data := segment.file().next_data(at)) < limit:
                at = max(at, data - data % ENTRY_BYTES)
                size = min(_CHUNK_ENTRIES * ENTRY_BYTES, limit - at)
                yield (segment.base + at) // ENTRY_BYTES, np.frombuffer(segment.read(at, size), ENTRY_DTYPE)
                at += size

    def _find(self, kind: Kind, first: int, count: int, detail: str, *, is_broken: bool = True) -> None:
        """Notes something about entries [first, first + count), as part of what was noted of those right before."""
        last = self._stretches[-1] if self._stretches else None
        if last is not None and (last.kind, last.is_broken, last.first + last.count) == (kind, is_broken, first):
            last.count += count
        elif len(self._stretches) <= MOST_PER_KIND:
            self._stretches.append(_Stretch(kind, first, count, detail, is_broken))

    def _finding(self, stretch: _Stretch) -> Finding:
        position, segment_bytes = stretch.first * ENTRY_BYTES, self._queue.segments.segment_bytes
        base = position - position % segment_bytes
        path = f"{queue_directory(self._queue.topic, self._queue.queue_id)}/{base:020d}"
        detail = f"{stretch.count:,} from queue offset {stretch.first} on: {stretch.detail}"
        return Finding(stretch.kind, path, position - base, detail, stretch.is_broken)


@dataclass(slots=True)
class _Stretch:
    """Consecutive entries with the same thing wrong; `detail` speaks of the first."""

    kind: Kind
    first: int
    count: int
    detail: str
    is_broken: bool


def _runs(chosen: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """The first row and the length of each run of chosen ones."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    yield from ((int(first), int(end - first)) for first, end in edges.reshape(-1, 2))


def _told(entry: np.void) -> str:
    physical_offset, size, tags_code = entry.item()
    return f"({physical_offset:,}, {size:,} bytes, tags {tags_code})"

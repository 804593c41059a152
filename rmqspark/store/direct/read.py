"""Messages by their queue entries out of the files of a store that another process may be writing to.

Nothing an entry leads to is taken for its message unless it says so itself: size, magic, topic, queue, queue offset and
physical offset must all be the entry's. What fails that is reported as `Unread`, in its place in the order, together
with what the files do not have (yet, or any more); the caller gets it from the broker, whose answer counts.

That is enough against a broker that dies, recovers or deletes files meanwhile: an entry is written after its record,
records are never changed, and what a recovery cuts it zeroes before anything is written there again. A topic that is
made anew under the name of a deleted one has the same queues and offsets: what was planned before a deletion is not
read after it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.errors import RecordError, StoreError
from rmqspark.protocol.buffers.spans import equal_to
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.direct.holes import with_holes
from rmqspark.store.direct.lanes import Lane, in_log_order
from rmqspark.store.direct.tails import NO_TAILS, with_tail
from rmqspark.store.reading.collect import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes
    from rmqspark.store.deletions import Deletion
    from rmqspark.store.direct.lanes import Block, EntrySource
    from rmqspark.store.direct.tails import Tail
    from rmqspark.store.direct.view import StoreView

_WINDOW_ENTRIES: Final = 1 << 17  # of all queues together; 20 bytes each, and 32 as arrays


class Wanted(NamedTuple):
    """The messages of one queue from `start` up to, not including, `end`; of the topic whose last namesake was deleted
    at `topic_deleted_ms` (0: none was), of whichever is there if that is None."""

    topic: str
    queue_id: int
    start: int
    end: int
    topic_deleted_ms: int | None = None


class Unread(NamedTuple):
    """Messages that the files cannot vouch for: of the wanted range with this number, from `start` up to `end`."""

    number: int
    start: int
    end: int


class Limits(NamedTuple):
    """Of what is handed out in one piece."""

    max_rows: int
    max_bytes: int


def read_ranges(
    view: StoreView,
    wanted: Sequence[Wanted],
    limits: Limits,
    tag_codes: frozenset[int] | None = None,
    tails: Mapping[tuple[str, int], Tail] = NO_TAILS,
    *,
    check_crc: bool,
    pages_may_come_late: bool,
    nobody_else_has_them: bool = False,
) -> Iterator[RecordBatch | Unread]:
    """The messages of these ranges in log order, so each queue's in its own. Tags are tested by their hash only.

    Records are valid until the next piece is asked for. `tails` are entries that queues lack in their files.
    With `check_crc` bodies must have their checksums; with `pages_may_come_late` properties must have no zeros. If
    `nobody_else_has_them`, for there is no broker, entries that cannot be do not hide those behind them.
    """
    codes = None if tag_codes is None else np.fromiter(tag_codes, np.int64, len(tag_codes)).astype(np.int32)

    def source(topic: str, queue_id: int) -> EntrySource | None:
        queue = view.queue(topic, queue_id)
        return with_tail(with_holes(queue) if nobody_else_has_them else queue, tails.get((topic, queue_id)))

    lanes = [
        Lane(number, source(topic, queue_id), start, end, codes, steps_over=nobody_else_has_them)
        for number, (topic, queue_id, start, end, _) in enumerate(wanted)
    ]
    chunks = _Chunks(view, wanted, limits, check_crc=check_crc, pages_may_come_late=pages_may_come_late)
    for block in in_log_order(lanes, window=_WINDOW_ENTRIES, segment_bytes=view.log.segment_bytes):
        yield from chunks.of(block)
    for lane in lanes:
        yield from (Unread(lane.number, start, end) for start, end in lane.gaps)
        if lane.unread < lane.end:
            yield Unread(lane.number, lane.unread, lane.end)


class _Chunks:
    """Reads the records of blocks, and tells those apart that are what their entries say."""

    def __init__(
        self, view: StoreView, wanted: Sequence[Wanted], limits: Limits, *, check_crc: bool, pages_may_come_late: bool
    ) -> None:
        self._view = view
        self._wanted = wanted
        self._collector = Collector(view.log.segments)
        self._buffer: Bytes = np.empty(0, np.uint8)  # used again: fresh memory is dear where it comes from a host
        self._segment_bytes = view.log.segment_bytes
        self._limits = limits
        self._queue_ids = np.array([queue.queue_id for queue in wanted], np.int32)
        names = sorted({queue.topic for queue in wanted})
        self._topics = [name.encode() for name in names]
        self._topic_of = np.array([names.index(queue.topic) for queue in wanted])
        self._check_crc = check_crc
        self._pages_may_come_late = pages_may_come_late

    def of(self, block: Block) -> Iterator[RecordBatch | Unread]:
        for first, end in self._cut(block):
            chunk = block.rows(first, end)
            records = self._read(chunk)
            if records is None:
                yield from _unread(chunk)
                continue
            sound = self._sound(records, chunk)
            if sound.all():
                yield records
            else:
                yield from _pieces(records, chunk, sound)

    def _cut(self, block: Block) -> Iterator[tuple[int, int]]:
        """Runs of entries that are read in one go: within the limits, and in one file."""
        ends = np.cumsum(block.sizes)
        files = block.physical_offsets // self._segment_bytes
        first = 0
        while first < len(block):
            begun = int(ends[first] - block.sizes[first])
            full = int(np.searchsorted(ends, begun + self._limits.max_bytes, side="right"))
            file_end = int(np.searchsorted(files, files[first], side="right"))
            end = max(first + 1, min(full, file_end, first + self._limits.max_rows))
            yield first, end
            first = end

    def _read(self, chunk: Block) -> RecordBatch | None:
        """What lies at these places; None where the file is gone, or shorter than it was."""
        size = int(chunk.sizes.sum())
        if size > len(self._buffer):
            self._buffer = np.empty(size, np.uint8)
        buffer = self._buffer[:size]
        try:
            self._collector.collect_into(buffer, chunk.physical_offsets, chunk.sizes)
        except (OSError, StoreError):
            return None
        return RecordBatch.from_sizes(buffer, chunk.sizes)

    def _sound(self, records: RecordBatch, chunk: Block) -> NDArray[np.bool_]:
        """Which of the records are the messages of their entries."""
        sound: NDArray[np.bool_] = records.queue_offsets == chunk.queue_offsets
        sound &= records.physical_offsets == chunk.physical_offsets
        sound &= records.queue_ids == self._queue_ids[chunk.lanes]
        sound &= self._are_of_their_topics()[chunk.lanes]
        if sound.all() and self._is_whole(records, chunk):
            return sound
        for row in np.flatnonzero(sound).tolist():
            one = RecordBatch(records.buffer, records.positions[row : row + 1], records.sizes[row : row + 1])
            sound[row] = self._is_whole(one, chunk.rows(row, row + 1))
        return sound

    def _are_of_their_topics(self) -> NDArray[np.bool_]:
        """Of which ranges the topic is the one that they were planned for. If it has been deleted since, the messages
        may be the next one's; if these files know less of deletions, as an old copy of the store, the last one's.
        Looked up after entries were read, for a deletion is noted before its queues are removed."""
        if all(each.topic_deleted_ms is None for each in self._wanted):
            return np.ones(len(self._wanted), np.bool_)
        try:
            deletions = self._view.deletions()
        except (OSError, StoreError):
            return np.zeros(len(self._wanted), np.bool_)
        return np.array([_is_of_its_topic(each, deletions.get(each.topic)) for each in self._wanted], np.bool_)

    def _is_whole(self, records: RecordBatch, chunk: Block) -> bool:
        """Whether all of the records are well-formed and of their topics."""
        try:
            records.check(check_crc=self._check_crc)
        except RecordError:
            return False
        return self._are_of_topics(records, chunk) and not (self._pages_may_come_late and _has_zeros(records))

    def _are_of_topics(self, records: RecordBatch, chunk: Block) -> bool:
        if len(self._topics) == 1:
            return records.is_all_of_topic(self._topics[0])
        starts, lengths = records.topics
        topic_of = self._topic_of[chunk.lanes]
        for number, topic in enumerate(self._topics):
            rows = np.flatnonzero(topic_of == number)
            # Lengths first: only then is there room for the name at every start.
            if (lengths[rows] != len(topic)).any() or not equal_to(records.buffer, starts[rows], topic).all():
                return False
        return True


def _is_of_its_topic(wanted: Wanted, deletion: Deletion | None) -> bool:
    return wanted.topic_deleted_ms in (None, 0 if deletion is None else deletion.deleted_ms)


def _has_zeros(records: RecordBatch) -> bool:
    starts, ends = records.properties.starts, records.properties.ends
    zeros = np.flatnonzero(records.buffer == 0)
    return bool((np.searchsorted(zeros, ends) > np.searchsorted(zeros, starts)).any())


def _pieces(records: RecordBatch, chunk: Block, sound: NDArray[np.bool_]) -> Iterator[RecordBatch | Unread]:
    """Sound records and unread ranges by turns, in order."""
    edges = [0, *(np.flatnonzero(sound[1:] != sound[:-1]) + 1).tolist(), len(sound)]
    for first, end in pairwise(edges):
        if sound[first]:
            yield RecordBatch(records.buffer, records.positions[first:end], records.sizes[first:end])
        else:
            yield from _unread(chunk.rows(first, end))


def _unread(chunk: Block) -> Iterator[Unread]:
    """Neighbours in the log as ranges of their queues."""
    for number in np.unique(chunk.lanes).tolist():
        offsets = chunk.queue_offsets[chunk.lanes == number]
        yield Unread(number, int(offsets[0]), int(offsets[-1]) + 1)

"""Queue entries for records found in the log: what the dispatcher did once, done again for thousands at a time.

Records are grouped by queue; those a queue has already are skipped. A new message with queue offset 0 where a queue has
messages says that its topic was deleted and made again in between: only messages since then are in the queue. Of
deletions that ours noted, nothing from before is put into a queue at all.

Names in a log come from whoever wrote it: a topic that could not have been created gets no queue, so no path is built
from it.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.errors import InvalidName, InvalidQueue
from rmqspark.protocol.buffers.spans import equal_to
from rmqspark.protocol.java_hash import java_hash_spans
from rmqspark.protocol.records.record import MIN_RECORD_BYTES, SysFlag
from rmqspark.store.queues.consume_queue import ENTRY_DTYPE
from rmqspark.store.queues.entries import entries_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.store.deletions import Deletion, Deletions
    from rmqspark.store.dispatcher import QueuedEntries
    from rmqspark.store.queues.consume_queue import ConsumeQueue, Entries
    from rmqspark.store.queues.consume_queues import ConsumeQueues
    from rmqspark.store.recovery.scan import Records

_LARGEST_QUEUE_OFFSET: Final = 1 << 58  # times 20 is still a position


class _Run(NamedTuple):
    """Messages of one queue, in log order."""

    queue_offsets: Positions
    entries: Entries
    tags_codes: NDArray[np.int64]


class Redispatcher:
    """Brings queues up to date. `refused` counts records that belong to no queue that could exist.

    With `settled_offset` no queue had messages from that place in the log on, whatever its last entry says, of which a
    bit may have rotted; and each is dispatched once."""

    def __init__(self, queues: ConsumeQueues, deletions: Deletions, settled_offset: int | None = None) -> None:
        self._queues = queues
        self._deletions = deletions
        self._settled_offset = settled_offset
        self.refused = 0

    def dispatch(
        self, found: Sequence[Records], more: Sequence[QueuedEntries] = ()
    ) -> list[tuple[ConsumeQueue, NDArray[np.int64]]]:
        """Checked records in log order, and entries that follow them, each queue's put with one write; returns the
        queues, with tags codes."""
        runs: dict[ConsumeQueue, list[_Run]] = {}
        for queue, run in chain(chain.from_iterable(map(self._runs_of, found)), map(_run_of, more)):
            if queue is None:
                self.refused += len(run.entries)
            else:
                runs.setdefault(queue, []).append(run)
        together = [(queue, _joined(of_queue)) for queue, of_queue in runs.items()]
        for queue, run in together:
            self._put(queue, run.queue_offsets, run.entries)
        return [(queue, run.tags_codes) for queue, run in together]

    def _runs_of(self, records: Records) -> Iterator[tuple[ConsumeQueue | None, _Run]]:
        """Where None is the queue, it cannot exist."""
        batch = records.batch
        physical_offsets, queue_offsets = batch.positions + records.physical_offset, batch.queue_offsets
        tags_codes = batch.tags_codes()
        entries = entries_of(physical_offsets, batch.sizes, tags_codes)
        for topic, queue_id, members in queued(batch, physical_offsets, self._deletions):
            queue = self._queue(topic, queue_id)
            chosen = entries[members]
            if queue is not None and queue.delay_ms:
                chosen["tags_code"] = batch.store_timestamps_ms[members] + queue.delay_ms
            yield queue, _Run(queue_offsets[members], chosen, tags_codes[members])

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        try:
            return self._queues.get_or_make(topic, queue_id)
        except (InvalidName, InvalidQueue):
            return None

    def can_wait(self, found: Sequence[Records]) -> bool:
        """Whether these, which nothing follows, may become readable later: they say that they are the next ones of a
        queue. Heads are under no checksum, and whoever is given a place that another has is never seen."""
        runs = self._possible_runs_of(found)
        if len({queue for queue, _ in runs}) != 1:
            return not runs
        queue, run = runs[0][0], _joined([run for _, run in runs])
        first, physical_offset = int(run.queue_offsets[0]), int(run.entries["physical_offset"][0])
        is_next = first >= queue.max_offset and _is_plausible(queue, first, physical_offset)
        return is_next and _is_run(run.queue_offsets)

    def reserve(self, found: Sequence[Records]) -> None:
        """Has their queue go on behind messages that can wait."""
        for queue, run in self._possible_runs_of(found):
            queue.next_offset = int(run.queue_offsets[-1]) + 1

    def _possible_runs_of(self, found: Sequence[Records]) -> list[tuple[ConsumeQueue, _Run]]:
        runs = chain.from_iterable(map(self._runs_of, found))
        return [(queue, run) for queue, run in runs if queue is not None]

    def _put(self, queue: ConsumeQueue, queue_offsets: Positions, entries: Entries) -> None:
        """Entries of one queue in log order. Those of messages before the queue's end are there already."""
        end_offset = queue.end_physical_offset()
        if self._settled_offset is not None:
            end_offset = min(end_offset, self._settled_offset)
        if int(entries["physical_offset"][0]) >= end_offset and _is_run(queue_offsets):  # as nearly always
            self._put_run(queue, int(queue_offsets[0]), entries)
            return
        is_new = entries["physical_offset"] >= end_offset
        is_possible = (queue_offsets >= 0) & (queue_offsets < _LARGEST_QUEUE_OFFSET)
        self.refused += int(np.count_nonzero(is_new & ~is_possible))
        rows = np.flatnonzero(is_new & is_possible)
        breaks = np.flatnonzero(np.diff(queue_offsets[rows]) != 1) + 1
        for run in np.split(rows, breaks) if len(rows) else ():
            self._put_run(queue, int(queue_offsets[run[0]]), entries[run])

    def _put_run(self, queue: ConsumeQueue, queue_offset: int, entries: Entries) -> None:
        """Entries of consecutive queue offsets, of messages newer than any the queue has."""
        if queue_offset == 0 and queue.max_offset:
            queue.begin_anew()
        if _is_plausible(queue, queue_offset, int(entries["physical_offset"][0])):
            queue.put(queue_offset, entries.view(np.uint8).data)
        else:
            self.refused += len(entries)


def _run_of(queued: QueuedEntries) -> tuple[ConsumeQueue, _Run]:
    tags_codes = np.asarray(queued.tags_codes, np.int64)
    queue_offsets = queued.queue_offset + np.arange(len(tags_codes))
    return queued.queue, _Run(queue_offsets, np.frombuffer(queued.entries, ENTRY_DTYPE), tags_codes)


def _joined(runs: Sequence[_Run]) -> _Run:
    if len(runs) == 1:
        return runs[0]
    queue_offsets, entries, tags_codes = zip(*runs, strict=True)
    as_on_disk = np.concatenate(entries, dtype=ENTRY_DTYPE)  # left to itself NumPy turns every number round
    return _Run(np.concatenate(queue_offsets), as_on_disk, np.concatenate(tags_codes))


def _is_run(queue_offsets: Positions) -> bool:
    """Whether they are possible and count up by one."""
    first, last = int(queue_offsets[0]), int(queue_offsets[-1])
    counts_up = last - first == len(queue_offsets) - 1 and bool((queue_offsets[1:] > queue_offsets[:-1]).all())
    return first >= 0 and last < _LARGEST_QUEUE_OFFSET and counts_up


def _is_plausible(queue: ConsumeQueue, queue_offset: int, physical_offset: int) -> bool:
    """Whether the messages that are missing before this one can have been lost in the log: there was room for them."""
    missing = queue_offset - queue.max_offset
    if missing <= 0 or queue.max_offset == queue.first_offset:
        return True
    return missing * MIN_RECORD_BYTES <= physical_offset - queue.end_physical_offset()


def queued(
    records: RecordBatch, physical_offsets: Positions, deletions: Deletions | Mapping[str, Deletion]
) -> Iterator[tuple[str, int, Positions]]:
    """Topic, queue id and rows of the messages that belong into a queue, queue by queue: half messages do not, nor do
    those that were rolled back, or deleted with their topics."""
    kinds = records.sys_flags & SysFlag.TRANSACTION_MASK
    wanted = np.flatnonzero((kinds != SysFlag.PREPARED) & (kinds != SysFlag.ROLLED_BACK))
    for name, queue_id, rows in _by_queue(records, wanted):
        topic = name.decode("utf-8", "replace")
        if (deletion := deletions.get(topic)) is not None:
            rows = rows[deletion.spares(physical_offsets[rows], records.store_timestamps_ms[rows])]
        if len(rows):
            yield topic, queue_id, rows


def _by_queue(records: RecordBatch, rows: Positions) -> Iterator[tuple[bytes, int, Positions]]:
    """Topic, queue id and rows of each queue among `rows`; rows stay in log order.

    Topics are told apart by their hashes, then compared: those that merely share a hash go round again.
    """
    starts, lengths = records.topics
    hashes = java_hash_spans(records.buffer, starts, lengths).astype(np.int64)
    queue_ids = records.queue_ids.astype(np.int64)
    keys = hashes << 32 | queue_ids & 0xFFFFFFFF
    while len(rows):
        left_over = []
        for members in _by_key(keys, rows):
            first = int(members[0])
            start, length = int(starts[first]), int(lengths[first])
            topic = records.buffer[start : start + length].tobytes()
            same = lengths[members] == length
            same[same] = equal_to(records.buffer, starts[members[same]], topic)
            yield topic, int(queue_ids[first]), members[same]
            left_over.append(members[~same])
        rows = np.concatenate(left_over)


def _by_key(keys: Positions, rows: Positions) -> list[Positions]:
    chosen = keys[rows]
    if (chosen == chosen[0]).all():
        return [rows]
    order = np.argsort(chosen, kind="stable")
    edges = np.flatnonzero(np.diff(chosen[order])) + 1
    return np.split(rows[order], edges)

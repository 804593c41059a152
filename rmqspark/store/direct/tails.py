"""Queue entries that a broker had no time to write: found again in the log, as its next start would find them.

A broker that was killed leaves messages that were acknowledged, and are in its log, but not in its queues' files. The
walk through the log begins where the checkpoint says that the queues are complete; in a store that RocketMQ wrote last,
behind the newest message that any queue leads to, for RocketMQ fills its queues in log order.

One that was killed while it made messages of a half batch has some of them in its log: they are left out, for its next
start brings the others.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.store.queues.consume_queue import ENTRY, ENTRY_BYTES, ENTRY_DTYPE, NO_MESSAGE_SIZE
from rmqspark.store.queues.entries import entries_of
from rmqspark.store.recovery.redispatch import queued
from rmqspark.store.recovery.scan import LogScan, Records
from rmqspark.store.recovery.whole_halves import WholeHalves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.store.deletions import Deletions
    from rmqspark.store.direct.lanes import EntrySource
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queue import Entries

_MOST_LOST: Final = 1 << 16  # offsets that may be missing between two messages of a queue


class Tail(NamedTuple):
    """Consecutive entries of one queue from queue offset `start` on. Plain data: it travels to tasks."""

    start: int
    entries: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.entries) // ENTRY_BYTES

    def within(self, start: int, end: int) -> Tail:
        """What a reader of [start, end) needs of it."""
        first = max(self.start, start)
        return Tail(first, self.entries[(first - self.start) * ENTRY_BYTES : max(0, end - self.start) * ENTRY_BYTES])


NO_TAILS: Final[Mapping[tuple[str, int], Tail]] = {}


class _Tailed:
    """A queue whose entries from `tail.start` on are the tail's, whatever its files say."""

    def __init__(self, queue: EntrySource | None, tail: Tail) -> None:
        self._queue = queue
        self._tail = tail

    def entries(self, start: int, end: int) -> Entries:
        begin = self._tail.start
        before = b""
        if start < begin and self._queue is not None:
            before = self._queue.entries(start, min(end, begin)).tobytes()
        data = self._tail.entries[max(0, start - begin) * ENTRY_BYTES : max(0, end - begin) * ENTRY_BYTES]
        return np.frombuffer(before + data, ENTRY_DTYPE)


def with_tail(queue: EntrySource | None, tail: Tail | None) -> EntrySource | None:
    """The queue with what its files lack."""
    return queue if tail is None else _Tailed(queue, tail)


def find_tails(
    log: CommitLog,
    start: int,
    watermark: int,
    ends: Mapping[tuple[str, int], int],
    deletions: Deletions,
    *,
    has_vouchers: bool,
) -> dict[tuple[str, int], Tail]:
    """The entries for all messages from physical offset `start` on that the queues, which end at `ends`, do not have.

    The log's `end_offset` is where it ends afterwards. `has_vouchers` is for `LogScan`.
    """
    found: dict[tuple[str, int], bytearray] = {}
    first: dict[tuple[str, int], int] = {}
    scan = LogScan(log.segments, start, watermark, check_crc=True, may_be_torn=True, has_vouchers=has_vouchers)
    halves = WholeHalves(log)
    for records in chain.from_iterable(map(halves.take, scan.run())):
        if not isinstance(records, Records):
            continue
        for queue, queue_offset, entry in _messages(records.batch, records.physical_offset, deletions):
            if queue not in found:
                first[queue] = ends.get(queue, queue_offset)
                found[queue] = bytearray()
            _put(found[queue], queue_offset - first[queue], entry)
    log.end_offset = scan.position
    return {queue: Tail(first[queue], bytes(entries)) for queue, entries in found.items() if entries}


def _put(entries: bytearray, place: int, run: Entries) -> None:
    """Adds consecutive entries at a place, counted from the first; those that are there already are not added again.

    Those of messages that are missing before them lead to where these are: places in a queue never fall.
    """
    behind = len(entries) // ENTRY_BYTES
    if place > behind + _MOST_LOST:
        return  # it says so itself, and nothing else does
    if place > behind:
        entries += ENTRY.pack(int(run["physical_offset"][0]), NO_MESSAGE_SIZE, 0) * (place - behind)
        behind = place
    entries += run[max(0, behind - place) :].tobytes()


def _messages(
    records: RecordBatch, physical_offset: int, deletions: Deletions
) -> Iterator[tuple[tuple[str, int], int, Entries]]:
    """Queue, first queue offset and entries of each run of consecutive messages."""
    physical_offsets = records.positions + physical_offset
    entries = entries_of(physical_offsets, records.sizes, records.tags_codes())
    for topic, queue_id, members in queued(records, physical_offsets, deletions):
        offsets = records.queue_offsets[members]
        for run in np.split(members, np.flatnonzero(np.diff(offsets) != 1) + 1):
            yield (topic, queue_id), int(records.queue_offsets[run[0]]), entries[run]

"""Messages that came one by one, by the hundred, in columns.

What `singles.py` does in a loop is done here in columns, and comes to the same bytes; a test holds the two against each
other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.protocol.records.record_builder import patch
from rmqspark.store.appending.single_entries import SingleEntries
from rmqspark.store.dispatcher import QueuedEntries
from rmqspark.store.index.index_keys import keys_of_tables
from rmqspark.store.queues.consume_queue import ENTRY_BYTES
from rmqspark.store.queues.entries import entries_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.store.appending.targets import Targets
    from rmqspark.store.dispatcher import Queued
    from rmqspark.store.index.index_keys import KeyBatch
    from rmqspark.store.queues.consume_queue import ConsumeQueue, Entries
    from rmqspark.store.queues.consume_queues import ConsumeQueues


_LEAST_OF_A_QUEUE: Final = 8  # messages, to be worth a column of their own


class SingleTable(NamedTuple):
    """Such messages, one item of each column each."""

    targets: Targets
    """Queues, those they go to among them."""
    target_of: NDArray[np.intp]
    """The number of the one that each goes to."""
    records: Bytes
    """Back to back, complete but for what they learn by being stored. Written to. Their properties differ in the values
    of keys alone, which have no zeros."""
    sizes: Positions
    """Of the records."""
    tags_code: int
    keys: Sequence[NDArray[np.uint8]]
    """Of each message one key of ASCII of each of these tables, a row each, in the order in which the index enters
    them."""


class StoredTable(NamedTuple):
    """Where the messages are, one item each."""

    queue_offsets: Positions
    physical_offsets: Positions


class LaidOutTable(NamedTuple):
    """What is to be done once the records are in the log."""

    places: StoredTable
    queued: Sequence[Queued]
    keys: KeyBatch


def lay_out_table(
    table: SingleTable, queues: ConsumeQueues, physical_offset: int, now_ms: int, store_host: bytes
) -> LaidOutTable:
    """Gives messages their places, the first at `physical_offset`, and completes their records."""
    sizes = table.sizes
    count, positions = len(sizes), np.cumsum(sizes) - sizes
    physical_offsets = positions + physical_offset
    numbers = table.target_of.tolist()
    queue_of = table.targets.queues(numbers, queues)
    entries = entries_of(physical_offsets, sizes, _entry_codes(table, queue_of, now_ms))
    distinct = len(set(numbers))
    queued: Sequence[Queued]
    if distinct == 1:
        queue_offsets, queued = _in_one_queue(table, queue_of[0], entries)
    elif distinct * _LEAST_OF_A_QUEUE <= count:
        queue_offsets, queued = _queue_by_queue(table, queue_of, entries)
    else:
        queue_offsets, queued = _one_by_one(table, queue_of, entries, queues, are_distinct=distinct == count)
    patch(
        table.records,
        positions,
        first_queue_offset=queue_offsets,
        first_physical_offset=physical_offset,
        store_timestamp_ms=now_ms,
        store_host=store_host,
    )
    topic_hashes = table.targets.rows(table.target_of)["topic_hash"]
    keys = keys_of_tables(topic_hashes, table.keys, physical_offsets, now_ms)
    return LaidOutTable(StoredTable(queue_offsets, physical_offsets), queued, keys)


def _entry_codes(table: SingleTable, queue_of: Sequence[ConsumeQueue], now_ms: int) -> Positions | int:
    """What entries carry, tags codes or deliver times: one for all, or one for each."""
    if not table.targets.may_delay:
        return table.tags_code
    return np.array([now_ms + queue.delay_ms if queue.delay_ms else table.tags_code for queue in queue_of])


def _in_one_queue(table: SingleTable, queue: ConsumeQueue, entries: Entries) -> tuple[Positions, list[QueuedEntries]]:
    """Queue offsets, and what goes into the queue, where all are for one."""
    begin, count = queue.next_offset, len(entries)
    of_queue = entries.view(np.uint8).data
    return np.arange(begin, begin + count), [QueuedEntries(queue, begin, of_queue, [table.tags_code] * count)]


def _queue_by_queue(
    table: SingleTable, queue_of: Sequence[ConsumeQueue], entries: Entries
) -> tuple[Positions, list[QueuedEntries]]:
    """The same where each of several gets many."""
    order = np.argsort(table.target_of, kind="stable")
    sorted_numbers = table.target_of[order]
    ends = [*(np.flatnonzero(sorted_numbers[1:] != sorted_numbers[:-1]) + 1).tolist(), len(order)]
    entries, offsets, queued, begin = entries[order], np.arange(len(order)), [], 0
    for end in ends:
        queue, rows = queue_of[order[begin]], slice(begin, end)
        offsets[rows] += queue.next_offset - begin
        of_queue = entries[rows].view(np.uint8).data
        queued.append(QueuedEntries(queue, queue.next_offset, of_queue, [table.tags_code] * (end - begin)))
        begin = end
    queue_offsets = np.empty_like(offsets)
    queue_offsets[order] = offsets
    return queue_offsets, queued


def _one_by_one(
    table: SingleTable,
    queue_of: list[ConsumeQueue],
    entries: Entries,
    queues: ConsumeQueues,
    *,
    are_distinct: bool,
) -> tuple[Positions, list[SingleEntries]]:
    """The same where each gets few. One loop, for the reason that `singles.py` gives."""
    queued = SingleEntries(queues)
    queued.queues = queue_of
    if are_distinct:
        queued.queue_offsets = [queue.next_offset for queue in queue_of]
        queued.next_offsets = dict(zip(queue_of, [offset + 1 for offset in queued.queue_offsets], strict=True))
    else:
        next_offsets, add_queue_offset = queued.next_offsets, queued.queue_offsets.append
        for queue in queue_of:
            queue_offset = next_offsets.get(queue) or queue.next_offset
            add_queue_offset(queue_offset)
            next_offsets[queue] = queue_offset + 1
    queued.entries = entries.view(f"V{ENTRY_BYTES}").tolist()
    queued.tags_codes = [table.tags_code] * len(queue_of)
    return np.array(queued.queue_offsets), [queued]

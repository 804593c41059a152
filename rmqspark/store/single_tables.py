"""Messages that came one by one, by the hundred, in columns.

What `singles.py` does in a loop is done here in columns, and comes to the same bytes; a test holds the two against each
other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.protocol.record_builder import patch
from rmqspark.store.consume_queue import ENTRY_BYTES
from rmqspark.store.dispatcher import QueuedEntries
from rmqspark.store.entries import entries_of
from rmqspark.store.index_keys import keys_of_tables
from rmqspark.store.single_entries import SingleEntries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.spans import Bytes, Positions
    from rmqspark.store.consume_queue import ConsumeQueue, Entries
    from rmqspark.store.consume_queues import ConsumeQueues
    from rmqspark.store.dispatcher import Queued
    from rmqspark.store.index_keys import KeyBatch


_LEAST_OF_A_QUEUE: Final = 8  # messages, to be worth a column of their own


class SingleTable(NamedTuple):
    """Such messages, one item of each column each."""

    targets: Sequence[tuple[str, int]]
    """Topics and ids of the queues they go to."""
    target_of: NDArray[np.intp]
    """Which of these each goes to."""
    records: Bytes
    """Back to back, complete but for what they learn by being stored. Written to."""
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
    targets = queues.get_or_make_all(table.targets)
    codes = np.array([now_ms + queue.delay_ms if queue.delay_ms else table.tags_code for queue in targets])
    entries = entries_of(physical_offsets, sizes, codes[table.target_of])
    queued: Sequence[Queued]
    if len(targets) * _LEAST_OF_A_QUEUE <= count:
        queue_offsets, queued = _queue_by_queue(table, targets, entries)
    else:
        queue_offsets, queued = _one_by_one(table, targets, entries, queues)
    patch(
        table.records,
        positions,
        first_queue_offset=queue_offsets,
        first_physical_offset=physical_offset,
        store_timestamp_ms=now_ms,
        store_host=store_host,
    )
    topic_hashes = np.array([queue.topic_hash for queue in targets], np.uint32)[table.target_of]
    keys = keys_of_tables(topic_hashes, table.keys, physical_offsets, now_ms)
    return LaidOutTable(StoredTable(queue_offsets, physical_offsets), queued, keys)


def _queue_by_queue(
    table: SingleTable, targets: Sequence[ConsumeQueue], entries: Entries
) -> tuple[Positions, list[QueuedEntries]]:
    """Queue offsets, and what goes into the queues, where each gets many."""
    target_of, tags_code, begin = table.target_of, table.tags_code, 0
    order = np.argsort(target_of, kind="stable") if len(targets) > 1 else slice(None)
    entries, offsets, queued = entries[order], np.arange(len(target_of)), []
    for queue, length in zip(targets, np.bincount(target_of).tolist(), strict=True):
        rows = slice(begin, begin + length)
        offsets[rows] += queue.next_offset - begin
        of_queue = entries[rows].view(np.uint8).data
        queued.append(QueuedEntries(queue, queue.next_offset, of_queue, [tags_code] * length))
        begin += length
    queue_offsets = np.empty_like(offsets)
    queue_offsets[order] = offsets
    return queue_offsets, queued


def _one_by_one(
    table: SingleTable, targets: Sequence[ConsumeQueue], entries: Entries, queues: ConsumeQueues
) -> tuple[Positions, list[SingleEntries]]:
    """The same where each gets few. One loop, for the reason that `singles.py` gives."""
    queued = SingleEntries(queues)
    next_offsets, queue_offsets = queued.next_offsets, queued.queue_offsets
    queued.queues = [targets[target] for target in table.target_of.tolist()]
    for queue in queued.queues:
        queue_offset = next_offsets.get(queue) or queue.next_offset
        queue_offsets.append(queue_offset)
        next_offsets[queue] = queue_offset + 1
    queued.entries = entries.view(f"V{ENTRY_BYTES}").tolist()
    queued.tags_codes = [table.tags_code] * len(queue_offsets)
    return np.array(queue_offsets), [queued]

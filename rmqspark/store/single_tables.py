"""Messages that came one by one, by the hundred: as long as each other, for one topic, one row each.

What `singles.py` does in a loop is done here in columns, and comes to the same bytes; a test holds the two against each
other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqspark.protocol.record_builder import patch
from rmqspark.store.dispatcher import QueuedEntries
from rmqspark.store.entries import entries_of
from rmqspark.store.index_keys import keys_of_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.spans import Positions
    from rmqspark.store.consume_queues import ConsumeQueues
    from rmqspark.store.index_keys import KeyBatch


class SingleTable(NamedTuple):
    """Such messages, whose topic and queues are known to be there."""

    topic: str
    queue_ids: NDArray[np.int64]
    records: NDArray[np.uint8]
    """A row each: complete, but for what they learn by being stored. Written to."""
    tags_code: int
    keys: Sequence[NDArray[np.uint8]]
    """Of each message one key of ASCII of each of these tables, in the order in which the index enters them."""


class StoredTable(NamedTuple):
    """Where the messages are, one item each."""

    queue_offsets: Positions
    physical_offsets: Positions


class LaidOutTable(NamedTuple):
    """What is to be done once the records are in the log."""

    places: StoredTable
    queued: Sequence[QueuedEntries]
    keys: KeyBatch


def lay_out_table(
    table: SingleTable, queues: ConsumeQueues, physical_offset: int, now_ms: int, store_host: bytes
) -> LaidOutTable:
    """Gives messages their places, the first at `physical_offset`, and completes their records."""
    count, size = table.records.shape
    positions = np.arange(0, count * size, size)
    physical_offsets = positions + physical_offset
    order, lengths = _by_queue(table.queue_ids)
    entries = entries_of(physical_offsets[order], np.full(count, size), np.full(count, table.tags_code))
    queue_offsets, queued, end = np.empty(count, np.int64), [], 0
    in_order = np.arange(count)
    for queue_id, length in lengths:
        queue, of_queue = queues.get_or_make(table.topic, queue_id), slice(end, end + length)
        if queue.delay_ms:
            entries["tags_code"][of_queue] = now_ms + queue.delay_ms
        in_order[of_queue] += queue.next_offset - end
        encoded = entries[of_queue].view(np.uint8).data
        queued.append(QueuedEntries(queue, queue.next_offset, encoded, [table.tags_code] * length))
        end += length
    queue_offsets[order] = in_order
    patch(
        table.records.reshape(-1),
        positions,
        first_queue_offset=queue_offsets,
        first_physical_offset=physical_offset,
        store_timestamp_ms=now_ms,
        store_host=store_host,
    )
    keys = keys_of_tables(table.topic, table.keys, physical_offsets, now_ms)
    return LaidOutTable(StoredTable(queue_offsets, physical_offsets), queued, keys)


def _by_queue(queue_ids: NDArray[np.int64]) -> tuple[Positions | slice, list[tuple[int, int]]]:
    """The rows queue by queue, each queue's in their order, and how many of them each queue has."""
    counts = np.bincount(queue_ids)
    lengths = [(queue_id, count) for queue_id, count in enumerate(counts.tolist()) if count]
    return (slice(None) if len(lengths) == 1 else np.argsort(queue_ids, kind="stable")), lengths

"""Finished records of a buffer, and the places that they get in the log and in their queues. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqspark.protocol.records.record_builder import patch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.store.draft import Run
    from rmqspark.store.files import Buffer
    from rmqspark.store.log.commit_log import Placement
    from rmqspark.store.queues.consume_queue import ConsumeQueue


def queue_offsets(runs: Sequence[Run], queues: Sequence[ConsumeQueue]) -> Positions:
    """The queue offset of each record: those of a run count up from what is next in its queue."""
    if len(queues) == 1:
        return np.arange(queues[0].next_offset, queues[0].next_offset + runs[0].length)
    lengths = np.array([run.length for run in runs])
    ahead: Positions = np.array([queue.next_offset for queue in queues]) - (np.cumsum(lengths) - lengths)
    offsets: Positions = np.repeat(ahead, lengths)
    offsets += np.arange(len(offsets))
    return offsets


def patch_placed(
    records: RecordBatch, placements: Sequence[Placement], offsets: Positions, now_ms: int, store_host: bytes
) -> Positions:
    """Writes into the records what they learn by being stored; returns their physical offsets. `offsets` are those in
    their queues."""
    physical_offsets = np.empty(len(records), np.int64)
    for first, last, physical_offset, _ in placements:
        if first < last:
            positions = records.positions[first:last]
            buffer_start = physical_offset - int(positions[0])
            patch(
                records.buffer,
                positions,
                first_queue_offset=offsets[first:last],
                first_physical_offset=buffer_start,
                store_timestamp_ms=now_ms,
                store_host=store_host,
            )
            physical_offsets[first:last] = positions + buffer_start
    return physical_offsets


def pieces(records: RecordBatch, ends: Positions, placements: Sequence[Placement]) -> list[tuple[Placement, Buffer]]:
    """The bytes for each place; a blank has none of its own."""
    buffer = records.buffer.data
    return [
        (p, buffer[int(records.positions[p.first]) : int(ends[p.last - 1])] if p.last > p.first else b"")
        for p in placements
    ]

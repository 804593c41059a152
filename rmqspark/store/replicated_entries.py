"""What queues and index get of records that are in the log as they are: those that came from a master, and the last
ones that a recovery found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from rmqspark.store.dispatcher import Dispatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.store.dispatcher import Readable
    from rmqspark.store.index.index import Index
    from rmqspark.store.queues.consume_queue import ConsumeQueue
    from rmqspark.store.recovery.redispatch import Redispatcher
    from rmqspark.store.recovery.scan import Records

log = structlog.get_logger("rmqspark.store")


class ReplicatedEntries:
    """The entries of a batch of records that begins at a physical offset; see `dispatcher.Queued`."""

    def __init__(self, redispatcher: Redispatcher, batch: RecordBatch, physical_offset: int) -> None:
        self._redispatcher = redispatcher
        self._batch = batch
        self._physical_offset = physical_offset
        self._dispatched: list[tuple[ConsumeQueue, Positions]] = []

    def take_offsets(self) -> None:
        """They have theirs."""

    def put(self) -> None:
        before = self._redispatcher.refused
        self._dispatched = self._redispatcher.dispatch(self._batch, self._physical_offset)
        if self._redispatcher.refused > before == 0:  # once: whoever writes such things may write many
            log.warning("a message of the log is in no queue, there is none as it says", behind=self._physical_offset)

    def readable(self) -> Iterator[Readable]:
        tags_codes = self._batch.tags_codes()
        for queue, rows in self._dispatched:
            yield queue.topic, queue.queue_id, queue.max_offset, tags_codes[rows]

    def without(self, topic: str) -> ReplicatedEntries:
        """Of topics that were deleted the redispatcher leaves out the messages itself."""
        return self


def dispatch_of_found(
    found: Sequence[Records], redispatcher: Redispatcher, index: Index | None, end_offset: int
) -> Dispatch:
    """What is to be done for records that are in the log, some at least, up to `end_offset`."""
    queued = [ReplicatedEntries(redispatcher, records.batch, records.physical_offset) for records in found]
    add_to_index = partial(_add_to_index, index, found) if index is not None else None
    return Dispatch(end_offset, int(found[-1].batch.store_timestamps_ms[-1]), queued, add_to_index)


def _add_to_index(index: Index, found: Sequence[Records]) -> None:
    for records in found:
        index.append_records(None, records.batch, records.batch.positions + records.physical_offset)

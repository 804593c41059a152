"""What the queues of a slave get of records that came from its master; see `dispatcher.Queued`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.store.dispatcher import Readable
    from rmqspark.store.queues.consume_queue import ConsumeQueue
    from rmqspark.store.recovery.redispatch import Redispatcher

log = structlog.get_logger("rmqspark.store")


class ReplicatedEntries:
    """The entries of a batch of records that begins at a physical offset."""

    def __init__(self, redispatcher: Redispatcher, batch: RecordBatch, physical_offset: int) -> None:
        self._redispatcher = redispatcher
        self._batch = batch
        self._physical_offset = physical_offset
        self._dispatched: list[tuple[ConsumeQueue, Positions]] = []

    def take_offsets(self) -> None:
        """The master gave them."""

    def put(self) -> None:
        before = self._redispatcher.refused
        self._dispatched = self._redispatcher.dispatch(self._batch, self._physical_offset)
        if self._redispatcher.refused > before == 0:  # once: whoever writes such things may write many
            log.warning(
                "a message of the master's is in no queue, there is none as it says", behind=self._physical_offset
            )

    def readable(self) -> Iterator[Readable]:
        tags_codes = self._batch.tags_codes()
        for queue, rows in self._dispatched:
            yield queue.topic, queue.queue_id, queue.max_offset, tags_codes[rows]

    def without(self, topic: str) -> ReplicatedEntries:
        """Of topics that were deleted the redispatcher leaves out the messages itself."""
        return self

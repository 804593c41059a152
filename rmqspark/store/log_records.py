"""Records by where they lie in the log, not by their queues.

A place may come from a client: nobody else says that a record begins there, and what a body holds may look like one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rmqspark.errors import MessageNotFound, RecordError
from rmqspark.protocol.commands.frame import MAX_FRAME_BYTES
from rmqspark.protocol.records.record import decode_record
from rmqspark.store.appending.writer import RECORD_OVERHEAD_BYTES
from rmqspark.store.recovery.scan import LogScan, Records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.reading.readable_queues import ReadableQueues


class LogRecords:
    """Of one store, whose messages are no longer than `max_message_size` bytes."""

    def __init__(self, log: CommitLog, queues: ReadableQueues, max_message_size: int) -> None:
        self._log = log
        self._queues = queues
        self._most_bytes = max(MAX_FRAME_BYTES, max_message_size + RECORD_OVERHEAD_BYTES)

    def at(self, physical_offset: int) -> bytes:
        """The record there, or what looks like one in the body of another. Raises MessageNotFound, also where it says
        that it is longer than any message: who sent that would have gigabytes read."""
        return self._log.read_record(physical_offset, self._most_bytes)

    def message_at(self, physical_offset: int) -> bytes:
        """The record there, for who may read its topic: one that its queue has at that place. What a body holds could
        end in the messages of others. Raises MessageNotFound, DamagedFile."""
        data = self.at(physical_offset)
        with suppress(RecordError):
            if self._queues.holds(decode_record(data)):
                return data
        raise MessageNotFound(f"No queue has a message at physical offset {physical_offset}.")

    def since(self, physical_offset: int) -> Iterator[RecordBatch]:
        """Everything in the log from a record's place on, in log order, damage stepped over. A batch is valid until the
        next is asked for. For looking at what recovery has believed already: checksums are not verified."""
        scan = LogScan(self._log.segments, physical_offset, self._log.end_offset, check_crc=False)
        return (found.batch for found in scan.run() if isinstance(found, Records))

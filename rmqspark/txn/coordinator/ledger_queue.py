"""The ledger's topic, read: every event there is, in the order in which they were written, or none.

Events are the bodies of ordinary messages in queue 0 of RMQ_SYS_TXN_LEDGER_TOPIC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import DamagedFile, OffsetMoved, RecordError
from rmqspark.protocol.names import TXN_LEDGER_TOPIC
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.errors import DecodeError
    from rmqspark.protocol.records.record import Record
    from rmqspark.store.message_store import MessageStore
    from rmqspark.store.reading.reader import BulkReadResult

LEDGER_QUEUE: Final = 0
_READ_BYTES: Final = 1 << 20
_READ_COUNT: Final = 4_096

log = structlog.get_logger("rmqspark.txn")


class LedgerQueue:
    """Of one store."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def bounds(self) -> tuple[int, int]:
        """Offsets of the first event there is, and of the next."""
        return self._store.queues.bounds(TXN_LEDGER_TOPIC, LEDGER_QUEUE)

    def scan(self, queue_offset: int) -> Iterator[tuple[int, int, bytes]]:
        """Queue offset, physical offset and body of each event there is from `queue_offset` on.

        Raises DamagedFile for one that is not as it was written: it might say that something else was decided.
        """
        expected = queue_offset = max(queue_offset, self.bounds()[0])
        while queue_offset < self.bounds()[1]:
            try:
                read = self._read(queue_offset)
            except OffsetMoved as moved:
                queue_offset = moved.next_offset
                continue
            for event in _records(read, expected):
                expected = event.queue_offset + 1
                yield event.queue_offset, event.physical_offset, event.body
            if read.next_offset <= queue_offset:
                return
            queue_offset = read.next_offset

    def _read(self, queue_offset: int) -> BulkReadResult:
        end = self.bounds()[1]
        return self._store.read_bulk(
            TXN_LEDGER_TOPIC, LEDGER_QUEUE, queue_offset, end, max_count=_READ_COUNT, max_bytes=_READ_BYTES
        )


def _records(read: BulkReadResult, expected: int) -> Iterator[Record]:
    """The messages that were read, of which the first should be `expected`. Raises DamagedFile."""
    at = 0
    for size in read.sizes.tolist():
        try:
            record = decode_record(read.body, at)
        except RecordError as error:
            raise unreadable(expected, error, "Is the disk failing? rmq store check lists damage.") from error
        if record.queue_offset != expected:
            log.error("the ledger lacks events", first=expected, next=record.queue_offset)
        expected = record.queue_offset + 1
        yield record
        at += size


def unreadable(queue_offset: int, error: DecodeError, hint: str) -> DamagedFile:
    """The error for an event of which nobody can tell what it says."""
    return DamagedFile(f"Event {queue_offset} of {TXN_LEDGER_TOPIC} cannot be read: {error}", hint=hint)

"""Reads a queue of the broker's own from an offset on, a chunk at a time."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import DamagedFile, RecordError
from rmqspark.protocol.records.record import SIZE_AT, decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqspark.protocol.records.record import Record
    from rmqspark.store.message_store import MessageStore

_CHUNK_RECORDS: Final = 128
_CHUNK_BYTES: Final = 1 << 20

log = structlog.get_logger("rmqspark.txn")


class QueueReader:
    """A queue of `topic`, from `next_offset` on, up to `end_offset` if that is given. What is damaged is logged and
    stepped over."""

    def __init__(
        self, store: MessageStore, topic: str, next_offset: int, *, queue_id: int = 0, end_offset: int | None = None
    ) -> None:
        self._store = store
        self._topic = topic
        self._queue_id = queue_id
        self._end_offset = end_offset
        self.next_offset = next_offset

    def chunk(self) -> list[Record]:
        """The next records; none at the end."""
        while True:
            first = self.next_offset
            count = _CHUNK_RECORDS if self._end_offset is None else min(_CHUNK_RECORDS, self._end_offset - first)
            if count <= 0:
                return []
            found = self._store.read(self._topic, self._queue_id, first, max_count=count, max_bytes=_CHUNK_BYTES)
            self.next_offset = max(first, found.next_offset)
            records = list(self._decode(bytes(found.body), found.count, first))
            if records or self.next_offset == first:
                return records

    def all(self) -> Iterator[Record]:
        """Every record up to the end of the queue."""
        while records := self.chunk():
            yield from records

    def _decode(self, body: bytes, count: int, expected: int) -> Iterator[Record]:
        """`expected` is the queue offset of the first of these records, if none was left out before it."""
        at = 0
        for _ in range(count):
            try:
                record = decode_record(body, at)
                if record.queue_offset != expected:
                    self._check_place(record)
                    expected = record.queue_offset
                yield record
            except (RecordError, DamagedFile) as error:
                log.error("a record is damaged", topic=self._topic, reason=str(error))
            expected += 1
            at += int.from_bytes(body[at + SIZE_AT : at + SIZE_AT + 4], "big")  # what the read held against the queue

    def _check_place(self, record: Record) -> None:
        """No checksum covers the queue offset that a record says it has, and whoever reads it goes by that.

        Raises RecordError where the queue has another record there, DamagedFile.
        """
        if self._store.queues.locate(self._topic, self._queue_id, record.queue_offset) != (
            record.physical_offset,
            record.size,
        ):
            raise RecordError(f"The record at {record.physical_offset} is not in place {record.queue_offset}.")


def records_at(
    store: MessageStore, topic: str, queue_offsets: Sequence[int], max_bytes: int
) -> tuple[list[Record], int]:
    """The records at these offsets of queue 0, which rise: those that are there still. What is damaged is logged and
    left out. They end where they would be more than `max_bytes`, though not before the first; how many of the offsets
    have been looked at is told, too."""
    found = store.read_at_offsets(topic, 0, queue_offsets)
    if found is not None and int(found.sizes.sum()) <= max_bytes:
        with suppress(RecordError):
            records = _decode_all(bytes(found.body), found.sizes.tolist())
            if all(record.queue_offset == offset for record, offset in zip(records, queue_offsets, strict=True)):
                return records, len(queue_offsets)
    return _records_one_by_one(store, topic, queue_offsets, max_bytes)


def _records_one_by_one(
    store: MessageStore, topic: str, queue_offsets: Sequence[int], max_bytes: int
) -> tuple[list[Record], int]:
    records: list[Record] = []
    for first, end in _runs(queue_offsets):
        for record in QueueReader(store, topic, first, end_offset=end).all():
            max_bytes -= record.size
            if records and max_bytes < 0:
                return records, bisect_left(queue_offsets, record.queue_offset)
            records.append(record)
    return records, len(queue_offsets)


def _decode_all(body: bytes, sizes: Sequence[int]) -> list[Record]:
    starts = accumulate(sizes[:-1], initial=0)
    return [decode_record(body, start) for start in starts]


def _runs(queue_offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges [first, end) of offsets that follow each other."""
    first = 0
    for at in range(1, len(queue_offsets) + 1):
        if at == len(queue_offsets) or queue_offsets[at] != queue_offsets[at - 1] + 1:
            yield queue_offsets[first], queue_offsets[at - 1] + 1
            first = at

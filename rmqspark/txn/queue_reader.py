"""Reads a queue of the broker's own from an offset on, a chunk at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import RecordError
from rmqspark.protocol.record import SIZE_AT, decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.protocol.record import Record
    from rmqspark.store.message_store import MessageStore

_CHUNK_RECORDS: Final = 128
_CHUNK_BYTES: Final = 1 << 20

log = structlog.get_logger("rmqspark.txn")


class QueueReader:
    """Queue 0 of `topic`, from `next_offset` on. What is damaged is logged and stepped over."""

    def __init__(self, store: MessageStore, topic: str, next_offset: int) -> None:
        self._store = store
        self._topic = topic
        self.next_offset = next_offset

    def chunk(self) -> list[Record]:
        """The next records; none at the end of the queue."""
        while True:
            found = self._store.read(self._topic, 0, self.next_offset, max_count=_CHUNK_RECORDS, max_bytes=_CHUNK_BYTES)
            has_moved = found.next_offset > self.next_offset
            self.next_offset = max(self.next_offset, found.next_offset)
            if found.count or not has_moved:
                return list(self._decode(bytes(found.body), found.count))

    def all(self) -> Iterator[Record]:
        """Every record up to the end of the queue."""
        while records := self.chunk():
            yield from records

    def _decode(self, body: bytes, count: int) -> Iterator[Record]:
        at = 0
        for _ in range(count):
            try:
                yield decode_record(body, at)
            except RecordError as error:
                log.error("a record is damaged", topic=self._topic, reason=str(error))
            at += int.from_bytes(body[at + SIZE_AT : at + SIZE_AT + 4], "big")  # what the read held against the queue

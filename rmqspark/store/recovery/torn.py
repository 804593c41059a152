"""What a crash takes of a record are bytes at its end, or sectors: both read as zeros (spec: storage, section 2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.store.appending.vouchers import SECTOR_BYTES

if TYPE_CHECKING:
    from rmqspark.protocol.buffers.spans import Bytes
    from rmqspark.protocol.records.record_batch import RecordBatch


def lacks_bytes(buffer: Bytes, start: int, end: int, file_offset: int) -> bool:
    """Whether [start, end) of a buffer, itself at `file_offset` of a file, ends in a zero or has in some sector nothing
    but zeros."""
    if not buffer[end - 1]:
        return True
    while start < end:
        part_end = min(end, start + SECTOR_BYTES - (file_offset + start) % SECTOR_BYTES)
        if not buffer[start:part_end].any():
            return True
        start = part_end
    return False


def has_its_sectors(record: RecordBatch, file_offset: int) -> bool:
    """Whether no sector that lies wholly within the body of one record, itself at `file_offset` of a file, is nothing
    but zeros. Others it shares with what is in front and behind."""
    start, end = int(record.bodies.starts[0]), int(record.bodies.ends[0])
    first = start + -(file_offset + start) % SECTOR_BYTES
    count = max(0, end - first) // SECTOR_BYTES
    sectors = record.buffer[first : first + count * SECTOR_BYTES].reshape(count, SECTOR_BYTES)
    return bool(sectors.any(axis=1).all())

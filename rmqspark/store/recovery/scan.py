"""Walking the log: what recovery believes of it (spec: storage, sections 2.3 and 6).

A record is believed if its sizes, magic and checksum hold and it says of itself that it lies where it was found. The
first thing that is not so ends the log if it lies at or above the watermark, for such is a tail torn off by a crash.
Below the watermark everything was on disk once: there it is *damage*, which is stepped over to the next record that
can be believed, and never a reason to drop what follows (reliability, G4).

The checksum covers the body alone: a record of which a crash took the end, or a power loss a sector, may look right
though its topic or properties lack bytes. These read as zeros, since nothing was ever written there before. So above
the watermark a record is not believed either if its topic begins or ends with a zero, or its properties end in one or
have a sector with nothing but zeros; unless it came with such properties, for which a voucher speaks (`vouchers.py`).
RocketMQ writes none. In a store that it wrote last such a record is believed if something follows it.

Nor does a false checksum mean that a record is torn: there are senders that give one. What a crash takes of a body are
sectors, which read as zeros. So a record of ours that has topic and properties, and something in each sector of its
body, is all there: where something follows, it is damage, above the watermark too, and what follows stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from zlib_ng.zlib_ng import crc32

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.spans import have_zeros
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES
from rmqspark.protocol.records.record import (
    BLANK_BYTES,
    BODY_LENGTH_AT,
    BORN_TIMESTAMP_AT,
    HEAD_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MAX_TOPIC_BYTES,
    MIN_RECORD_BYTES,
    SIZE_MAGIC,
    SIZE_MAGIC_PLACE,
    SYS_FLAG_AT,
    WIDER_HOST,
    SysFlag,
    check_record,
)
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.appending.vouchers import vouched_for
from rmqspark.store.recovery.torn import has_its_sectors, lacks_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.store.log.segment import Segment
    from rmqspark.store.log.segment_log import SegmentLog

_CHUNK_BYTES: Final = 1 << 20
_SHORT_CHUNK_BYTES: Final = 16 << 10  # behind damage: of what holds more, records are looked at one by one
_LONGEST_CHUNK_BYTES: Final = 16 << 20
_HEADS: Final = np.dtype([("size", ">i4"), ("magic", ">u4")])
LONGEST_HEAD_BYTES: Final = HEAD_BYTES + 2 * WIDER_HOST
_MOST_BESIDE_BYTES: Final = 2 * WIDER_HOST + 1 + MAX_TOPIC_BYTES + MAX_PROPERTIES_BYTES  # of a body and the least head
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_MAGIC_TEXTS: Final = tuple(magic.to_bytes(4, "big") for magic in _MAGICS)


class Records(NamedTuple):
    """Records that follow each other from `physical_offset` on; valid until the scan goes on."""

    physical_offset: int
    batch: RecordBatch


class Damage(NamedTuple):
    """A range of the log, once on disk or written to its end, in which nothing can be believed."""

    start: int
    end: int


class LogScan:
    """Goes through the log from `position`, a place where a record begins. When `run` is through, `position` is the
    end of the log: behind its last record, or at the watermark if nothing is left from there on.

    `may_be_torn` says that its writer had no time to close it, `has_vouchers` that the writer was ours."""

    def __init__(
        self,
        segments: SegmentLog,
        start: int,
        watermark: int,
        *,
        check_crc: bool,
        may_be_torn: bool = False,
        has_vouchers: bool = True,
    ) -> None:
        self._segments = segments
        self._watermark = watermark
        self._check_crc = check_crc
        self._may_be_torn = may_be_torn
        self._has_vouchers = has_vouchers
        self._vouched: set[int] = set()  # checksums of properties
        self._chunk = bytearray()
        self.position = start

    def run(self) -> Iterator[Records | Damage]:
        """Everything there is, in log order. The longer the log, the longer the batches: whoever goes through them has
        something to do for each queue in each batch, which with thousands of queues outweighs the messages."""
        chunk_bytes, longer_bytes = _CHUNK_BYTES, 0
        while True:
            start, segment = self.position, self._segments.segment_at(self.position)
            found = self._read(segment, max(chunk_bytes, longer_bytes)) if segment is not None else _Found(None, 0)
            longer_bytes = found.longer_bytes
            if found.batch is not None:
                self.position += int(found.batch.sizes.sum())
                if self.position - start > chunk_bytes // 2:  # the rest of a chunk may be damaged
                    chunk_bytes = min(2 * chunk_bytes, _LONGEST_CHUNK_BYTES)
                yield Records(start, found.batch)
            elif segment is not None and found.is_blank:
                self.position = segment.base + segment.length
            elif found.longer_bytes:
                continue
            elif self.position < self._watermark:
                self.position = self._next_believable()
                chunk_bytes = _SHORT_CHUNK_BYTES
                yield Damage(start, self.position)
            elif self._step_over_false():
                chunk_bytes = _SHORT_CHUNK_BYTES
                yield Damage(start, self.position)
            else:
                return

    def _read(self, segment: Segment, wanted_bytes: int) -> _Found:
        """What begins at `position`: as many good records as one chunk has, or what is there instead."""
        at = self.position - segment.base
        room = segment.length - at
        size = min(wanted_bytes, room)
        if size > len(self._chunk):
            self._chunk = bytearray(size)
        raw = memoryview(self._chunk)[:size]
        segment.read_into(raw, at)
        sizes = whole_records(raw)
        if len(sizes):
            batch = self._believable(raw, sizes)
            return _Found(batch, 0)
        if size < BLANK_BYTES:
            return _Found(None, 0)
        first_size, magic = SIZE_MAGIC.unpack_from(raw)
        if magic == MAGIC_BLANK:
            return _Found(None, 0, is_blank=first_size == room)
        is_longer = magic in _MAGICS and size < first_size <= room and fits_its_body(raw, first_size)
        return _Found(None, first_size if is_longer else 0)

    def _believable(self, raw: memoryview, sizes: Positions) -> RecordBatch | None:
        batch = RecordBatch.from_sizes(raw[: int(sizes.sum())], sizes)
        good = self._count_good(raw, batch)
        if good < len(batch):
            batch = RecordBatch.from_sizes(raw[: int(sizes[:good].sum())], sizes[:good])
        if self._may_be_torn and good:
            self._vouched |= vouched_for(batch)
            good = self._count_whole(batch)
            if good < len(batch):
                batch = RecordBatch.from_sizes(raw[: int(sizes[:good].sum())], sizes[:good])
        return batch if good else None

    def _count_good(self, raw: memoryview, batch: RecordBatch) -> int:
        """How many records from the first on can be believed."""
        misplaced = batch.physical_offsets != batch.positions + self.position
        good = int(misplaced.argmax()) if misplaced.any() else len(batch)
        try:
            batch.check(check_crc=self._check_crc)
        except RecordError:
            for row, at in enumerate(batch.positions[:good].tolist()):
                if not _is_record(raw, at, check_crc=self._check_crc):
                    return row
        return good

    def _count_whole(self, batch: RecordBatch) -> int:
        """How many records from the first on have topic and properties whole, as far as that can be told."""
        above = batch.positions + batch.sizes + self.position > self._watermark
        topics, properties = batch.topics, batch.properties
        is_named = (batch.buffer[topics.starts] != 0) & (batch.buffer[topics.ends - 1] != 0)
        file_offset = self.position % self._segments.segment_bytes
        for row in np.flatnonzero(above & (have_zeros(batch.buffer, properties) | ~is_named)).tolist():
            start, end = int(properties.starts[row]), int(properties.ends[row])
            looks_torn = not is_named[row] or lacks_bytes(batch.buffer, start, end, file_offset)
            if looks_torn and not (is_named[row] and self._is_sure_of(batch, start, end)):
                return int(row)
        return len(batch)

    def _is_sure_of(self, batch: RecordBatch, start: int, end: int) -> bool:
        """Whether a record, believable but for its properties, which end it, came with these."""
        is_vouched = crc32(batch.buffer[start:end].data) in self._vouched
        return is_vouched or not (self._has_vouchers or self._is_end(self.position + end))

    def _is_end(self, position: int) -> bool:
        """Whether neither a record nor a blank begins there, as far as its magic tells."""
        segment = self._segments.segment_at(position)
        if segment is None or position + BLANK_BYTES > segment.base + segment.length:
            return True
        _, magic = SIZE_MAGIC.unpack(segment.read(position - segment.base, BLANK_BYTES))
        return magic != MAGIC_BLANK and magic not in _MAGICS

    def _step_over_false(self) -> bool:
        """Goes behind the records that are all there and whose checksums came false, if something follows them; at the
        very end they are no loss to others, and their places are given again as those of any torn tail."""
        start = self.position
        while size := self._size_of_false():
            self.position += size
        if self.position > start and self._goes_on():
            return True
        self.position = start
        return False

    def _size_of_false(self) -> int:
        """The size of the record at `position`, if it is one of those; otherwise 0."""
        segment = self._segments.segment_at(self.position)
        if segment is None or not self._has_vouchers:
            return 0
        at = self.position - segment.base
        size = self._size_at(segment, at)
        if not size:
            return 0
        raw = memoryview(segment.read(at, size))
        if _is_record(raw, 0, check_crc=True) or not _is_record(raw, 0, check_crc=False):
            return 0
        record = RecordBatch.from_sizes(raw, np.array([size], np.int64))
        return size if self._count_whole(record) and has_its_sectors(record, at) else 0

    def _goes_on(self) -> bool:
        """Whether records that can be believed, or a blank, begin at `position`."""
        segment, wanted_bytes = self._segments.segment_at(self.position), _SHORT_CHUNK_BYTES
        while segment is not None and wanted_bytes:
            found = self._read(segment, wanted_bytes)
            if found.batch is not None or found.is_blank:
                return True
            wanted_bytes = found.longer_bytes
        return False

    def _next_believable(self) -> int:
        """Where the next record behind `position` begins; the watermark if there is none below it."""
        for segment in self._segments:
            start = max(self.position + 1, segment.base)
            end = min(self._watermark, segment.base + segment.length)
            if start < end and (found := self._find_record(segment, start, end)) is not None:
                return found
        return self._watermark

    def _find_record(self, segment: Segment, start: int, end: int) -> int | None:
        for chunk_start, chunk_end in _ever_longer(start, end):
            at = chunk_start - segment.base
            chunk = segment.read(at, min(chunk_end - chunk_start + BLANK_BYTES, segment.length - at))
            for candidate in sorted(_places_of_magics(chunk)):
                if chunk_start + candidate < chunk_end and self._is_record_at(segment, at + candidate):
                    return chunk_start + candidate
        return None

    def _is_record_at(self, segment: Segment, at: int) -> bool:
        size = self._size_at(segment, at)
        return size > 0 and _is_record(memoryview(segment.read(at, size)), 0, check_crc=True)

    def _size_at(self, segment: Segment, at: int) -> int:
        """How long the record is of which the head is there; 0 if that is none."""
        room = segment.length - at
        if room < MIN_RECORD_BYTES:
            return 0
        head = segment.read(at, min(room, LONGEST_HEAD_BYTES))
        size, _, place = SIZE_MAGIC_PLACE.unpack_from(head)
        is_head = place == segment.base + at and MIN_RECORD_BYTES <= size <= room and fits_its_body(head, size)
        return int(size) if is_head else 0


class _Found(NamedTuple):
    batch: RecordBatch | None
    longer_bytes: int  # not 0: a record begins here that needs a chunk of this size
    is_blank: bool = False


def whole_records(raw: memoryview) -> Positions:
    """The sizes of the records that follow each other and are complete in `raw`, as far as sizes and magics hold."""
    total = len(raw)
    at, sizes = _equal_sizes(np.frombuffer(raw, np.uint8))
    rest: list[int] = []
    while at + MIN_RECORD_BYTES <= total:
        size, magic = SIZE_MAGIC.unpack_from(raw, at)
        if magic not in _MAGICS or not MIN_RECORD_BYTES <= size <= total - at:
            break
        rest.append(size)
        at += size
    return np.concatenate((sizes, np.array(rest, np.int64)))


def next_record(raw: bytes, physical_offset: int) -> int:
    """Where in `raw`, which lies at `physical_offset`, the first record begins that can be believed, and not at its
    first byte; 0 where none does."""
    for start, end in _ever_longer(1, len(raw) - MIN_RECORD_BYTES + 1):
        for at in sorted(start + place for place in _places_of_magics(raw[start : end + BLANK_BYTES - 1])):
            size, _, place = SIZE_MAGIC_PLACE.unpack_from(raw, at)
            is_there = place == physical_offset + at and MIN_RECORD_BYTES <= size <= len(raw) - at
            if is_there and _is_record(memoryview(raw)[at : at + size], 0, check_crc=True):
                return at
    return 0


def _equal_sizes(raw: Bytes) -> tuple[int, Positions]:
    """The records at the beginning that are all as long as the first: where they end, and their sizes."""
    size = int.from_bytes(raw[:4].tobytes(), "big", signed=True)
    if not MIN_RECORD_BYTES <= size <= len(raw):
        return 0, np.empty(0, np.int64)
    heads = np.ndarray((len(raw) // size,), _HEADS, raw, 0, (size,))
    good = (heads["size"] == size) & ((heads["magic"] == MAGIC_V1) | (heads["magic"] == MAGIC_V2))
    count = len(good) if good.all() else int(good.argmin())
    return count * size, np.full(count, size, np.int64)


def fits_its_body(head: bytes | memoryview, size: int) -> bool:
    """Whether a record of this size may have a body as long as its head says. Asked before as much is read: a single
    bit of a size that is another makes up to a gigabyte of it."""
    hosts = int.from_bytes(head[SYS_FLAG_AT:BORN_TIMESTAMP_AT], "big") & SysFlag.HOSTS_MASK
    at = BODY_LENGTH_AT + WIDER_HOST * hosts.bit_count()
    body_bytes = int.from_bytes(head[at : at + 4], "big", signed=True)
    return 0 <= size - body_bytes - MIN_RECORD_BYTES <= _MOST_BESIDE_BYTES


def _is_record(raw: memoryview, at: int, *, check_crc: bool) -> bool:
    try:
        check_record(raw, at, check_crc=check_crc)
    except RecordError:
        return False
    return True


def _ever_longer(start: int, end: int) -> Iterator[tuple[int, int]]:
    """[start, end) in pieces: where it ends is often near, and seldom very far."""
    size = _SHORT_CHUNK_BYTES
    while start < end:
        yield start, min(start + size, end)
        start, size = start + size, min(2 * size, _CHUNK_BYTES)


def _places_of_magics(chunk: bytes) -> Iterator[int]:
    for text in _MAGIC_TEXTS:
        at = chunk.find(text)
        while at >= 0:
            if at >= 4:
                yield at - 4
            at = chunk.find(text, at + 1)

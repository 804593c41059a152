"""Where records lie, for those that are handed out as they lie, unread: a note for each run of neighbours in the log.

An entry of a damaged queue may lead to anything, and nobody is to be handed that. Runs are vouched for by their ends:
the first record and the last are looked at, and entries between that lead from one to the other without a gap are not
damaged. What is damaged in a record itself its reader finds, and asks for what is sound (`Collector`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.protocol.records.record import SIZE_MAGIC_PLACE

if TYPE_CHECKING:
    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.store.log.segment import Segment
    from rmqspark.store.log.segment_log import SegmentLog

_LEAST_BYTES: Final = 64 << 10  # of a run, on average: for less, copying costs no more than looking at its ends


class LogRegion:
    """A part of one file of the log; a `FileRegion`."""

    __slots__ = ("_at", "_segment", "_size")

    def __init__(self, segment: Segment, at: int, size: int) -> None:
        self._segment = segment
        self._at = at
        self._size = size

    def __len__(self) -> int:
        return self._size

    def send(self, descriptor: int) -> int:
        return self._segment.send(descriptor, self._at, self._size)

    def after(self, taken: int) -> LogRegion:
        return LogRegion(self._segment, self._at + taken, self._size - taken)

    def read(self) -> memoryview:
        buffer = np.empty(self._size, np.uint8).data
        try:
            self._segment.read_into(buffer, self._at)
        except OSError:
            self._segment.may_be_sent = False  # whoever asks again is told what is wrong, instead of being cut off
            raise
        return buffer


def regions_of(log: SegmentLog, physical_offsets: Positions, sizes: Positions) -> list[LogRegion] | None:
    """The runs that these records make, in their order. None where they had better be copied: they are
    few or scattered, or a run is not what its entries say. Raises DamagedFile where a file is missing."""
    ends = physical_offsets + sizes
    files = physical_offsets // log.segment_bytes
    breaks = np.flatnonzero((physical_offsets[1:] != ends[:-1]) | (files[1:] != files[:-1])) + 1
    if int(sizes.sum()) < _LEAST_BYTES * (len(breaks) + 1):
        return None
    regions = []
    for first, last in pairwise([0, *breaks.tolist(), len(sizes)]):
        begin, size = int(physical_offsets[first]), int(ends[last - 1] - physical_offsets[first])
        segment, at = log.held(begin), begin % log.segment_bytes
        is_whole = all(_is_record(log, int(physical_offsets[row]), int(sizes[row])) for row in {first, last - 1})
        if not (segment.may_be_sent and at + size <= segment.length and is_whole):
            return None
        regions.append(LogRegion(segment, at, size))
    return regions


def _is_record(log: SegmentLog, physical_offset: int, size: int) -> bool:
    stored_size, _, stored_offset = SIZE_MAGIC_PLACE.unpack(log.read(physical_offset, SIZE_MAGIC_PLACE.size))
    return (stored_size, stored_offset) == (size, physical_offset)

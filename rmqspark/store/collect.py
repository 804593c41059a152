"""Records out of the log into one buffer, with few reads and no loop over records.

Records wanted together mostly lie together: a queue alone in its log is one run of bytes, several busy queues take
turns. So neighbours are read in one go, the bytes between them too where that is cheaper than another system call, and
what came along is left behind by one vectorised copy.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.protocol.record import PHYSICAL_OFFSET_AT
from rmqspark.protocol.spans import Spans, copy_spans, gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.spans import Bytes, Positions
    from rmqspark.store.segment_log import SegmentLog

_BRIDGED_GAP_BYTES: Final = 8 << 10  # reading that much from the page cache costs about what a read call costs
_EXTENT_BYTES: Final = 1 << 20  # stays in the processor's cache between being read and being copied


class Collector:
    """Reads records of one log. Its scratch buffer is used again by every call; what it returns is the caller's."""

    def __init__(self, segments: SegmentLog) -> None:
        self._segments = segments
        self._scratch: Bytes = np.empty(0, np.uint8)

    def collect(self, physical_offsets: Positions, sizes: Positions) -> Bytes:
        """The records at these places, back to back. Sizes are trusted to be within the log."""
        target: Bytes = np.empty(int(sizes.sum()), np.uint8)
        self.collect_into(target, physical_offsets, sizes)
        return target

    def collect_into(self, target: Bytes, physical_offsets: Positions, sizes: Positions) -> None:
        """The same into a buffer of the caller's, which is filled by them."""
        ends = np.cumsum(sizes)
        starts = ends - sizes
        for first, last in _extents(physical_offsets, sizes):
            begin, end = int(physical_offsets[first]), int(physical_offsets[last - 1] + sizes[last - 1])
            wanted = target[int(starts[first]) : int(ends[last - 1])]
            if end - begin == len(wanted):
                self._segments.read_into(wanted.data, begin)
            else:
                spans = Spans(physical_offsets[first:last] - begin, sizes[first:last])
                copy_spans(self._read_scratch(begin, end), spans, wanted, starts[first:last] - starts[first])

    def collect_sound(
        self, physical_offsets: Positions, sizes: Positions
    ) -> tuple[Bytes, Positions, NDArray[np.bool_]]:
        """The records at these places, their sizes, and which of the places have one. What is not a record of its place
        is left out: nobody is to be handed bytes that a damaged queue entry leads to."""
        body = self.collect(physical_offsets, sizes)
        starts = np.cumsum(sizes) - sizes
        sound = gather(body, starts, np.int32) == sizes
        sound &= gather(body, starts + PHYSICAL_OFFSET_AT, np.int64) == physical_offsets
        if not sound.all():
            sizes = sizes[sound]
            body = self.collect(physical_offsets[sound], sizes)
        return body, sizes, sound

    def _read_scratch(self, begin: int, end: int) -> Bytes:
        if len(self._scratch) < end - begin:
            self._scratch = np.empty(end - begin, np.uint8)
        covering = self._scratch[: end - begin]
        self._segments.read_into(covering.data, begin)
        return covering


def _extents(physical_offsets: Positions, sizes: Positions) -> list[tuple[int, int]]:
    """Ranges of records to be read in one go each."""
    count = len(sizes)
    if not count:
        return []
    ends = physical_offsets + sizes
    gaps = physical_offsets[1:] - ends[:-1]
    if not gaps.any():
        return [(0, count)]
    shares = (ends - physical_offsets[0]) // _EXTENT_BYTES
    breaks = np.flatnonzero((gaps > _BRIDGED_GAP_BYTES) | (gaps < 0) | (shares[1:] != shares[:-1])) + 1
    edges = [0, *breaks.tolist(), count]
    return list(pairwise(edges))

"""Records out of the log into one buffer, with few reads and no loop over records.

Records wanted together mostly lie together: a queue alone in its log is one run of bytes, several busy queues take
turns. So neighbours are read in one go, the bytes between them too where that is cheaper than another system call, and
what came along is left behind by one vectorised copy. Of several queues wanted together, neighbours may be of any.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.protocol.buffers.spans import Spans, copy_spans, gather
from rmqspark.protocol.records.record import PHYSICAL_OFFSET_AT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.store.log.segment_log import SegmentLog

_BRIDGED_GAP_BYTES: Final = 8 << 10  # reading that much from the page cache costs about what a read call costs
_EXTENT_BYTES: Final = 1 << 20  # stays in the processor's cache between being read and being copied


class Collector:
    """Reads records of one log. Its scratch buffer is used again by every call; what it returns is the caller's."""

    def __init__(self, segments: SegmentLog, *, bridged_gap_bytes: int = _BRIDGED_GAP_BYTES) -> None:
        """Gaps up to `bridged_gap_bytes` are read along; one as long as a file may be a file that is missing."""
        self._segments = segments
        self._bridged_gap_bytes = min(bridged_gap_bytes, segments.segment_bytes - 1)
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
        gaps = _gaps(physical_offsets, sizes)
        if _are_scattered(gaps, len(target)):
            order = np.argsort(physical_offsets, kind="stable")
            physical_offsets, sizes, starts = physical_offsets[order], sizes[order], starts[order]
            gaps = _gaps(physical_offsets, sizes)
        for first, last in _extents(physical_offsets, sizes, gaps, self._bridged_gap_bytes):
            self._read(target, physical_offsets[first:last], sizes[first:last], starts[first:last])

    def _read(self, target: Bytes, physical_offsets: Positions, sizes: Positions, starts: Positions) -> None:
        """Records in one go, each to its place; straight there if they are neighbours in the log and in `target`."""
        begin, end = int(physical_offsets[0]), int(physical_offsets[-1] + sizes[-1])
        first, last = int(starts[0]), int(starts[-1] + sizes[-1])
        if end - begin == last - first == int(sizes.sum()) and (starts[1:] - starts[:-1] == sizes[:-1]).all():
            self._segments.read_into(target[first:last].data, begin)
        else:
            copy_spans(self._read_scratch(begin, end), Spans(physical_offsets - begin, sizes), target, starts)

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


def _gaps(physical_offsets: Positions, sizes: Positions) -> Positions:
    """The bytes between each record and the next; below 0 where that lies ahead of it."""
    return physical_offsets[1:] - (physical_offsets[:-1] + sizes[:-1])


def _are_scattered(gaps: Positions, size_bytes: int) -> bool:
    """Whether records are of several queues, and in pieces so small that they had better be read in the log's order."""
    pieces = int(np.count_nonzero(gaps)) + 1
    return pieces * _BRIDGED_GAP_BYTES > size_bytes and bool((gaps < 0).any())


def _extents(
    physical_offsets: Positions, sizes: Positions, gaps: Positions, bridged_gap_bytes: int
) -> list[tuple[int, int]]:
    """Ranges of records to be read in one go each."""
    count = len(sizes)
    if not count:
        return []
    if not gaps.any():
        return [(0, count)]
    shares = (physical_offsets + sizes - physical_offsets[0]) // _EXTENT_BYTES
    breaks = np.flatnonzero((gaps > bridged_gap_bytes) | (gaps < 0) | (shares[1:] != shares[:-1])) + 1
    edges = [0, *breaks.tolist(), count]
    return list(pairwise(edges))

"""Checksums of many bodies. isal's CRC-32 is faster per call than anything NumPy could do per byte, so: one call each,
and as little as possible around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from isal.isal_zlib import crc32

from rmqspark.protocol.record import CRC_MASK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.spans import Bytes, Spans

_BLOCK: Final = 1024  # bodies that are Python objects at the same time


def body_crcs(buffer: Bytes, bodies: Spans) -> NDArray[np.uint32]:
    """What a record stores for each body: CRC-32 without the sign bit."""
    crcs = np.empty(len(bodies.starts), np.uint32)
    raw = buffer.data
    for first in range(0, len(crcs), _BLOCK):
        block = slice(first, first + _BLOCK)
        starts, ends = bodies.starts[block].tolist(), bodies.ends[block].tolist()
        crcs[block] = np.fromiter(map(crc32, map(raw.__getitem__, map(slice, starts, ends))), np.uint32, len(starts))
    crcs &= CRC_MASK
    return crcs

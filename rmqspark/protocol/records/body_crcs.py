"""Checksums of many bodies.

A call of zlib-ng's CRC-32 takes 43 ns for a hundred bytes and 50 for a KiB (on a processor with VPCLMULQDQ); cutting a
hundred bytes out of a buffer takes longer, if every body is cut by itself. Bodies of one length are gathered as rows of
a table, which one call turns into a list of bytes objects. Others are cut from a bytes object, which is faster than
cutting them from a memoryview. Long ones had better not be copied: where they lie evenly spaced, zlib-ng gets a view of
each.

isal's takes 130 ns more there, from 64 bytes on: it leaves the upper halves of the registers in use, which makes a call
of zlib-ng behind it as slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from zlib_ng.zlib_ng import crc32

from rmqspark.protocol.buffers.spans import Spans, sliding, spacing
from rmqspark.protocol.records.record import CRC_MASK

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes

_BLOCK: Final = 1024  # bodies that are Python objects at the same time
_LONG_BYTES: Final = 512


def body_crcs(buffer: Bytes, bodies: Spans) -> NDArray[np.uint32]:
    """What a record stores for each body: CRC-32 without the sign bit."""
    if (rows := long_rows(buffer, bodies)) is not None:
        return crcs_of(rows)
    crcs = np.empty(len(bodies.starts), np.uint32)
    for first in range(0, len(crcs), _BLOCK):
        block = slice(first, first + _BLOCK)
        crcs[block] = crcs_of(cut_bodies(buffer, bodies.take(block)))
    return crcs


def long_rows(buffer: Bytes, bodies: Spans) -> Bytes | None:
    """Long bodies of one length, evenly spaced, as the rows of a table, a view of the buffer; None for others."""
    starts, lengths = bodies
    step, width = spacing(starts), int(lengths[0]) if len(lengths) else 0
    if not step or width < _LONG_BYTES or not (lengths == width).all():
        return None
    return np.ndarray((len(starts), width), np.uint8, buffer, int(starts[0]), (step, 1))


def crcs_of(bodies: Collection[bytes] | Bytes) -> NDArray[np.uint32]:
    """The same of bodies that are Python objects already, or rows of a table."""
    crcs = np.fromiter(map(crc32, bodies), np.uint32, len(bodies))
    crcs &= CRC_MASK
    return crcs


def cut_bodies(buffer: Bytes, bodies: Spans) -> list[bytes]:
    """The spans, one at least, as Python objects."""
    starts, lengths = bodies
    width = int(lengths[0])
    if width and (lengths == width).all():
        cut: list[bytes] = sliding(buffer, f"V{width}")[starts].tolist()
        return cut
    first = int(starts.min())
    raw = buffer[first : int(bodies.ends.max())].tobytes()
    begins = starts - first
    return [raw[begin:end] for begin, end in zip(begins.tolist(), (begins + lengths).tolist(), strict=True)]

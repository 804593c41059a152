"""What two runs of a batch are compared by: how many rows they have, and a sum over their bodies.

Spark may give the rows of a batch that it runs again to other tasks and in another order, so the sum must not depend
on either: each body is hashed into 64 bits, made of its CRC-32 and its length, and the hashes are added modulo 2^64.
The hash is the finisher of SplitMix64, which spreads neighbouring CRCs over the whole range; without it the sum of two
bodies' CRCs would be that of many other pairs. It tells accidents, not forgeries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqspark.protocol.body_crcs import body_crcs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.columns import Column

_MASK = (1 << 64) - 1
_LENGTH_SHIFT = np.uint64(32)
_STEPS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = np.uint64(31)


@dataclass
class RowChecksum:
    """Rows, and the sum of their hashes. Adds up over batches, tasks and brokers."""

    rows: int = 0
    checksum: int = 0

    def add(self, crcs: NDArray[np.uint32], lengths: NDArray[np.integer[Any]]) -> None:
        """Counts rows in: CRC-32 (without its sign bit, as a record stores it) and length in bytes of each body."""
        self.merge(len(crcs), int(_mixed(crcs, lengths).sum(dtype=np.uint64)))

    def add_bodies(self, bodies: Column) -> None:
        """Counts rows in by their bodies themselves."""
        spans = bodies.spans()
        self.add(body_crcs(bodies.values, spans), spans.lengths)

    def merge(self, rows: int, checksum: int) -> None:
        self.rows += rows
        self.checksum = (self.checksum + checksum) & _MASK


def _mixed(crcs: NDArray[np.uint32], lengths: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    hashes = lengths.astype(np.uint64)
    hashes <<= _LENGTH_SHIFT
    hashes |= crcs
    for shift, factor in _STEPS:
        hashes ^= hashes >> shift
        hashes *= factor
    hashes ^= hashes >> _LAST_SHIFT
    return hashes

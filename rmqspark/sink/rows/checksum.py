"""What two runs of a batch are compared by: how many rows they have, and a sum over their bodies.

Spark may give the rows of a batch that it runs again to other tasks and in another order, so the sum must not depend
on either: each body, with its topic where a column names that, is hashed into 64 bits (`row_hashes.py`), and the hashes
are added modulo 2^64. It tells accidents, not forgeries.
"""

from __future__ import annotations

from dataclasses import dataclass

_MASK = (1 << 64) - 1


@dataclass
class RowChecksum:
    """Rows, and the sum of their hashes. Adds up over batches, tasks and brokers."""

    rows: int = 0
    checksum: int = 0

    def merge(self, rows: int, checksum: int) -> None:
        self.rows += rows
        self.checksum = (self.checksum + checksum) & _MASK

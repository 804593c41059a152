"""Columns of byte strings as Arrow holds them, without Arrow: one buffer of values, and offsets into it."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqspark.protocol.buffers.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes

    Offsets = NDArray[np.int32] | NDArray[np.int64]


class Column(NamedTuple):
    """Row i is `values[offsets[i]:offsets[i + 1]]`, or absent where `present` says so (None: all are there).

    What Arrow's binary and string arrays consist of, slices included: the first offset need not be 0.
    """

    values: Bytes
    offsets: Offsets
    present: NDArray[np.bool_] | None = None

    @classmethod
    def constant(cls, value: bytes, rows: int) -> Column:
        """The same value in every row."""
        return cls(np.frombuffer(value * rows, np.uint8), np.arange(rows + 1, dtype=np.int64) * len(value))

    def spans(self) -> Spans:
        """The rows as spans of `values`; what is absent is empty."""
        offsets = self.offsets.astype(np.int64, copy=False)
        lengths = offsets[1:] - offsets[:-1]
        if self.present is not None:
            lengths = np.where(self.present, lengths, 0)
        return Spans(offsets[:-1], lengths)

    def pieces(self) -> Pieces:
        """The same with each row's span."""
        return Pieces(self.values, self.spans())


class Pieces(NamedTuple):
    """Row i is the span `rows[i]` of `values`: a column whose rows have something else between them."""

    values: Bytes
    rows: Spans

    @classmethod
    def joined(cls, parts: Sequence[Pieces]) -> Pieces:
        """The rows of all parts, each of one at least, one part after another, copied with what lies between them.
        Within each part they come in their order."""
        values = [part.all_values() for part in parts]
        bases = accumulate(map(len, values), initial=0)
        starts = [
            part.rows.starts + (base - int(part.rows.starts[0])) for part, base in zip(parts, bases, strict=False)
        ]
        lengths = [part.rows.lengths for part in parts]
        return cls(np.concatenate(values), Spans(np.concatenate(starts), np.concatenate(lengths)))

    def all_values(self) -> Bytes:
        """From where the first row begins up to where the last one ends."""
        starts, lengths = self.rows
        return self.values[int(starts[0]) : int(starts[-1] + lengths[-1])] if len(starts) else self.values[:0]

    def spans(self) -> Spans:
        """As of a Column."""
        return self.rows

    def pieces(self) -> Pieces:
        """As of a Column."""
        return self


class MapColumn(NamedTuple):
    """Row i has the entries `offsets[i]` to `offsets[i + 1]` of `names` and `values`, as in Arrow's map arrays."""

    offsets: Offsets
    names: Column
    values: Column

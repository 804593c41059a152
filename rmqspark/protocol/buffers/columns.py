"""Columns of byte strings as Arrow holds them, without Arrow: one buffer of values, and offsets into it."""

from __future__ import annotations

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

    @classmethod
    def joined(cls, columns: Sequence[Column]) -> Column:
        """The rows of all columns, one column after another; nothing is absent. A single one stays where it is."""
        if len(columns) == 1:
            return columns[0]
        bounds = [(int(column.offsets[0]), int(column.offsets[-1])) for column in columns]
        values = np.concatenate([column.values[slice(*bound)] for column, bound in zip(columns, bounds, strict=True)])
        lengths = np.concatenate([np.diff(column.offsets) for column in columns])
        return cls(values, np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64))))

    def spans(self) -> Spans:
        """The rows as spans of `values`; what is absent is empty."""
        offsets = self.offsets.astype(np.int64, copy=False)
        lengths = np.diff(offsets)
        if self.present is not None:
            lengths = np.where(self.present, lengths, 0)
        return Spans(offsets[:-1], lengths)


class Pieces(NamedTuple):
    """Row i is the span `rows[i]` of `values`: a column whose rows have something else between them."""

    values: Bytes
    rows: Spans

    def spans(self) -> Spans:
        """As of a Column."""
        return self.rows


class MapColumn(NamedTuple):
    """Row i has the entries `offsets[i]` to `offsets[i + 1]` of `names` and `values`, as in Arrow's map arrays."""

    offsets: Offsets
    names: Column
    values: Column

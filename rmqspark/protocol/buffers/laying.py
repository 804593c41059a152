"""Laying rows of bytes behind each other, each made of the same pieces: what records are written with.

A piece is as wide in every row as in the others (`Fixed`: a head, a checksum, values of one length) or not (`Varying`).
Neighbours of the first kind are laid side by side into a table, block by block, and go to their places in one step; if
no piece varies, that table is the result itself.

What varies is copied first, in the width of the longest for all rows: what that brings along from behind the shorter
ones lands where the next pieces of the row, or the next row's first one, are laid afterwards. So a row takes one copy
instead of the two that spans of any length need (`spans.py`). Where the longest is so much longer that it would reach
beyond them, spans are copied exactly.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from rmqspark.protocol.buffers.columns import Pieces
from rmqspark.protocol.buffers.spans import copy_spans, gather_rows, scatter_rows, spacing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.protocol.buffers.spans import Bytes, Positions, Spans


_WIDE: Final = 256  # bytes of a piece that is not worth another copy
_LARGE: Final = 256 << 10  # bytes of a column that is not either


class Fixed(NamedTuple):
    """A table with a row of bytes for each row, or one for all of them. Several tables are the rows of the first, then
    those of the next."""

    tables: Sequence[Bytes]

    @classmethod
    def constant(cls, text: bytes) -> Fixed:
        """The same in every row."""
        return cls([np.frombuffer(text, np.uint8)[np.newaxis]])

    @property
    def width(self) -> int:
        return int(self.tables[0].shape[1])


class Varying(NamedTuple):
    """A span of `lengths` bytes for each row: the rows of the first column, then those of the next."""

    columns: Sequence[Pieces]
    lengths: Positions


Piece: TypeAlias = Fixed | Varying
Fill: TypeAlias = "Callable[[Bytes, int, int], None]"
"""Is given a buffer, its rows and how far they are apart, and writes into what the first piece has laid there."""


def piece_of(columns: Sequence[Pieces], lengths: Positions) -> Piece:
    """What columns whose rows follow each other, a span for each row, contribute to them; `lengths` are those of all
    rows. Of several columns each has a row."""
    if not len(lengths) or (lengths != lengths[0]).any():
        return Varying(columns if _are_large(columns) else [Pieces.joined(columns)], lengths)
    return Fixed([_table(values, starts, int(lengths[0])) for values, (starts, _) in columns])


def _are_large(columns: Sequence[Pieces]) -> bool:
    """Whether it would take longer to join them than to go through them one by one."""
    return len(columns) == 1 or sum([len(column.all_values()) for column in columns]) >= _LARGE * len(columns)


def _table(values: Bytes, starts: Positions, width: int) -> Bytes:
    """What is that wide at each start; a view where these are evenly spaced."""
    step = spacing(starts)
    if step or len(starts) == 1:
        return np.ndarray((len(starts), width), np.uint8, values, int(starts[0]), (step, 1))
    return gather_rows(values, starts, width)


def lay(target: Bytes, sizes: Positions, pieces: Sequence[Piece], fill: Fill) -> None:
    """Fills `target` with rows of these sizes. The first piece is a constant, into whose place `fill` may write."""
    if not len(sizes):
        return
    runs = _runs(pieces)
    if len(runs) == 1 and isinstance(runs[0], list):
        fill(target, len(sizes), _lay_table(target, len(sizes), runs[0]))
        return
    at = np.cumsum(sizes) - sizes
    tables: list[tuple[Positions, Bytes]] = []
    for run in runs:
        if isinstance(run, list):
            tables += _at_their_places(_tables_of(len(sizes), run), at)
            at = at + sum([piece.width for piece in run])
        else:
            at = _copy_all(run, target, at, most_beyond=tables[0][1].shape[1])
    head = tables[0][1]
    fill(head.reshape(-1), len(head), head.shape[1])
    for places, table in tables:
        scatter_rows(target, places, table)


def _runs(pieces: Sequence[Piece]) -> list[list[Fixed] | Varying]:
    """The pieces, those in lists that go to their places together. If any varies, wide ones go alone, from where they
    lie."""
    may_be_wide = all([isinstance(piece, Fixed) for piece in pieces])
    runs: list[list[Fixed] | Varying] = []
    is_open = False
    for piece in pieces:
        if isinstance(piece, Varying):
            runs.append(piece)
            is_open = False
        elif not piece.width:
            continue
        elif is_open and (may_be_wide or piece.width <= _WIDE):
            runs[-1].append(piece)  # type: ignore[union-attr]
        else:
            runs.append([piece])
            is_open = may_be_wide or piece.width <= _WIDE
    return runs


def _tables_of(rows: int, pieces: list[Fixed]) -> Sequence[Bytes]:
    """All of them side by side; those of a single one stay where they are, unless it is a constant."""
    if len(pieces) == 1 and (len(pieces[0].tables) > 1 or len(pieces[0].tables[0]) == rows):
        return pieces[0].tables
    table = np.empty((rows, sum([piece.width for piece in pieces])), np.uint8)
    _lay_table(table.reshape(-1), rows, pieces)
    return [table]


def _at_their_places(tables: Sequence[Bytes], at: Positions) -> list[tuple[Positions, Bytes]]:
    """Tables whose rows follow each other, each with the places of its rows."""
    ends = accumulate(map(len, tables))
    return [(at[end - len(table) : end], table) for table, end in zip(tables, ends, strict=True)]


def _lay_table(target: Bytes, rows: int, pieces: list[Fixed]) -> int:
    """Lays the pieces side by side, row below row; returns how wide that is."""
    width, at = sum([piece.width for piece in pieces]), 0
    for piece in pieces:
        kind, first = f"V{piece.width}", 0  # rows as single items: twice as fast as rows of bytes
        column = np.ndarray((rows,), kind, target, at, (width,))
        for table in piece.tables:
            end = first + len(table) if len(piece.tables) > 1 else rows
            column[first:end] = table.view(kind)[:, 0]
            first = end
        at += piece.width
    return width


def _copy_all(piece: Varying, target: Bytes, at: Positions, *, most_beyond: int) -> Positions:
    """Copies each row's span to its place; returns the places behind them."""
    first = 0
    for values, spans in piece.columns:
        end = first + len(spans.lengths)
        _copy(values, spans, target, at[first:end], most_beyond=most_beyond)
        first = end
    return at + piece.lengths


def _copy(values: Bytes, spans: Spans, target: Bytes, at: Positions, *, most_beyond: int) -> None:
    starts, lengths = spans
    longest = int(lengths.max(initial=0))
    if longest - int(lengths.min(initial=longest)) > most_beyond:
        copy_spans(values, spans, target, at)
        return
    whole = int(np.searchsorted(at, len(target) - longest, "right"))  # behind the others there is too little room
    if longest and whole:
        scatter_rows(target, at[:whole], gather_rows(values, starts[:whole], longest))
    if whole < len(at):
        copy_spans(values, spans.take(slice(whole, None)), target, at[whole:])

"""Rows laid piece by piece: what joining their pieces one by one gives."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.buffers import laying
from rmqspark.protocol.buffers.columns import Pieces
from rmqspark.protocol.buffers.laying import Fixed, Piece, Varying, lay, piece_of
from rmqspark.protocol.buffers.spans import Spans

HEAD = 5
texts = st.binary(max_size=9) | st.binary(min_size=3, max_size=3) | st.integers(0, 400).map(lambda size: b"w" * size)


def column(values: list[bytes], between: bytes = b"") -> Pieces:
    """Values in one buffer, something before, between and behind them."""
    lengths = np.array([len(value) for value in values], np.int64)
    ends = np.cumsum(lengths + len(between))
    return Pieces(np.frombuffer(between.join([b"", *values, b""]), np.uint8), Spans(ends - lengths, lengths))


@pytest.mark.property
@given(st.integers(1, 8), st.data())
def test_pieces_of_any_widths(rows: int, data: st.DataObject) -> None:
    """Constants, equal values, others, long ones and empty ones, in any order, at the end of memory or before it; in
    one column or in two whose rows follow each other, which are joined first or not."""
    pieces: list[Piece] = [Fixed.constant(b"h" * HEAD)]
    expected = [b"H" * HEAD] * rows
    for _ in range(data.draw(st.integers(0, 6))):
        if data.draw(st.booleans()):
            constant = data.draw(st.binary(max_size=300) | st.binary(max_size=4))
            pieces.append(Fixed.constant(constant))
            values = [constant] * rows
        else:
            values = data.draw(st.lists(texts, min_size=rows, max_size=rows))
            if data.draw(st.booleans()):  # wide ones, all equally long
                values = [value.ljust(300, b"w")[:300] for value in values]
            between, cut = data.draw(st.sampled_from([b"", b"--"])), data.draw(st.integers(0, rows))
            with patch.object(laying, "_LARGE", data.draw(st.sampled_from([0, 1 << 20]))):
                columns = [column(part, between) for part in (values[:cut], values[cut:]) if part]
                pieces.append(piece_of(columns, np.array([*map(len, values)])))
        expected = [row + value for row, value in zip(expected, values, strict=True)]
    target = np.empty(sum(map(len, expected)), np.uint8)

    def fill(buffer: np.ndarray, count: int, stride: int) -> None:
        np.ndarray((count, HEAD), np.uint8, buffer, 0, (stride, 1))[:] = ord("H")

    lay(target, np.array([*map(len, expected)]), pieces, fill)
    assert target.tobytes() == b"".join(expected)


def test_equal_values_side_by_side_are_not_copied_before() -> None:
    """Columns of equal values contribute the memory they have; where lengths differ, within one or between two, the
    piece says so."""
    columns = [column([b"aa", b"bb"]), column([b"cc"])]
    piece = piece_of(columns, np.array([2, 2, 2]))
    assert isinstance(piece, Fixed)
    assert all(np.shares_memory(table, each.values) for table, each in zip(piece.tables, columns, strict=True))
    assert isinstance(piece_of([column([b"a", b"bb"])], np.array([1, 2])), Varying)
    assert isinstance(piece_of([column([b"a"]), column([b"bb"])], np.array([1, 2])), Varying)


def test_wide_values_of_several_columns_beside_one_that_varies() -> None:
    """They go to their places table by table."""
    wide, narrow = [b"a" * 300, b"b" * 300, b"c" * 300], [b"x", b"yy", b"zzz"]
    pieces = [
        Fixed.constant(b"H" * HEAD),
        piece_of([column(wide[:2]), column(wide[2:])], np.full(3, 300)),
        piece_of([column(narrow)], np.array([1, 2, 3])),
    ]
    expected = [b"H" * HEAD + body + value for body, value in zip(wide, narrow, strict=True)]
    target = np.empty(sum(map(len, expected)), np.uint8)
    lay(target, np.array([*map(len, expected)]), pieces, lambda *_: None)
    assert target.tobytes() == b"".join(expected)

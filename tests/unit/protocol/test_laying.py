"""Rows laid piece by piece: what joining their pieces one by one gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.buffers.laying import Fixed, Piece, Varying, lay, piece_of
from rmqspark.protocol.buffers.spans import Spans

HEAD = 5
texts = st.binary(max_size=9) | st.binary(min_size=3, max_size=3) | st.integers(0, 400).map(lambda size: b"w" * size)


def column(values: list[bytes], between: bytes) -> tuple[np.ndarray, Spans]:
    """Values in one buffer, something between them."""
    lengths = np.array([len(value) for value in values], np.int64)
    ends = np.cumsum(lengths + len(between))
    return np.frombuffer(between.join([b"", *values]), np.uint8), Spans(ends - lengths, lengths)


@pytest.mark.property
@given(st.integers(1, 8), st.data())
def test_pieces_of_any_widths(rows: int, data: st.DataObject) -> None:
    """Constants, equal values, others, long ones and empty ones, in any order, at the end of memory or before it."""
    pieces: list[Piece] = [Fixed.constant(b"h" * HEAD)]
    expected = [b"H" * HEAD] * rows
    for _ in range(data.draw(st.integers(0, 6))):
        if data.draw(st.booleans()):
            constant = data.draw(st.binary(max_size=300) | st.binary(max_size=4))
            pieces.append(Fixed.constant(constant))
            values = [constant] * rows
        else:
            values = data.draw(st.lists(texts, min_size=rows, max_size=rows))
            pieces.append(piece_of(*column(values, data.draw(st.sampled_from([b"", b"--"])))))
        expected = [row + value for row, value in zip(expected, values, strict=True)]
    target = np.empty(sum(map(len, expected)), np.uint8)

    def fill(buffer: np.ndarray, count: int, stride: int) -> None:
        np.ndarray((count, HEAD), np.uint8, buffer, 0, (stride, 1))[:] = ord("H")

    lay(target, np.array([*map(len, expected)]), pieces, fill)
    assert target.tobytes() == b"".join(expected)


def test_equal_values_side_by_side_are_not_copied_before() -> None:
    """A column of equal values contributes the memory it has; one of several lengths says so."""
    values, spans = column([b"aa", b"bb"], b"")
    piece = piece_of(values, spans)
    assert isinstance(piece, Fixed)
    assert np.shares_memory(piece.table, values)
    assert isinstance(piece_of(*column([b"a", b"bb"], b"")), Varying)

"""Spans: pieces of one buffer, given by where they start and how long they are, handled thousands at a time.

Two tricks carry all of it.

*Sliding views.* A view of the buffer with a stride of one byte has an element of any type at every byte, aligned or
not; indexing it with positions gathers a field of all records in some 5 ns each, as wide as a whole record head, and
assigning to it scatters. (`np.take` must stay away from such views: it would first copy them, an element a byte.)

*Two overlapping copies.* Any span of C to 2C bytes is copied exactly, with nothing before or behind it touched, by a
copy of its first C and one of its last C bytes. With C a power of two, spans of all lengths fall into a handful of
classes, each a gather and a scatter of fixed width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    Bytes = NDArray[np.uint8]
    Positions = NDArray[np.int64]


class Spans(NamedTuple):
    """`starts[i]` and `lengths[i]` (int64) of the i-th span; length -1 says that there is none."""

    starts: Positions
    lengths: Positions

    @property
    def ends(self) -> Positions:
        """One past the last byte of each span."""
        return self.starts + self.lengths

    def take(self, rows: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Spans:
        """The spans that a mask, indices or a slice select."""
        return Spans(self.starts[rows], self.lengths[rows])


def join(parts: Sequence[Spans]) -> Spans:
    """The spans of all parts (one at least), in order."""
    if len(parts) == 1:
        return parts[0]
    return Spans(np.concatenate([part.starts for part in parts]), np.concatenate([part.lengths for part in parts]))


def as_bytes(buffer: bytes | bytearray | memoryview | Bytes) -> Bytes:
    """The buffer as a flat array of uint8, without a copy."""
    return buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)


def spacing(positions: Positions) -> int:
    """How far apart positions are that ascend in equal steps; 0 if they do not, or are fewer than two."""
    if len(positions) < 2:
        return 0
    step = int(positions[1] - positions[0])
    return step if step > 0 and (positions[1:] - positions[:-1] == step).all() else 0


def sliding(buffer: Bytes, dtype: DTypeLike) -> NDArray[Any]:
    """An element of `dtype` at every byte of `buffer` at which a whole one fits."""
    kind = np.dtype(dtype)
    return np.ndarray((max(0, len(buffer) - kind.itemsize + 1),), kind, buffer, 0, (1,))


def items_at(buffer: Bytes, positions: Positions, dtype: DTypeLike) -> NDArray[Any]:
    """The elements of `dtype` at `positions`. Where these are evenly spaced, a view of the buffer."""
    items = sliding(buffer, dtype)
    if (step := spacing(positions)) and positions[0] >= 0 and positions[-1] < len(items):
        return items[int(positions[0]) : int(positions[-1]) + 1 : step]
    return items[positions]


def words_at(buffer: Bytes, starts: Positions, count: int) -> NDArray[np.uint64]:
    """A table of the `count` words of eight bytes from each start on. Where these are evenly spaced, a view."""
    step = spacing(starts)
    if step or len(starts) == 1:
        return np.ndarray((len(starts), count), np.uint64, buffer, int(starts[0]), (step, 8))
    return gather_rows(buffer, starts, 8 * count).view(np.uint64)


def gather(buffer: Bytes, positions: Positions, dtype: DTypeLike) -> NDArray[Any]:
    """The big-endian integers at `positions`, in the machine's byte order."""
    kind = np.dtype(dtype)
    return sliding(buffer, kind.newbyteorder(">"))[positions].astype(kind)


def gather_rows(buffer: Bytes, starts: Positions, width: int) -> Bytes:
    """`width` bytes from each start, as rows of a fresh array; zeros stand for what lies beyond the buffer's end."""
    if not width or not len(starts):
        return np.empty((len(starts), width), np.uint8)
    if len(buffer) < width:
        buffer = np.concatenate((buffer, np.zeros(width - len(buffer), np.uint8)))
    kind = f"V{width}"
    last = len(buffer) - width
    rows = sliding(buffer, kind)[np.minimum(starts, last)].view(np.uint8).reshape(len(starts), width)
    late = np.flatnonzero(starts > last)
    if len(late):
        tail = np.concatenate((buffer[last:], np.zeros(width, np.uint8)))
        rows[late] = gather_rows(tail, starts[late] - last, width)
    return rows


def scatter_rows(buffer: Bytes, starts: Positions, rows: Bytes) -> None:
    """Writes each row of a table of bytes to its place; a table of one row goes to all places."""
    kind = f"V{rows.shape[1]}"
    sliding(buffer, kind)[starts] = rows.view(kind)[:, 0]


def copy_spans(source: Bytes, spans: Spans, target: Bytes, target_starts: Positions) -> None:
    """Copies each span of `source` to its place in `target`. No length may be negative; targets must not overlap."""
    starts, lengths = spans
    if not len(starts):
        return
    longest = int(lengths.max())
    if longest == int(lengths.min()):
        _move(source, starts, target, target_starts, longest)
        return
    classes = np.frexp(lengths)[1]  # c for lengths of 2**(c-1) to 2**c - 1, 0 for empty ones
    for kind in range(1, longest.bit_length() + 1):
        rows = np.flatnonzero(classes == kind)
        if len(rows):
            width = 1 << kind - 1
            begin, end = starts[rows], target_starts[rows]
            _move(source, begin, target, end, width)
            rest = lengths[rows] - width
            _move(source, begin + rest, target, end + rest, width)


def _move(source: Bytes, starts: Positions, target: Bytes, target_starts: Positions, width: int) -> None:
    if width:
        kind = f"V{width}"
        sliding(target, kind)[target_starts] = sliding(source, kind)[starts]


def have_zeros(buffer: Bytes, spans: Spans) -> NDArray[np.bool_]:
    """Whether any byte of each span is zero. No length may be negative."""
    starts, lengths = spans
    ends = np.cumsum(lengths)
    apart = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    copy_spans(buffer, spans, apart, ends - lengths)
    if not len(apart) or apart.min():
        return np.zeros(len(starts), np.bool_)
    zeros = np.flatnonzero(apart == 0)
    return np.searchsorted(zeros, ends) > np.searchsorted(zeros, ends - lengths)


def equal_to(buffer: Bytes, starts: Positions, text: bytes) -> NDArray[np.bool_]:
    """Whether `text` stands at each start. It must fit before the buffer's end.

    Compares whole words, the last one laid against the end of the text, so that no byte behind it is looked at.
    """
    length = len(text)
    if not length:
        return np.ones(len(starts), np.bool_)
    width = min(8, 1 << length.bit_length() - 1)
    words = sliding(buffer, f"u{width}")
    same = np.ones(len(starts), np.bool_)
    for at in {*range(0, length - width, width), length - width}:
        word = int.from_bytes(text[at : at + width], "little")
        same &= words[starts + at].view(f"<u{width}") == word
    return same

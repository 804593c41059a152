"""Writing the properties of many messages at once: from columns of tags, keys and maps to one encoded column.

Every pair's length is known before anything is written, so every pair's place is too. The result is filled with 0x02,
which puts all ends of pairs in place; then names, each with its 0x01, and values are scattered into it.

Values are not escaped, so a separator inside one would forge properties. Instead of looking into every value, the
separators of the result are counted: there must be as many of each kind as pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.errors import InvalidMessage
from rmqspark.protocol.buffers.columns import Column, MapColumn
from rmqspark.protocol.buffers.spans import Spans, copy_spans, equal_to, scatter_rows
from rmqspark.protocol.java_hash import java_hash, java_hash_spans
from rmqspark.protocol.records.properties import NAME_END, PAIR_END, RESERVED_NAMES, TRANSIENT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.columns import Pieces
    from rmqspark.protocol.buffers.spans import Bytes, Positions

_RESERVED_BY_HASH: Final = {java_hash(name): name.encode() for name in RESERVED_NAMES}
_RESERVED_HASHES: Final = np.array(sorted(_RESERVED_BY_HASH), np.int32)
_TRANSIENT: Final = TRANSIENT_PREFIX.encode()


def build_properties(rows: int, singles: Mapping[str, Column | Pieces], pairs: MapColumn | None = None) -> Column:
    """Encoded properties, one value per row: `singles` in their order, then the user's `pairs`.

    Put TAGS first: brokers look for it. Absent and empty values are left out, and so are pairs whose names RocketMQ
    reserves. Raises InvalidMessage, naming the row, for a 0x01 or 0x02 in a name or value.
    """
    parts: list[_Single | _Users] = [_Single(name, column) for name, column in singles.items()]
    if pairs is not None:
        parts.append(_Users(pairs))
    offsets = np.zeros(rows + 1, np.int64)
    for part in parts:
        offsets[1:] += part.widths
    np.cumsum(offsets, out=offsets)

    values = np.full(int(offsets[-1]), PAIR_END, np.uint8)
    at = offsets[:-1].copy()
    for part in parts:
        part.write(values, at)
        at += part.widths
    _check_separators(values, offsets, parts)
    return Column(values, offsets)


class _Single:
    """One property that a row has or has not. `widths` and `counts`: what it takes in each row, bytes and pairs."""

    def __init__(self, name: str, column: Column | Pieces) -> None:
        self._name = np.frombuffer(f"{name}\x01".encode(), np.uint8)
        self._values = column.values
        self._spans = column.spans()
        self.counts = self._spans.lengths > 0
        self.widths = (self._spans.lengths + (len(self._name) + 1)) * self.counts

    def write(self, target: Bytes, starts: Positions) -> None:
        """Name and value of every row that has them, from `starts` on."""
        spans = self._spans
        if not self.counts.all():
            starts, spans = starts[self.counts], spans.take(self.counts)
        scatter_rows(target, starts, self._name[np.newaxis])
        copy_spans(self._values, spans, target, starts + len(self._name))


class _Users:
    """The pairs of a map column. `widths` and `counts`: what they take in each row, bytes and pairs."""

    def __init__(self, pairs: MapColumn) -> None:
        offsets = pairs.offsets.astype(np.int64)
        entries = slice(int(offsets[0]), int(offsets[-1]))
        names, values = pairs.names.spans().take(entries), pairs.values.spans().take(entries)
        kept = (names.lengths > 0) & (values.lengths > 0) & ~_reserved(pairs.names.values, names)
        self._rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[kept]
        self._names, self._values = names.take(kept), values.take(kept)
        self._columns = pairs
        pair_ends = np.cumsum(self._names.lengths + self._values.lengths + 2)
        self._pair_starts = np.concatenate(([0], pair_ends))
        self.counts = np.bincount(self._rows, minlength=len(offsets) - 1)
        row_ends = np.cumsum(self.counts)
        self._row_starts = self._pair_starts[row_ends - self.counts]
        self.widths = self._pair_starts[row_ends] - self._row_starts

    def write(self, target: Bytes, starts: Positions) -> None:
        """The pairs of every row, from its start on."""
        at = (starts - self._row_starts)[self._rows] + self._pair_starts[:-1]
        copy_spans(self._columns.names.values, self._names, target, at)
        at += self._names.lengths
        target[at] = NAME_END
        copy_spans(self._columns.values.values, self._values, target, at + 1)


def _reserved(buffer: Bytes, names: Spans) -> NDArray[np.bool_]:
    """Which names RocketMQ keeps for itself. Told by hash; the bytes have the last word."""
    reserved = np.zeros(len(names.starts), np.bool_)
    hashes = java_hash_spans(buffer, *names)
    for name_hash in np.intersect1d(hashes, _RESERVED_HASHES).tolist():
        name = _RESERVED_BY_HASH[name_hash]
        _mark(reserved, buffer, names, (hashes == name_hash) & (names.lengths == len(name)), name)
    _mark(reserved, buffer, names, names.lengths >= len(_TRANSIENT), _TRANSIENT)
    return reserved


def _mark(marks: NDArray[np.bool_], buffer: Bytes, names: Spans, doubtful: NDArray[np.bool_], text: bytes) -> None:
    rows = np.flatnonzero(doubtful)
    marks[rows] |= equal_to(buffer, names.starts[rows], text)


def _check_separators(values: Bytes, offsets: Positions, parts: list[_Single | _Users]) -> None:
    """Each pair brought one separator of each kind: any other came in a name or value."""
    count = sum(int(part.counts.sum()) for part in parts)
    for separator in (NAME_END, PAIR_END):
        found = values == separator
        if np.count_nonzero(found) != count:
            expected = sum(part.counts.astype(np.int64) for part in parts)
            places = np.searchsorted(np.flatnonzero(found), offsets)
            row = int((np.diff(places) != expected).argmax())
            raise InvalidMessage(
                f"Row {row}: a property contains byte 0x{separator:02x}.",
                hint="RocketMQ separates properties with 0x01 and 0x02; they cannot be part of one.",
            )

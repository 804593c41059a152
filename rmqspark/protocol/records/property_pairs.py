"""The properties of thousands of records, taken apart at once.

The properties of all records are laid below each other in a scratch area, each followed by at least one 0x02. There one
search finds all separators, and no segment reaches from one record into the next. A pair is then a 0x01 that follows a
0x02 (or the area's beginning) with something before it and behind it; what properties.py says about malformed segments
falls out of that: a segment without 0x01 has no such place, and further 0x01 belong to the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.protocol.buffers.spans import Spans, copy_spans, equal_to, gather_rows
from rmqspark.protocol.java_hash import java_hash_spans
from rmqspark.protocol.records.properties import NAME_END, PAIR_END

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Positions


_FEW: Final = 16  # pairs of a record that are compared with each other sooner than sorted


class PropertyMaps(NamedTuple):
    """One map per record: `counts[i]` entries of `names` and `values` are the i-th record's. No name comes twice."""

    counts: NDArray[np.int64]
    names: Spans
    values: Spans


class PropertyPairs:
    """All pairs of all records, in order; `rows[i]` says which record pair i belongs to.

    `names` and `values` are spans of the batch's buffer. Duplicates within a record are still there: `find` takes the
    last one, `maps` leaves the others out.
    """

    def __init__(self, buffer: Bytes, spans: Spans, rows: Positions, names: Spans, values: Spans) -> None:
        self._buffer = buffer
        self._spans = spans
        self.rows: Final = rows
        self.names: Final = names
        self.values: Final = values

    @classmethod
    def parse(cls, buffer: Bytes, spans: Spans) -> PropertyPairs:
        """The pairs in `spans`, the encoded properties of one record each."""
        scratch = _Scratch(buffer, spans)
        begins, middles, ends = _find_pairs(scratch.area)
        rows = scratch.rows_of(begins)
        shift = (spans.starts - scratch.starts)[rows]
        begins += shift
        middles += shift
        ends += shift
        return cls(buffer, spans, rows, Spans(begins, middles - begins), Spans(middles + 1, ends - middles - 1))

    def find(self, name: bytes) -> Spans:
        """The value that every record has for `name`, the last one if several; length -1 where it has none."""
        starts = self._spans.starts.copy()
        lengths = np.full(len(starts), -1, np.int64)
        pairs = np.flatnonzero(self.names.lengths == len(name))
        pairs = pairs[equal_to(self._buffer, self.names.starts[pairs], name)]
        rows = self.rows[pairs]
        starts[rows] = self.values.starts[pairs]
        lengths[rows] = self.values.lengths[pairs]
        return Spans(starts, lengths)

    def has(self, name: bytes) -> bool:
        """Whether any record has `name`. Cheap where none has."""
        pairs = np.flatnonzero(self.names.lengths == len(name))
        return len(pairs) > 0 and bool(equal_to(self._buffer, self.names.starts[pairs], name).any())

    def maps(self) -> PropertyMaps:
        """The pairs as a map has them: of several with one name in a record, the last."""
        rows, names, values = self.rows, self.names, self.values
        counts = self._count(rows)
        kept = self._last_of_each_name(int(counts.max(initial=0)))
        if kept is not None:
            rows, names, values = rows[kept], names.take(kept), values.take(kept)
            counts = self._count(rows)
        return PropertyMaps(counts, names, values)

    def _count(self, rows: Positions) -> Positions:
        """How many pairs each record has."""
        return np.bincount(rows, minlength=len(self._spans.starts))

    def _last_of_each_name(self, most: int) -> NDArray[np.bool_] | None:
        """Which pairs stay; None if all do. No record has more than `most`.

        Names of one record are told apart by their hash, bytes settle doubts.
        """
        hashes = java_hash_spans(self._buffer, *self.names)
        marks = (self.rows << 32) | hashes.view(np.uint32)
        twice = _repeated(marks, most)
        if not len(twice):
            return None
        kept = np.ones(len(marks), np.bool_)
        seen: set[tuple[int, bytes]] = set()
        for pair in np.flatnonzero(np.isin(marks, twice))[::-1].tolist():
            start = int(self.names.starts[pair])
            name = self._buffer[start : start + int(self.names.lengths[pair])].tobytes()
            key = (int(self.rows[pair]), name)
            kept[pair] = key not in seen
            seen.add(key)
        return kept


class _Scratch:
    """The properties below each other, each with 0x02 behind it: as a rectangle, unless that wastes too much room."""

    def __init__(self, buffer: Bytes, spans: Spans) -> None:
        lengths = spans.lengths
        rows = len(lengths)
        width = int(lengths.max()) + 1 if rows else 1
        total = int(lengths.sum())
        self._width = width if rows * width <= 2 * total + 65536 else 0
        if self._width:
            self.area = self._rectangle(buffer, spans, width)
            self.starts = np.arange(rows, dtype=np.int64) * width
        else:
            self.starts = np.cumsum(lengths + 1) - (lengths + 1)
            self.area = np.full(total + rows, PAIR_END, np.uint8)
            copy_spans(buffer, spans, self.area, self.starts)

    @staticmethod
    def _rectangle(buffer: Bytes, spans: Spans, width: int) -> Bytes:
        area = gather_rows(buffer, spans.starts, width)
        shortest = int(spans.lengths.min()) if len(area) else 0
        columns = np.arange(shortest, width, dtype=np.uint16)[:, np.newaxis]
        behind = spans.lengths.astype(np.uint16) <= columns
        np.copyto(area.T[shortest:], PAIR_END, where=behind)  # column by column: the loop over rows is the long one
        return area.reshape(-1)

    def rows_of(self, places: Positions) -> Positions:
        """Which record each place of the area belongs to."""
        if self._width:
            return places // self._width
        return np.searchsorted(self.starts, places, "right") - 1


def _repeated(marks: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Marks that come more than once, if no mark comes again further than `most` places behind."""
    if most > _FEW:
        marks, most = np.sort(marks), 2
    found = [marks[distance:][marks[distance:] == marks[:-distance]] for distance in range(1, most)]
    return np.concatenate((marks[:0], *found))


def _find_pairs(area: Bytes) -> tuple[Positions, Positions, Positions]:
    """Where each pair begins, where its 0x01 stands and where it ends. The area ends in 0x02, or is empty."""
    places = np.flatnonzero((area - np.uint8(NAME_END)) <= np.uint8(PAIR_END - NAME_END))
    name_ends = area[places] == NAME_END
    again = name_ends[1:] & name_ends[:-1]
    if again.any():
        kept = np.concatenate(([True], ~again))
        places, name_ends = places[kept], name_ends[kept]
    at = np.flatnonzero(name_ends)
    begins = places[at - 1] + 1
    if len(at) and at[0] == 0:
        begins[0] = 0
    middles, ends = places[at], places[at + 1]
    whole = (begins < middles) & (middles + 1 < ends)
    if whole.all():
        return begins, middles, ends
    return begins[whole], middles[whole], ends[whole]

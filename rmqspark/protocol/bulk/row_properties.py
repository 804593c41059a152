"""What the rows of a bulk have besides their bodies: tags, keys and sharding keys, a column each.

They travel as columns, and whoever makes records of the rows puts them there as properties, with the rows' unique ids
between them: TAGS, KEYS, UNIQ_KEY, __SHARDINGKEY. An empty value says that a row has none. Layout, big-endian:

    width (4) of tags, keys, sharding keys: how long all values are, or -1 where that differs
    | lengths (count × 2) of each column that has no width | the values of all tags, keys, sharding keys
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.columns import Column, Pieces
from rmqspark.protocol.buffers.laying import Fixed, piece_of
from rmqspark.protocol.buffers.spans import Spans
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES, NAME_END, PAIR_END, Property
from rmqspark.protocol.records.property_builder import build_properties
from rmqspark.protocol.records.record_builder import Parts
from rmqspark.protocol.records.unique_keys import UNIQUE_KEY_PAIR_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.buffers.laying import Piece
    from rmqspark.protocol.buffers.spans import Bytes, Positions

_NAMES: Final = (Property.TAGS, Property.KEYS, Property.SHARDING_KEY)
_AHEAD_OF_ID: Final = 2  # of the columns
_ID_AT: Final = len(Property.UNIQ_KEY) + 1  # in its property
_WIDTHS: Final = Struct(f">{len(_NAMES)}i")
_DIFFERING: Final = -1
_LENGTH_BYTES: Final = 2

NAMES_BYTES: Final = sum(len(name) + 2 for name in _NAMES)
"""How much longer than their values properties are at most, without the unique id."""


class RowProperties(NamedTuple):
    """A column each, of as many rows; a value that is not there is empty. The values of a column follow each other, and
    have no separators in them."""

    tags: Pieces
    keys: Pieces
    sharding_keys: Pieces

    @classmethod
    def of(
        cls, rows: int, tags: Column | None = None, keys: Column | None = None, sharding_keys: Column | None = None
    ) -> Self:
        """Those of so many rows, from columns under whose absent values there is nothing; None has no value."""
        columns = [column or Column.constant(b"", rows) for column in (tags, keys, sharding_keys)]
        return cls(*[Pieces(column.values, column.spans()) for column in columns])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The rows of all, one after another."""
        return parts[0] if len(parts) == 1 else cls(*map(Pieces.joined, zip(*parts, strict=True)))

    def part(self, first: int, end: int | None = None) -> Self:
        """The rows from number `first` up to, not including, `end`."""
        return type(self)(*[pieces._replace(rows=pieces.rows.take(slice(first, end))) for pieces in self])

    @property
    def have_tags(self) -> bool:
        """Whether any row has."""
        return bool(self.tags.rows.lengths.any())

    def encoded_bytes(self) -> Positions:
        """How long the properties of each row are in its record."""
        lengths = np.full(len(self.tags.rows.lengths), UNIQUE_KEY_PAIR_BYTES)
        for name, pieces in zip(_NAMES, self, strict=True):
            lengths += pieces.rows.lengths
            lengths += (pieces.rows.lengths > 0) * (len(name) + 2)
        return lengths

    def encoded_bytes_of_all(self) -> int:
        """The same of all rows together."""
        names = [
            int(np.count_nonzero(each.rows.lengths)) * (len(name) + 2) for name, each in zip(_NAMES, self, strict=True)
        ]
        values = sum(len(pieces.all_values()) for pieces in self)
        return len(self.tags.rows.lengths) * UNIQUE_KEY_PAIR_BYTES + sum(names) + values

    def longest_value_bytes(self) -> int:
        """Of all values of all columns."""
        return max(int(pieces.rows.lengths.max(initial=0)) for pieces in self)

    def most_encoded_bytes(self) -> Positions:
        """How long the properties of each row are in its record, at most."""
        return self._values_bytes() + (UNIQUE_KEY_PAIR_BYTES + NAMES_BYTES)

    def most_sent_bytes(self) -> Positions:
        """How much each row adds to what travels, at most."""
        return self._values_bytes() + len(_NAMES) * _LENGTH_BYTES

    def are_plain(self) -> bool:
        """Whether no value has a separator in it, and those of each row surely fit into a record."""
        return self._fit() and not any(_has_separator(pieces.all_values()) for pieces in self)

    def _fit(self) -> bool:
        return int(self.most_encoded_bytes().max(initial=0)) <= MAX_PROPERTIES_BYTES

    def _values_bytes(self) -> Positions:
        lengths = self.tags.rows.lengths + self.keys.rows.lengths
        lengths += self.sharding_keys.rows.lengths
        return lengths

    def encode(self) -> tuple[Bytes, ...]:
        """Their layout, in parts; the values from where they lie."""
        columns = [pieces.rows.lengths for pieces in self]
        widths = [int(lengths[0]) if (lengths == lengths[0]).all() else _DIFFERING for lengths in columns]
        ahead = [
            lengths.astype(">u2").view(np.uint8)
            for lengths, width in zip(columns, widths, strict=True)
            if width == _DIFFERING
        ]
        return np.frombuffer(_WIDTHS.pack(*widths), np.uint8), *ahead, *map(Pieces.all_values, self)

    @classmethod
    def decode(cls, data: memoryview, count: int) -> tuple[Self, memoryview]:
        """Those of `count` rows at the beginning of `data`, in its memory, and what follows. Raises RecordError."""
        _require(len(data) >= _WIDTHS.size, "their widths are missing")
        widths, data = _WIDTHS.unpack_from(data), data[_WIDTHS.size :]
        columns = []
        for width in widths:
            _require(_DIFFERING <= width <= MAX_PROPERTIES_BYTES, f"values of {width} bytes")
            if width == _DIFFERING:
                _require(len(data) >= count * _LENGTH_BYTES, "lengths are missing")
                columns.append(np.frombuffer(data, ">u2", count).astype(np.int64))
                data = data[count * _LENGTH_BYTES :]
            else:
                columns.append(np.full(count, width, np.int64))
        total = sum(int(lengths.sum()) for lengths in columns)
        _require(len(data) >= total, "values are missing")
        values, pieces, first = np.frombuffer(data[:total], np.uint8), [], 0
        _require(not _has_separator(values), "a value has a separator in it")
        for lengths in columns:
            ends = np.cumsum(lengths) + first
            pieces.append(Pieces(values, Spans(ends - lengths, lengths)))
            first = int(ends[-1])
        found = cls(*pieces)
        _require(found._fit(), "a record has no room for those of a row")
        return found, data[total:]

    def in_records(self, ids: Column) -> Parts:
        """What they are in records, `ids` being the rows' property UNIQ_KEY.

        Columns that all rows have, or none, go there from where they lie; others are made into one first.
        """
        singles = [*zip(_NAMES, self, strict=True)]
        present = [pieces.rows.lengths > 0 for pieces in self]
        if any(has.any() and not has.all() for has in present):
            id_values = ids.spans()
            values = Pieces(ids.values, Spans(id_values.starts + _ID_AT, id_values.lengths - (_ID_AT + 1)))
            singles.insert(_AHEAD_OF_ID, (Property.UNIQ_KEY, values))
            return Parts.of([build_properties(len(ids.offsets) - 1, dict(singles))])
        pairs = [_pair(*single) if has.any() else [] for single, has in zip(singles, present, strict=True)]
        pairs.insert(_AHEAD_OF_ID, [*Parts.of([ids]).pieces])
        return Parts([piece for pair in pairs for piece in pair], self.encoded_bytes())


def _pair(name: str, values: Pieces) -> list[Piece]:
    value = piece_of([values], values.rows.lengths)
    return [Fixed.constant(name.encode() + bytes((NAME_END,))), value, Fixed.constant(bytes((PAIR_END,)))]


def _has_separator(values: Bytes) -> bool:
    return bool(((values - np.uint8(NAME_END)) <= np.uint8(PAIR_END - NAME_END)).any())


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RecordError(f"A bulk has no such properties of rows: {otherwise}.")

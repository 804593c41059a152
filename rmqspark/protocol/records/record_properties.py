"""The properties of the records of a buffer: looked at once, whoever asks.

Where all are laid out alike (`property_layout.py`), every place is known; otherwise they are taken apart
(`property_pairs.py`). What comes out is the same.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.protocol.buffers.spans import Spans, join
from rmqspark.protocol.records.property_layout import Layout
from rmqspark.protocol.records.property_pairs import PropertyMaps, PropertyPairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqspark.protocol.buffers.spans import Bytes

_BLOCK_BYTES: Final = 1024 * 1024


class RecordProperties:
    """The encoded properties of the records of a buffer, one span each.

    Taken apart they can take twenty times their size in memory, so large ones are taken apart block by block, again for
    every question; those of ordinary chunks once.
    """

    def __init__(self, buffer: Bytes, spans: Spans) -> None:
        self._buffer = buffer
        self._spans = spans
        self._found: dict[bytes, Spans] = {}
        self._layout = Layout.find(buffer, spans) if len(spans.starts) else None

    def find(self, name: bytes) -> Spans:
        """The value that every record has for `name`, the last one if several; length -1 where it has none."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def has_any(self, names: Sequence[bytes]) -> bool:
        """Whether any record has a property of one of these names."""
        if self._layout is None:
            return any(pairs.has(name) for pairs in self._pairs() for name in names)
        return not self._layout.places.keys().isdisjoint(names)

    def columns(self) -> dict[bytes, Spans] | None:
        """The values of each name, one for every record, where all are laid out alike; else None."""
        if self._layout is None:
            return None
        return {name: self._layout.values(name, self._spans) for name in self._layout.places}

    def maps(self) -> PropertyMaps:
        """All pairs of all records, as maps."""
        if self._layout is not None:
            return _maps_alike(self._layout, self._spans)
        maps = [pairs.maps() for pairs in self._pairs()]
        counts = np.concatenate([one.counts for one in maps])
        return PropertyMaps(counts, join([one.names for one in maps]), join([one.values for one in maps]))

    def _find(self, name: bytes) -> Spans:
        if self._layout is None:
            return join([pairs.find(name) for pairs in self._pairs()])
        if name in self._layout.places:
            return self._layout.values(name, self._spans)
        return Spans(self._spans.starts, np.full(len(self._spans.starts), -1, np.int64))

    def _pairs(self) -> Iterable[PropertyPairs]:
        if len(self._blocks) == 1:
            return (self._all,)
        return (PropertyPairs.parse(self._buffer, self._spans.take(block)) for block in self._blocks)

    @cached_property
    def _all(self) -> PropertyPairs:
        return PropertyPairs.parse(self._buffer, self._spans)

    @cached_property
    def _blocks(self) -> list[slice]:
        lengths = self._spans.lengths
        bounds = np.arange(_BLOCK_BYTES, int(lengths.sum()), _BLOCK_BYTES)
        cuts = np.searchsorted(np.cumsum(lengths), bounds).tolist() if len(bounds) else []
        return [slice(first, end) for first, end in pairwise([0, *cuts, len(lengths)])]


def _maps_alike(layout: Layout, spans: Spans) -> PropertyMaps:
    rows, count = len(spans.starts), len(layout.places)
    names, values = (Spans(*np.empty((2, rows, count), np.int64)) for _ in range(2))
    for column, name in enumerate(layout.places):
        values.starts[:, column], values.lengths[:, column] = found = layout.values(name, spans)
        names.starts[:, column] = found.starts - (len(name) + 1)
        names.lengths[:, column] = len(name)
    return PropertyMaps(
        np.full(rows, count, np.int64),
        Spans(*(part.reshape(-1) for part in names)),
        Spans(*(part.reshape(-1) for part in values)),
    )

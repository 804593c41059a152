"""Properties of many records that are laid out alike, known without being taken apart.

The messages of one producer mostly have the same properties in the same order, with values of the same lengths: ids are
generated, codes have two letters. Values of one property may vary in length, as tags do: what stands before it is then
in the same place seen from the beginning in all records, what stands behind it seen from the end. So two records tell
where everything is in all of them.

Whether all are laid out like these is a question to their bytes, column by column: separators and names must stand
where they stand there, and no separator anywhere else. Either way some bytes may *not* stand in a column, and they lie
side by side, counted round from 255 to 0: all but one, or the two separators. So one subtraction and one comparison of
whole tables answer it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from rmqspark.protocol.buffers.spans import Spans, gather_rows, sliding
from rmqspark.protocol.records.properties import NAME_END, PAIR_END

if TYPE_CHECKING:
    from rmqspark.protocol.buffers.spans import Bytes, Positions

Outline: TypeAlias = tuple[tuple[bytes, int], ...]
"""Names, and how long their values are."""

_BLOCK_BYTES: Final = 1 << 15  # of a table; what is done to a block happens in the processor's cache
_REST: Final = -1


class Place(NamedTuple):
    """Where a value is in every record."""

    at: int  # counted from the beginning of the properties; negative: from their end
    length: int  # _REST: what the others leave of the properties


class Layout:
    """What properties have in common that are laid out alike. `places` has each name once, the last pair's value."""

    def __init__(self, places: dict[bytes, Place], head: _Pattern, tail: _Pattern) -> None:
        self.places: Final = places
        self._head = head
        self._tail = tail
        self._fixed_bytes = head.width + tail.width

    @classmethod
    def find(cls, buffer: Bytes, spans: Spans) -> Layout | None:
        """The layout that all of these properties have, one at least; None if they have none in common, or one that
        this module does not know."""
        long_row, short_row = int(spans.lengths.argmax()), int(spans.lengths.argmin())
        longest = _outline(buffer, spans, long_row)
        shortest = longest if short_row == long_row else _outline(buffer, spans, short_row)
        if not longest or [name for name, _ in longest] != [name for name, _ in shortest]:
            return None
        varying = [at for at, pair in enumerate(longest) if pair != shortest[at]]
        if len(varying) > 1:
            return None
        layout = _layout_of(longest, varying[0] if varying else len(longest))
        return layout if layout._fits(buffer, spans) else None

    @classmethod
    def of(cls, outline: Outline, varying: int) -> Layout:
        """The layout of properties with this outline, the value of pair number `varying` being of any length."""
        encoded = b"".join([name + b"\x01" + bytes(length) + b"\x02" for name, length in outline])
        forbidden = np.frombuffer(encoded, np.uint8) + np.uint8(1)  # all bytes but the one that stands there
        further = np.full(len(encoded), 254, np.uint8)
        places: dict[bytes, Place] = {}
        at, gap = 0, slice(len(encoded), len(encoded))
        for number, (name, length) in enumerate(outline):
            at += len(name) + 1
            place = slice(at, at + length)
            forbidden[place], further[place] = NAME_END, PAIR_END - NAME_END
            if number == varying:
                gap = place
            places.pop(name, None)
            places[name] = Place(at if number <= varying else at - len(encoded), _REST if number == varying else length)
            at = place.stop + 1
        head, tail = slice(gap.start), slice(gap.stop, None)
        return cls(places, _Pattern(forbidden[head], further[head]), _Pattern(forbidden[tail], further[tail]))

    def values(self, name: bytes, spans: Spans) -> Spans:
        """The values of a name that is in `places`."""
        at, length = self.places[name]
        starts = spans.starts + at if at >= 0 else spans.ends + at
        lengths = spans.lengths - self._fixed_bytes if length == _REST else np.full(len(starts), length, np.int64)
        return Spans(starts, lengths)

    def _fits(self, buffer: Bytes, spans: Spans) -> bool:
        return (
            self._head.fits(buffer, spans.starts)
            and self._tail.fits(buffer, spans.ends - self._tail.width)
            and (
                not self._tail.width
                or _are_plain(buffer, spans.starts + self._head.width, spans.lengths - self._fixed_bytes)
            )
        )


class _Pattern:
    """Which bytes may not stand in each column of a table of bytes: `forbidden` and `further` many above it."""

    def __init__(self, forbidden: Bytes, further: Bytes) -> None:
        self.width = len(forbidden)
        self._rows = max(1, _BLOCK_BYTES // max(1, self.width))  # of a block
        self._forbidden = np.frombuffer(forbidden.tobytes() * self._rows, np.uint8)
        self._further = np.frombuffer(further.tobytes() * self._rows, np.uint8)

    def fits(self, buffer: Bytes, starts: Positions) -> bool:
        """Whether none of the rows that begin at these places has a byte where it may not stand."""
        if not self.width:
            return True
        rows = sliding(buffer, f"V{self.width}")
        for first in range(0, len(starts), self._rows):
            block = rows[starts[first : first + self._rows]].view(np.uint8)
            block -= self._forbidden[: len(block)]
            if (block <= self._further[: len(block)]).any():
                return False
        return True


_layout_of = lru_cache(maxsize=32)(Layout.of)
"""The same few are found again and again; one takes up to 128 KiB."""


def _outline(buffer: Bytes, spans: Spans, row: int) -> Outline:
    """What the properties of a record consist of; nothing unless they are whole and plain: pairs, each with one 0x01, a
    name, a value, and a 0x02 behind it."""
    start = int(spans.starts[row])
    encoded = buffer[start : start + int(spans.lengths[row])].tobytes()
    pairs = [pair.split(b"\x01") for pair in encoded.split(b"\x02")]
    is_plain = pairs.pop() == [b""] and all([len(pair) == 2 and all(pair) for pair in pairs])
    return tuple([(name, len(value)) for name, value in pairs]) if is_plain else ()


def _are_plain(buffer: Bytes, starts: Positions, lengths: Positions) -> bool:
    """Whether no separator stands in any of these spans, behind each of which one stands."""
    width = int(lengths.max()) + 1
    rows = max(1, _BLOCK_BYTES // width)
    for first in range(0, len(starts), rows):
        block = gather_rows(buffer, starts[first : first + rows], width)
        block -= np.uint8(NAME_END)
        if ((block <= PAIR_END - NAME_END).argmax(axis=1) != lengths[first : first + rows]).any():
            return False
    return True

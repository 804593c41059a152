"""Binary headers that are laid out like one that was read before.

The requests of one client differ in a few values, and these are mostly as long as the last ones: queue ids have one
digit, ids 32. So where every length and every name stands is remembered, by the length of the whole header. One
`struct.unpack` then takes a header apart, and one comparison tells whether it was right to: names and lengths between
the values must be the remembered ones, byte for byte. What is laid out in another way is read the common way
(`binary_header.py`), as is whatever is not plain; a test holds the two against each other.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmqspark.protocol.commands.binary_header import FIXED
from rmqspark.protocol.commands.by_length import MOST_HEADER_BYTES, ByLength

if TYPE_CHECKING:
    from collections.abc import Callable

_FIXED_VALUES: Final = 5  # code, language, version, opaque, flag
_REMARK_AND_LENGTH: Final = struct.Struct(">ii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class PlainHeader(NamedTuple):
    """As `BinaryHeader`, without a remark; the code is as it stands there, of 16 bits."""

    code: int
    language: int
    version: int
    opaque: int
    flag: int
    fields: dict[str, str]


class _Shape(NamedTuple):
    """`unpack` gives the fixed values, then by turns what stands `between` values, and a value."""

    unpack: Callable[[memoryview], tuple[Any, ...]]
    between: tuple[bytes, ...]
    names: tuple[str, ...]


class BinaryShapes:
    """The shapes of one kind of request. `learn` is for headers that were found to be sound."""

    def __init__(self) -> None:
        self._shapes: ByLength[_Shape] = ByLength()

    def __len__(self) -> int:
        return self._shapes.total

    def read(self, header: memoryview) -> PlainHeader | None:
        """A header of a known shape; None if it has none."""
        for unpack, between, names in self._shapes.get(len(header), ()):
            found = unpack(header)
            if found[_FIXED_VALUES::2] == between:
                try:
                    texts = [value.decode() for value in found[_FIXED_VALUES + 1 :: 2]]
                except UnicodeDecodeError:
                    return None
                code, language, version, opaque, flag = found[:_FIXED_VALUES]
                return PlainHeader(code, language, version, opaque, flag, dict(zip(names, texts, strict=True)))
        return None

    def learn(self, header: memoryview) -> None:
        """Remembers how a header is laid out, unless it is long, has a remark or a field twice."""
        if len(header) <= MOST_HEADER_BYTES and (shape := _shape_of(bytes(header))) is not None:
            self._shapes.remember(len(header), shape)


def _shape_of(raw: bytes) -> _Shape | None:
    remark_length, _ = _REMARK_AND_LENGTH.unpack_from(raw, FIXED.size)
    if remark_length:
        return None
    form, between, names, seen = FIXED.format, [], [], set()
    begin, at = FIXED.size, FIXED.size + _REMARK_AND_LENGTH.size
    while at < len(raw):
        name_at = at + _INT16.size
        name_end = name_at + _INT16.unpack_from(raw, at)[0]
        at = name_end + _INT32.size
        length = _INT32.unpack_from(raw, name_end)[0]
        name = raw[name_at:name_end].decode("utf-8", "replace")
        if name in seen:
            return None
        seen.add(name)
        if not length:  # absent, which the bytes between two values say as well
            continue
        names.append(name)
        between.append(raw[begin:at])
        form += f"{at - begin}s{length}s"
        begin = at = at + length
    if begin < len(raw):
        between.append(raw[begin:])
        form += f"{len(raw) - begin}s"
    return _Shape(struct.Struct(form).unpack, tuple(between), tuple(names))

"""Headers that are one read before, byte for byte, but for a few values of the same length.

A stencil is cut out of one header where these values stand. Laid on another header of that length it shows whether all
that lies `between` the values is the same, and what the values are now. Whoever uses it must know which values may
stand there: in JSON no quotation mark may, for one.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rmqspark.protocol.commands.binary_header import OPAQUE_AT
from rmqspark.protocol.commands.command import JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Place: TypeAlias = tuple[int, int]
"""Where something begins, and behind its end."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_OTHERS: Final = bytes.maketrans(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    b"1234567891bcdefghijklmnopqrstuvwxyzaBCDEFGHIJKLMNOPQRSTUVWXYZA",
)


class Stencil(NamedTuple):
    """`unpack_from` gives by turns what stands between the values (ahead of the first, too, and behind the last) and a
    value. Every other item of it is that of `between`, if the stencil fits."""

    unpack_from: Callable[[memoryview, int], tuple[bytes, ...]]
    between: tuple[bytes, ...]


class Spot(NamedTuple):
    """How a value stands in a header."""

    ahead: bytes
    value: bytes


def opaque_spot(header: bytes, serialize_type: int, opaque: int) -> Spot:
    ahead = b'"opaque":' if serialize_type == JSON else header[:OPAQUE_AT]
    return Spot(ahead, opaque_value(serialize_type, opaque))


def opaque_value(serialize_type: int, opaque: int) -> bytes:
    """As it stands in a header."""
    return b"%d" % opaque if serialize_type == JSON else _INT32.pack(opaque)


def read_opaque(serialize_type: int, value: bytes) -> int:
    return int(value) if serialize_type == JSON else int.from_bytes(value, "big", signed=True)


def field_spot(serialize_type: int, name: str, value: str) -> Spot:
    encoded_name, encoded = name.encode(), value.encode()
    if serialize_type == JSON:
        return Spot(b'"%b":"' % encoded_name, encoded)
    return Spot(_INT16.pack(len(encoded_name)) + encoded_name + _INT32.pack(len(encoded)), encoded)


def property_spot(serialize_type: int, name: str, value: str) -> Spot:
    """A property, within the field that holds all of them."""
    separator = "\\u0001" if serialize_type == JSON else "\x01"
    return Spot(f"{name}{separator}".encode(), value.encode())


def find(header: bytes, spots: Mapping[str, Spot]) -> dict[str, Place] | None:
    """Where the values stand; None if one is not found, or twice, or within another."""
    places = {}
    for name, (ahead, value) in spots.items():
        if header.count(ahead + value) != 1:
            return None
        start = header.index(ahead + value) + len(ahead)
        places[name] = start, start + len(value)
    ends = [end for place in sorted(places.values()) for end in place]
    return places if ends == sorted(ends) else None


def cut(header: bytes, places: Sequence[Place]) -> Stencil:
    """The stencil of the values at these places, which are in order and do not overlap."""
    form, between, at = ">", [], 0
    for start, stop in places:
        form += f"{start - at}s{stop - start}s"
        between.append(header[at:start])
        at = stop
    return Stencil(Struct(f"{form}{len(header) - at}s").unpack_from, (*between, header[at:]))


def other(value: bytes) -> bytes:
    """A value as long, with all its letters and digits replaced, and none of them by 0."""
    return value.translate(_OTHERS)

"""The binary command header, serialization type 1 (RocketMQ's RocketMQSerializable; spec: remoting, section 2.1).

Three traps are part of the format: an empty string decodes to nothing at all, a code beyond 16 bits is cut off, and a
key may occur twice, in which case the last one counts.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import HeaderError
from rmqspark.protocol.codes import TRUNCATED_CODES, Language

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_FIELDS: Final = 256

FIXED: Final = struct.Struct(
    ">h"  # code
    "b"  # language
    "h"  # version
    "i"  # opaque
    "i"  # flag
)
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class BinaryHeader(NamedTuple):
    code: int
    language: Language
    version: int
    opaque: int
    flag: int
    remark: str | None
    fields: dict[str, str]


def encode_binary_header(header: BinaryHeader) -> bytes:
    """A code beyond 16 bits loses its upper ones, as RocketMQ's does."""
    code = (header.code + 0x8000 & 0xFFFF) - 0x8000
    remark = (header.remark or "").encode()
    extension = _encode_fields(header.fields)
    return b"".join(
        (
            FIXED.pack(code, header.language, header.version, header.opaque, header.flag),
            _INT32.pack(len(remark)),
            remark,
            _INT32.pack(len(extension)),
            extension,
        )
    )


def decode_binary_header(data: bytes | memoryview) -> BinaryHeader:
    """Raises HeaderError for what is too short, too long or has lengths that cannot be."""
    reader = _Reader(data)
    code, language, version, opaque, flag = reader.fixed()
    remark = reader.text(_INT32)
    fields = _decode_fields(_Reader(reader.block(_INT32)))
    reader.expect_end()
    if not flag & 1:
        code = TRUNCATED_CODES.get(code, code)
    return BinaryHeader(code, Language(language), version, opaque, flag, remark or None, fields)


def _encode_fields(fields: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for key, value in fields.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        parts += (_INT16.pack(len(key_bytes)), key_bytes, _INT32.pack(len(value_bytes)), value_bytes)
    return b"".join(parts)


def _decode_fields(reader: _Reader) -> dict[str, str]:
    fields: dict[str, str] = {}
    entries = 0
    while reader.has_more():
        entries += 1
        if entries > MAX_FIELDS:
            raise HeaderError(f"A header has more than {MAX_FIELDS} fields.")
        key, value = reader.text(_INT16), reader.text(_INT32)
        if value:
            fields[key] = value
        else:
            fields.pop(key, None)
    return fields


class _Reader:
    """Takes length-prefixed pieces off the front; every length is checked against what is there."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0

    def fixed(self) -> tuple[int, int, int, int, int]:
        code, language, version, opaque, flag = FIXED.unpack(self._take(FIXED.size))
        return code, language, version, opaque, flag

    def block(self, length: struct.Struct) -> memoryview:
        (size,) = length.unpack(self._take(length.size))
        return self._take(size)

    def text(self, length: struct.Struct) -> str:
        return str(self.block(length), "utf-8", "replace")

    def has_more(self) -> bool:
        return self._at < len(self._data)

    def expect_end(self) -> None:
        if self.has_more():
            raise HeaderError(f"A binary header has {len(self._data) - self._at} bytes too many.")

    def _take(self, size: int) -> memoryview:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise HeaderError(f"A binary header claims {size} bytes where {len(self._data) - self._at} are left.")
        piece = self._data[self._at : end]
        self._at = end
        return piece

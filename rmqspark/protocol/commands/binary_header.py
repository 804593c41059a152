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
OPAQUE_AT: Final = struct.calcsize(">hbh")
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
    raw = bytes(data)
    if len(raw) < FIXED.size:
        raise _wrong(raw, 0, FIXED.size)
    code, language, version, opaque, flag = FIXED.unpack_from(raw)
    remark, at = _take_text(raw, FIXED.size, _INT32)
    extension_end = _end_of(raw, at, _INT32)
    if extension_end != len(raw):
        raise HeaderError(f"A binary header has {len(raw) - extension_end} bytes too many.")
    fields = _decode_fields(raw, at + _INT32.size)
    if not flag & 1:
        code = TRUNCATED_CODES.get(code, code)
    return BinaryHeader(code, Language(language), version, opaque, flag, remark or None, fields)


def _encode_fields(fields: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for key, value in fields.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        parts += (_INT16.pack(len(key_bytes)), key_bytes, _INT32.pack(len(value_bytes)), value_bytes)
    return b"".join(parts)


def _decode_fields(raw: bytes, at: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    for _ in range(MAX_FIELDS):
        if at == len(raw):
            return fields
        key, at = _take_text(raw, at, _INT16)
        value, at = _take_text(raw, at, _INT32)
        if value:
            fields[key] = value
        else:
            fields.pop(key, None)
    if at != len(raw):
        raise HeaderError(f"A header has more than {MAX_FIELDS} fields.")
    return fields


def _take_text(raw: bytes, at: int, length: struct.Struct) -> tuple[str, int]:
    """The text behind the length at `at`, and where it ends."""
    end = _end_of(raw, at, length)
    return raw[at + length.size : end].decode("utf-8", "replace"), end


def _end_of(raw: bytes, at: int, length: struct.Struct) -> int:
    """Where the block ends whose length is at `at`; it must be within what is there."""
    start = at + length.size
    if start > len(raw):
        raise _wrong(raw, at, length.size)
    size: int = length.unpack_from(raw, at)[0]
    if size < 0 or start + size > len(raw):
        raise _wrong(raw, start, size)
    return start + size


def _wrong(raw: bytes, at: int, size: int) -> HeaderError:
    return HeaderError(f"A binary header claims {size} bytes where {len(raw) - at} are left.")

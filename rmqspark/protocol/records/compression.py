"""Compressed bodies: zlib, LZ4 and Zstandard frames, as RocketMQ's Compressor writes them.

Which one it is stands in the record's sys flag. What comes from outside may be a bomb, so no decoder gets more room
than the limit: zlib and LZ4 are inflated piece by piece and given up when they pass it, Zstandard inflates into a
buffer of that size, which is its window as well.

A body of LZ4 or Zstandard may consist of several frames, one behind the other: those who compress in pieces write them,
and RocketMQ's readers read them all. Behind the last one there may be anything.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import lz4.frame
import zstandard

from rmqspark.errors import InvalidArgument, RecordError
from rmqspark.protocol.records.record import SysFlag

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from rmqspark.protocol.records.record import Buffer

    _InflateFrame: TypeAlias = Callable[[memoryview, int], tuple[bytes, int]]

LEVEL: Final = 5  # RocketMQ's default, which its zlib uses
MAX_RATIO: Final = 1032  # deflate cannot do more
ALWAYS_ALLOWED_BYTES: Final = 4 * 1024 * 1024  # a body of any ratio, up to RocketMQ's own limit for messages

_PIECE_BYTES: Final = 256 * 1024
_MAX_FRAMES: Final = 64  # each is begun with a copy of all that is behind it
_LZ4_MAGIC: Final = 0x184D2204
_ZSTD_MAGIC: Final = 0xFD2FB528
_SKIPPED_MAGICS: Final = range(0x184D2A50, 0x184D2A60)  # the same for both
_ZSTD_BLOCK_HEAD_BYTES: Final = 3
_ZSTD_CHECKSUM_BYTES: Final = 4


def compress(body: Buffer, kind: int = SysFlag.COMPRESSION_ZLIB) -> bytes:
    """The body compressed; the record's sys flag has to say `SysFlag.COMPRESSED | kind`."""
    match kind:
        case SysFlag.COMPRESSION_ZLIB:
            return zlib.compress(body, LEVEL)
        case SysFlag.COMPRESSION_LZ4:
            # RocketMQ's frames: its reader of LZ4 refuses blocks that build on those before them.
            return bytes(lz4.frame.compress(body, block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False))
        case SysFlag.COMPRESSION_ZSTD:
            return zstandard.ZstdCompressor().compress(body)
    raise InvalidArgument(f"{kind:#x} is no compression of RocketMQ.", hint="LZ4 is 0x100, ZSTD 0x200, ZLIB 0x300.")


def decompress(body: Buffer, sys_flag: int, max_bytes: int) -> bytes:
    """The body as it was sent; as it is, where the sys flag does not say that it is compressed.

    Raises RecordError where it does not decompress, is cut short, or would be longer than `max_bytes` or (beyond 4 MiB)
    than its size makes plausible. Bytes behind what is compressed are ignored. An empty body is one, as in RocketMQ.
    """
    if not sys_flag & SysFlag.COMPRESSED or not len(body):
        return bytes(body)
    inflate = _INFLATE.get(sys_flag & SysFlag.COMPRESSION_MASK)
    if inflate is None:
        raise RecordError(f"The sys flag {sys_flag:#x} names no compression that RocketMQ knows.")
    limit = min(max_bytes, max(ALWAYS_ALLOWED_BYTES, MAX_RATIO * len(body)))
    try:
        return inflate(body, limit)
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError) as error:  # RuntimeError is what lz4 raises
        raise RecordError(f"A compressed body of {len(body)} bytes does not inflate: {error}.") from None


def _inflate_zlib(body: Buffer, limit: int) -> bytes:
    stream = zlib.decompressobj()
    inflated = stream.decompress(body, limit + 1)  # zlib's buffer grows with what there is
    if len(inflated) > limit:
        raise _too_large(body, limit)
    if not stream.eof:
        raise EOFError("it is cut short")
    return inflated


def _inflate_lz4(body: Buffer, limit: int) -> bytes:
    return _inflate_frames(body, limit, _LZ4_MAGIC, _inflate_lz4_frame)


def _inflate_zstd(body: Buffer, limit: int) -> bytes:
    return _inflate_frames(body, limit, _ZSTD_MAGIC, _inflate_zstd_frame)


def _inflate_frames(body: Buffer, limit: int, magic: int, inflate_frame: _InflateFrame) -> bytes:
    """What all frames hold that stand at the beginning of `body`, one at least."""
    rest, inflated = memoryview(body), b""
    for _ in range(_MAX_FRAMES):
        piece, size = _skipped_frame(rest) or inflate_frame(rest, limit - len(inflated))
        inflated += piece
        rest = rest[size:]
        if _magic(rest) != magic and _magic(rest) not in _SKIPPED_MAGICS:
            return inflated
    raise RecordError(f"A compressed body of {len(body)} bytes has more than {_MAX_FRAMES} frames.")


def _skipped_frame(rest: memoryview) -> tuple[bytes, int] | None:
    """A frame of neither's data: it says how long it is, and readers leave it out."""
    return (b"", 8 + int.from_bytes(rest[4:8], "little")) if _magic(rest) in _SKIPPED_MAGICS else None


def _magic(rest: memoryview) -> int:
    return int.from_bytes(rest[:4], "little")


def _inflate_lz4_frame(rest: memoryview, limit: int) -> tuple[bytes, int]:
    """What is in the frame at the beginning, and how long that is."""
    stream = lz4.frame.LZ4FrameDecompressor()
    inflated = bytearray(stream.decompress(rest, _PIECE_BYTES))
    while len(inflated) <= limit and not stream.eof:
        piece = stream.decompress(b"", _PIECE_BYTES)
        if not piece and stream.needs_input:
            raise EOFError("it is cut short")
        inflated += piece
    if len(inflated) > limit:
        raise _too_large(rest, limit)
    return bytes(inflated), len(rest) - len(stream.unused_data or b"")


def _inflate_zstd_frame(rest: memoryview, limit: int) -> tuple[bytes, int]:
    if zstandard.frame_content_size(rest) > limit:
        raise _too_large(rest, limit)
    return zstandard.ZstdDecompressor().decompress(rest, max_output_size=limit), _zstd_frame_bytes(rest)


def _zstd_frame_bytes(frame: memoryview) -> int:
    """How long a frame is, the bytes behind it left out: its blocks say how long they are (RFC 8878, section 3.1.1)."""
    at, is_last = zstandard.frame_header_size(frame), False
    while not is_last and at < len(frame):
        block = int.from_bytes(frame[at : at + _ZSTD_BLOCK_HEAD_BYTES], "little")
        is_last, repeats_one_byte = bool(block & 1), block >> 1 & 3 == 1
        at += _ZSTD_BLOCK_HEAD_BYTES + (1 if repeats_one_byte else block >> 3)
    return at + (_ZSTD_CHECKSUM_BYTES if zstandard.get_frame_parameters(frame).has_checksum else 0)


def _too_large(body: Buffer, limit: int) -> RecordError:
    return RecordError(f"A compressed body of {len(body)} bytes holds more than {limit}.")


_INFLATE: Final[dict[int, Callable[[Buffer, int], bytes]]] = {
    0: _inflate_zlib,
    SysFlag.COMPRESSION_ZLIB: _inflate_zlib,
    SysFlag.COMPRESSION_LZ4: _inflate_lz4,
    SysFlag.COMPRESSION_ZSTD: _inflate_zstd,
}

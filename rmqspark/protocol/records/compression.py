"""Compressed bodies: zlib, LZ4 and Zstandard frames, as RocketMQ's Compressor writes them.

Which one it is stands in the record's sys flag. What comes from outside may be a bomb, so no decoder gets more room
than the limit: zlib and LZ4 are inflated piece by piece and given up when they pass it, Zstandard inflates into a
buffer of that size, which is its window as well.
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

    from rmqspark.protocol.records.record import Buffer

LEVEL: Final = 5  # RocketMQ's default, which its zlib uses
MAX_RATIO: Final = 1032  # deflate cannot do more
ALWAYS_ALLOWED_BYTES: Final = 4 * 1024 * 1024  # a body of any ratio, up to RocketMQ's own limit for messages

_PIECE_BYTES: Final = 256 * 1024


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
    than its size makes plausible. Bytes behind the compressed stream are ignored, as in RocketMQ.
    """
    if not sys_flag & SysFlag.COMPRESSED:
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
    stream = lz4.frame.LZ4FrameDecompressor()
    inflated = bytearray(stream.decompress(body, _PIECE_BYTES))
    while len(inflated) <= limit and not stream.eof:
        piece = stream.decompress(b"", _PIECE_BYTES)
        if not piece and stream.needs_input:
            raise EOFError("it is cut short")
        inflated += piece
    if len(inflated) > limit:
        raise _too_large(body, limit)
    return bytes(inflated)


def _inflate_zstd(body: Buffer, limit: int) -> bytes:
    if zstandard.frame_content_size(body) > limit:
        raise _too_large(body, limit)
    return zstandard.ZstdDecompressor().decompress(body, max_output_size=limit)


def _too_large(body: Buffer, limit: int) -> RecordError:
    return RecordError(f"A compressed body of {len(body)} bytes holds more than {limit}.")


_INFLATE: Final[dict[int, Callable[[Buffer, int], bytes]]] = {
    0: _inflate_zlib,
    SysFlag.COMPRESSION_ZLIB: _inflate_zlib,
    SysFlag.COMPRESSION_LZ4: _inflate_lz4,
    SysFlag.COMPRESSION_ZSTD: _inflate_zstd,
}

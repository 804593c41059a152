"""Compressed bodies, and bombs."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidArgument, RecordError
from rmqspark.protocol.records.compression import compress, decompress
from rmqspark.protocol.records.record import SysFlag

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = (SysFlag.COMPRESSION_LZ4, SysFlag.COMPRESSION_ZSTD, SysFlag.COMPRESSION_ZLIB)
MIB = 1024 * 1024
NOISE = random.Random(1).randbytes(20_000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"", b"a", NOISE, bytes(4 * MIB)], ids=["empty", "one", "noise", "zeros"])
def test_compression_round_trip(kind: int, body: bytes) -> None:
    """Any body up to RocketMQ's limit comes back, however well it compresses."""
    assert decompress(compress(body, kind), SysFlag.COMPRESSED | kind, 4 * MIB) == body


def test_kind_zero_means_zlib() -> None:
    """Old senders set only the compressed bit."""
    assert decompress(compress(b"old"), SysFlag.COMPRESSED, MIB) == b"old"


def test_an_empty_body_is_one() -> None:
    """Whatever its sys flag says, RocketMQ's clients do not inflate what is not there."""
    assert decompress(b"", SysFlag.COMPRESSED, MIB) == decompress(b"", 0x401, MIB) == b""


@pytest.mark.parametrize("size", [100, 70_000, 4 * MIB])
def test_lz4_is_what_rocketmq_reads(size: int) -> None:
    """Each block by itself: a consumer of RocketMQ drops a message whose blocks build on others, and all behind it."""
    assert lz4.frame.get_frame_info(compress(bytes(size), SysFlag.COMPRESSION_LZ4))["block_linked"] is False


def test_plain_bodies_pass() -> None:
    """Without the compressed bit a body is what it is, whatever it looks like."""
    assert decompress(compress(b"x"), SysFlag.COMPRESSION_ZLIB, MIB) == compress(b"x")


@pytest.mark.parametrize("kind", KINDS)
def test_limit_is_exact(kind: int) -> None:
    """A body as large as the limit passes, one byte more does not."""
    for size in (100, 300_000):
        body = bytes(size)
        assert decompress(compress(body, kind), SysFlag.COMPRESSED | kind, size) == body
        with pytest.raises(RecordError):
            decompress(compress(body, kind), SysFlag.COMPRESSED | kind, size - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_streams_cut_short_are_refused(kind: int) -> None:
    """Half a body is no body."""
    stream = compress(NOISE, kind)
    for cut in (1, 5, len(stream) // 2, len(stream) - 1):
        with pytest.raises(RecordError):
            decompress(stream[:-cut], SysFlag.COMPRESSED | kind, MIB)
    assert decompress(stream + b"behind", SysFlag.COMPRESSED | kind, MIB) == NOISE


def zstd_without_size(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(body)


def zstd_with_a_wide_window(body: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(body)


def zstd_with_checksum(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(body)


SKIPPED = bytes.fromhex("502a4d1803000000") + b"abc"
MAKERS = [
    (SysFlag.COMPRESSION_LZ4, lz4.frame.compress),
    (SysFlag.COMPRESSION_ZSTD, zstandard.compress),
    (SysFlag.COMPRESSION_ZSTD, zstd_without_size),
    (SysFlag.COMPRESSION_ZSTD, zstd_with_checksum),
]


@pytest.mark.parametrize(("kind", "make"), MAKERS, ids=["lz4", "zstd", "zstd-no-size", "zstd-checksum"])
@pytest.mark.parametrize(
    "piece", [b"", b"a" * 1000, b"a" * 400_000, NOISE, NOISE * 20], ids=["empty", "even", "even-long", "noise", "long"]
)
def test_all_frames_of_a_body_are_read(kind: int, make: Callable[[bytes], bytes], piece: bytes) -> None:
    """Who compresses in pieces writes a frame for each, and RocketMQ's clients read them all."""
    body = SKIPPED + make(piece) + SKIPPED + make(b"behind") + SKIPPED
    assert decompress(body, SysFlag.COMPRESSED | kind, MIB) == piece + b"behind"
    assert decompress(body + b"anything", SysFlag.COMPRESSED | kind, MIB) == piece + b"behind"
    with pytest.raises(RecordError):
        decompress(make(piece) + make(b"behind")[:-1], SysFlag.COMPRESSED | kind, MIB)
    with pytest.raises(RecordError):
        decompress(body, SysFlag.COMPRESSED | kind, len(piece) + 5)


@pytest.mark.parametrize(("kind", "make"), MAKERS[:2], ids=["lz4", "zstd"])
def test_frames_are_counted(kind: int, make: Callable[[bytes], bytes]) -> None:
    """Millions of them without anything inside would keep a reader busy."""
    assert decompress(make(b"x") * 64, SysFlag.COMPRESSED | kind, MIB) == b"x" * 64
    for many in (make(b""), SKIPPED):
        with pytest.raises(RecordError, match="more than 64 frames"):
            decompress(many * 65, SysFlag.COMPRESSED | kind, MIB)


@pytest.mark.parametrize(
    ("kind", "bomb"),
    [
        (SysFlag.COMPRESSION_ZLIB, zlib.compress(bytes(64 * MIB), 9)),
        (SysFlag.COMPRESSION_LZ4, lz4.frame.compress(bytes(64 * MIB))),
        (SysFlag.COMPRESSION_ZSTD, zstandard.compress(bytes(64 * MIB))),
        (SysFlag.COMPRESSION_ZSTD, zstd_without_size(bytes(64 * MIB))),
        (SysFlag.COMPRESSION_ZSTD, zstd_with_a_wide_window(bytes(64 * MIB))),
    ],
    ids=["zlib", "lz4", "zstd", "zstd-no-size", "zstd-window"],
)
def test_bombs_stay_below_the_limit(kind: int, bomb: bytes) -> None:
    """A small body that would inflate to much more than is allowed takes no memory beyond the limit."""
    tracemalloc.start()
    try:
        with pytest.raises(RecordError):
            decompress(bomb, SysFlag.COMPRESSED | kind, 4 * MIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * MIB


@pytest.mark.parametrize("kind", [SysFlag.COMPRESSION_ZSTD])
def test_implausible_ratios_are_refused_under_a_large_limit(kind: int) -> None:
    """Where the limit is generous, a stream may still not grow more than deflate ever could."""
    bomb = compress(bytes(16 * MIB), kind)
    with pytest.raises(RecordError, match="holds more than"):
        decompress(bomb, SysFlag.COMPRESSED | kind, 64 * MIB)


def test_unknown_kinds_are_refused() -> None:
    """A sys flag can name kinds that nobody knows."""
    with pytest.raises(RecordError, match="0x401"):
        decompress(b"x", 0x401, MIB)
    with pytest.raises(InvalidArgument, match="0x400"):
        compress(b"", 0x400)


@pytest.mark.property
@given(st.binary(max_size=60), st.sampled_from(KINDS))
def test_any_bytes_inflate_or_raise(body: bytes, kind: int) -> None:
    """Hostile bytes end in a body or in RecordError, in nothing else."""
    try:
        decompress(body, SysFlag.COMPRESSED | kind, MIB)
    except RecordError:
        return

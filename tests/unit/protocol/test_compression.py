"""Compressed bodies, and bombs."""

from __future__ import annotations

import random
import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidArgument, RecordError
from rmqspark.protocol.records.compression import compress, decompress
from rmqspark.protocol.records.record import SysFlag

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
    for cut in (1, 5, len(stream) // 2, len(stream)):
        with pytest.raises(RecordError):
            decompress(stream[:-cut], SysFlag.COMPRESSED | kind, MIB)
    assert decompress(stream + b"behind", SysFlag.COMPRESSED | kind, MIB) == NOISE


def zstd_without_size(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(body)


def zstd_with_a_wide_window(body: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(body)


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
        decompress(b"", 0x401, MIB)
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

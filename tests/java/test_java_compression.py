"""RocketMQ's own compressors beside ours: what one writes the other reads."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lz4.frame
import pytest
import zstandard

from rmqspark.protocol.records.compression import compress, decompress
from rmqspark.protocol.records.record import SysFlag

if TYPE_CHECKING:
    from jvm import Jvm

pytestmark = pytest.mark.java
KINDS = {"ZLIB": SysFlag.COMPRESSION_ZLIB, "LZ4": SysFlag.COMPRESSION_LZ4, "ZSTD": SysFlag.COMPRESSION_ZSTD}
NOISE = random.Random(1).randbytes(50_000)
BODIES = [b"x", b"even " * 1000, NOISE, NOISE * 20]
LIMIT = 4 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_each_reads_what_the_other_compresses(jvm: Jvm, kind: str) -> None:
    """Small bodies, and those that take several blocks."""
    compression = jvm.rocketmq.common.compression
    theirs = compression.CompressorFactory.getCompressor(getattr(compression.CompressionType, kind))
    for body in BODIES:
        assert theirs.decompress(compress(body, KINDS[kind])) == body
        assert decompress(theirs.compress(body, 5), SysFlag.COMPRESSED | KINDS[kind], LIMIT) == body


@pytest.mark.parametrize(("kind", "make"), [("LZ4", lz4.frame.compress), ("ZSTD", zstandard.compress)])
def test_both_read_all_frames_of_a_body(jvm: Jvm, kind: str, make: type) -> None:
    """One behind the other, as those write who compress in pieces."""
    compression = jvm.rocketmq.common.compression
    theirs = compression.CompressorFactory.getCompressor(getattr(compression.CompressionType, kind))
    body = make(b"one, ") + make(b"") + make(b"two")
    assert theirs.decompress(body) == decompress(body, SysFlag.COMPRESSED | KINDS[kind], LIMIT) == b"one, two"

"""Checksums of many bodies are those of each, however they lie; long ones are not copied for it."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from rmqspark.protocol.buffers.spans import Spans
from rmqspark.protocol.records.body_crcs import body_crcs, long_rows
from rmqspark.protocol.records.record import CRC_MASK

BUFFER = np.random.default_rng(7).integers(0, 256, 20_000, dtype=np.uint8)
SHAPES = {  # starts, lengths, whether they are taken where they lie
    "short and packed": ([0, 100, 200], [100, 100, 100], False),
    "one byte too short for that": ([0, 511, 1022], [511, 511, 511], False),
    "just long enough": ([0, 512, 1024], [512, 512, 512], True),
    "long, with something between": ([7, 1207, 2407], [1024, 1024, 1024], True),
    "long, one into the other": ([0, 100, 200], [600, 600, 600], True),
    "up to the last byte": ([16_000, 18_000], [2_000, 2_000], True),
    "long, not evenly spaced": ([0, 1024, 3000], [1024, 1024, 1024], False),
    "long, from the end to the beginning": ([4096, 2048, 0], [1024, 1024, 1024], False),
    "long, of several lengths": ([0, 1024, 2048], [1024, 1023, 1024], False),
    "a single long one": ([5], [3000], False),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_they_are_those_of_each_body(shape: str) -> None:
    starts, lengths, _ = SHAPES[shape]
    each = [zlib.crc32(BUFFER[at : at + size].tobytes()) & CRC_MASK for at, size in zip(starts, lengths, strict=True)]
    assert body_crcs(BUFFER, Spans(np.array(starts), np.array(lengths))).tolist() == each


@pytest.mark.parametrize("shape", SHAPES)
def test_long_bodies_are_taken_where_they_lie(shape: str) -> None:
    starts, lengths, in_place = SHAPES[shape]
    rows = long_rows(BUFFER, Spans(np.array(starts), np.array(lengths)))
    assert (rows is not None) == in_place
    if rows is not None:
        assert np.shares_memory(rows, BUFFER)


def test_no_bodies_have_no_checksums() -> None:
    none = np.empty(0, np.int64)
    assert len(body_crcs(BUFFER, Spans(none, none))) == 0

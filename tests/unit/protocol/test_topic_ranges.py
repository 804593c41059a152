"""Ranges of many queues in one request, and what was found in them in one answer."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import BodyError
from rmqspark.protocol.bulk.topic_ranges import (
    MAX_RANGES,
    FoundRanges,
    TopicRange,
    decode_found,
    decode_ranges,
    encode_found,
    encode_ranges,
)
from rmqspark.protocol.records.record import encode_record

ORDERS, CAFE = TopicRange("orders", 3, 5, 9, 7), TopicRange("café", 0, 0, 1 << 62)
ASKED = bytes.fromhex("0000000000000005 0000000000000009 0000000000000007 00000003 06") + b"orders"
ASKED += bytes.fromhex("0000000000000000 4000000000000000 ffffffffffffffff 00000000 05") + "café".encode()

RECORD = bytes(encode_record(topic="t", body=b"x"))
SIZE = len(RECORD)


def found(counts: list[int], *, next_offset: int = 7, min_offset: int = 2) -> FoundRanges:
    def numbers(value: int) -> np.ndarray:
        return np.full(len(counts), value, np.int64)

    total = sum(counts)
    records = memoryview(RECORD * total)
    sizes = np.full(total, SIZE, np.int32)
    return FoundRanges(numbers(next_offset), numbers(min_offset), np.array(counts, np.int64), sizes, records)


ANSWER = bytes.fromhex("0000000000000007 0000000000000002 00000001")
ANSWER += bytes.fromhex("0000000000000007 0000000000000002 00000000") + struct.pack(">i", SIZE) + RECORD


def test_a_request_is_laid_out_as_the_page_says() -> None:
    """Both ways, to the byte."""
    assert encode_ranges([ORDERS, CAFE]) == ASKED
    assert decode_ranges(memoryview(ASKED), 2) == [ORDERS, CAFE]


def test_an_answer_is_laid_out_as_the_page_says() -> None:
    """Both ways, to the byte."""
    assert b"".join(encode_found(found([1, 0]))) == ANSWER
    read = decode_found(memoryview(ANSWER), 2, 1)
    assert [column.tolist() for column in read[:4]] == [[7, 7], [2, 2], [1, 0], [SIZE]]
    assert bytes(read.records) == RECORD


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_answers_come_back(counts: list[int]) -> None:
    """Whatever the ranges have, in order."""
    body = b"".join(encode_found(found(counts)))
    read = decode_found(memoryview(body), len(counts), sum(counts))
    assert read.counts.tolist() == counts
    assert b"".join(encode_found(read)) == body


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (ASKED, 0),
        (ASKED, -1),
        (ASKED, 1),
        (ASKED, 3),
        (ASKED[:-1], 2),
        (ASKED + b"x", 2),
        (ASKED[:26], 2),
        (b"", 1),
        (ASKED.replace(b"orders", b"order\xff"), 2),
        (bytes(22) * (MAX_RANGES + 1), MAX_RANGES + 1),
        (b"", 2**31 - 1),
    ],
)
def test_no_other_body_is_a_request(body: bytes, count: int) -> None:
    """What ends early, goes on, is no text or asks for too much."""
    with pytest.raises(BodyError):
        decode_ranges(memoryview(body), count)


@pytest.mark.parametrize(
    ("body", "ranges", "records"),
    [
        (ANSWER, 0, 1),
        (ANSWER, -1, 1),
        (ANSWER, 1, 1),
        (ANSWER, 3, 1),
        (ANSWER, 2, 0),
        (ANSWER, 2, 2),
        (ANSWER, 2, -1),
        (ANSWER, 2**31 - 1, 1),
        (ANSWER, 2, 2**31 - 1),
        (ANSWER[:-1], 2, 1),
        (ANSWER + b"x", 2, 1),
        (b"".join(encode_found(found([-1, 2]))), 2, 1),
        (ANSWER[:40] + struct.pack(">i", -SIZE) + RECORD, 2, 1),
    ],
)
def test_no_other_body_is_an_answer(body: bytes, ranges: int, records: int) -> None:
    """Numbers that do not add up are an error, not memory."""
    with pytest.raises(BodyError):
        decode_found(memoryview(body), ranges, records)


def test_as_many_ranges_as_are_allowed() -> None:
    """Nothing is lost at the limit."""
    assert len(decode_ranges(memoryview(encode_ranges([ORDERS] * MAX_RANGES)), MAX_RANGES)) == MAX_RANGES

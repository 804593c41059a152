"""Binary headers laid out like one that was read before."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.codes import Language
from rmqspark.protocol.commands.binary_header import FIXED, BinaryHeader, decode_binary_header, encode_binary_header
from rmqspark.protocol.commands.binary_shapes import BinaryShapes

if TYPE_CHECKING:
    from rmqspark.protocol.commands.binary_shapes import PlainHeader


def encoded(fields: dict[str, str], *, opaque: int = 1, remark: str | None = None) -> memoryview:
    return memoryview(encode_binary_header(BinaryHeader(310, Language.JAVA, 479, opaque, 0, remark, fields)))


def raw(*pairs: tuple[bytes, bytes]) -> memoryview:
    extension = b"".join(
        struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)) + value for name, value in pairs
    )
    return memoryview(FIXED.pack(310, 0, 479, 1, 0) + struct.pack(">ii", 0, len(extension)) + extension)


def same(plain: PlainHeader | None, header: memoryview) -> bool:
    """Whether it says what the common way does."""
    common = decode_binary_header(header)
    assert plain is not None
    return plain == (common.code, int(common.language), common.version, common.opaque, common.flag, common.fields)


def test_what_has_the_shape_of_a_header_before_is_read_at_once() -> None:
    """Requests of one client differ in values, not in names and lengths."""
    shapes = BinaryShapes()
    first, next_one = encoded({"a": "group", "b": "", "e": "1"}), encoded({"a": "other", "b": "", "e": "7"}, opaque=2)
    assert shapes.read(first) is None
    shapes.learn(first)
    assert same(shapes.read(first), first)
    assert same(shapes.read(next_one), next_one)


@pytest.mark.parametrize(
    "other",
    [
        {"a": "groups", "e": ""},  # as long, divided in another way
        {"b": "group", "e": "1"},
        {"a": "group", "f": "1"},
        {"a": "group"},
    ],
)
def test_what_has_another_shape_is_left_to_the_common_way(other: dict[str, str]) -> None:
    """A name or a length that differs is seen, also in a header of the same size."""
    shapes = BinaryShapes()
    shapes.learn(encoded({"a": "group", "e": "1"}))
    assert shapes.read(encoded(other)) is None


def test_clients_whose_headers_are_equally_long_do_not_drive_each_other_out() -> None:
    """Two producers may have names that together are as long."""
    shapes = BinaryShapes()
    headers = [encoded({"a": "x" * length, "b": "y" * (9 - length)}) for length in (2, 3, 4, 5)]
    for header in headers:
        shapes.learn(header)
    assert all(same(shapes.read(header), header) for header in headers)


@pytest.mark.parametrize(
    "unusual",
    [
        encoded({"a": "x"}, remark="slowly"),
        encoded({"a": "x" * 1024}),
        raw((b"k", b"1"), (b"k", b"2")),
        raw((b"k", b"1"), (b"k", b"")),
    ],
    ids=["a remark", "long", "a name twice", "a name twice, then empty"],
)
def test_what_is_not_plain_is_not_remembered(unusual: memoryview) -> None:
    """Its meaning is more than names and values, or it would take memory."""
    shapes = BinaryShapes()
    shapes.learn(unusual)
    assert shapes.read(unusual) is None


def test_bytes_that_are_no_text_are_left_to_the_common_way() -> None:
    """Which replaces what it cannot read."""
    shapes = BinaryShapes()
    shapes.learn(raw((b"a", b"xy")))
    assert shapes.read(raw((b"a", b"\xff\xfe"))) is None


def test_however_many_shapes_there_are_memory_is_bounded() -> None:
    """Somebody who sends headers of all lengths, and of many shapes each, fills a few hundred places."""
    shapes = BinaryShapes()
    for length in range(600):
        for name in range(10):
            shapes.learn(raw((b"%d" % name, b"x" * length)))
    assert len(shapes) <= 1024


NAMES = st.sampled_from([b"a", b"bb", b"queueId", b"", b"\xff"])
VALUES = st.sampled_from([b"", b"1", b"22", b"\xff", b"\x00\x01", b"x" * 40])
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=6)


@given(st.lists(HEADERS, min_size=2, max_size=8))
def test_both_ways_of_reading_find_the_same(headers: list[list[tuple[bytes, bytes]]]) -> None:
    """Whatever was learned before, what is read at once is what the common way reads."""
    shapes = BinaryShapes()
    for pairs in headers:
        header = raw(*pairs)
        found = shapes.read(header)
        assert found is None or same(found, header)
        shapes.learn(header)

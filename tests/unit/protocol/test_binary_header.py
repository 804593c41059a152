"""Binary command headers and their three traps."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import HeaderError
from rmqspark.protocol.codes import Language, RequestCode
from rmqspark.protocol.commands.binary_header import (
    FIXED,
    MAX_FIELDS,
    BinaryHeader,
    decode_binary_header,
    encode_binary_header,
)


def header(fields: dict[str, str], *, code: int = 105, flag: int = 0, remark: str | None = None) -> BinaryHeader:
    return BinaryHeader(code, Language.JAVA, 479, 1, flag, remark, fields)


def entry(key: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value


def wire(extension: bytes, *, remark: bytes = b"", language: int = 0) -> bytes:
    fixed = FIXED.pack(105, language, 479, 1, 0)
    return fixed + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(extension)) + extension


def test_the_smallest_header_has_21_bytes() -> None:
    """A binary header with nothing in it is as short as RocketMQ's."""
    assert len(encode_binary_header(header({}))) == 21


def test_an_empty_value_is_no_value() -> None:
    """An empty string comes out of a binary header as nothing, for RocketMQ's clients and for us."""
    assert decode_binary_header(encode_binary_header(header({"a": "", "b": "x"}, remark=""))).fields == {"b": "x"}
    assert decode_binary_header(wire(b"")).remark is None


def test_of_a_key_twice_the_last_one_counts() -> None:
    """Fields that a signing client writes twice are read once, the later one, even if that is empty."""
    assert decode_binary_header(wire(entry(b"k", b"1") + entry(b"k", b"2"))).fields == {"k": "2"}
    assert decode_binary_header(wire(entry(b"k", b"1") + entry(b"k", b""))).fields == {}


def test_a_response_code_is_never_taken_for_a_request() -> None:
    """Numbers that mean truncated requests in requests mean themselves in responses."""
    assert decode_binary_header(encode_binary_header(header({}, code=3442))).code == RequestCode.POP_MESSAGE
    assert decode_binary_header(encode_binary_header(header({}, code=3442, flag=1))).code == 3442


def test_text_that_is_no_utf8_is_replaced() -> None:
    """Bytes that are no text cost a character, not the request."""
    assert decode_binary_header(wire(entry(b"k", b"a\xffb"))).fields == {"k": "a\ufffdb"}


def test_a_language_of_tomorrow_is_other() -> None:
    """A client in a language numbered after ours was written is served."""
    assert decode_binary_header(wire(b"", language=77)).language is Language.OTHER


MOST = b"".join(entry(str(i).encode(), b"v") for i in range(MAX_FIELDS))
BROKEN = {
    "nothing": b"",
    "cut in the fixed part": wire(b"")[:12],
    "cut in a length": wire(b"")[:-2],
    "no extension length": wire(b"")[:-4],
    "remark longer than what is left": wire(b"")[:13] + struct.pack(">i", 5),
    "negative remark length": wire(b"")[:13] + struct.pack(">i", -1) + bytes(4),
    "negative extension length": wire(b"")[:17] + struct.pack(">i", -1),
    "an entry after the end": wire(b"") + entry(b"k", b"v"),
    "extension longer than what is left": wire(b"")[:17] + struct.pack(">i", 2**31 - 1),
    "negative key length": wire(struct.pack(">h", -1) + b"k"),
    "negative value length": wire(struct.pack(">h", 1) + b"k" + struct.pack(">i", -1)),
    "value beyond the extension": wire(struct.pack(">h", 1) + b"k" + struct.pack(">i", 3) + b"v"),
    "half an entry": wire(struct.pack(">h", 1) + b"k"),
    "too many fields": wire(MOST + entry(b"one", b"more")),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_lengths_that_cannot_be_are_refused(data: bytes) -> None:
    """Every length in a binary header is checked against what is there before anything is made of it."""
    with pytest.raises(HeaderError):
        decode_binary_header(data)


def test_as_many_fields_as_allowed() -> None:
    """256 fields are accepted."""
    assert len(decode_binary_header(wire(MOST)).fields) == MAX_FIELDS


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


@pytest.mark.property
@given(
    st.integers(-(2**15), 2**15 - 1).filter(lambda code: not 3442 <= code <= 3543),
    st.sampled_from(Language),
    st.integers(0, 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | texts.filter(bool),
    st.dictionaries(texts, texts.filter(bool), max_size=6),
)
def test_binary_headers_make_the_round_trip(
    code: int, language: Language, version: int, opaque: int, flag: int, remark: str | None, fields: dict[str, str]
) -> None:
    """What a binary header can say comes out as it went in."""
    original = BinaryHeader(code, language, version, opaque, flag, remark, fields)
    assert decode_binary_header(encode_binary_header(original)) == original


@pytest.mark.property
@given(st.binary(max_size=120), st.integers(0, 140), st.integers(0, 255))
def test_a_damaged_binary_header_is_decoded_or_refused(tail: bytes, at: int, byte: int) -> None:
    """Random damage to a real header yields a header or the one kind of error."""
    data = bytearray(wire(entry(b"topic", b"T") + entry(b"queueId", b"1") + tail, remark=b"r"))
    data[at % len(data)] = byte
    with suppress(HeaderError):
        decode_binary_header(bytes(data))

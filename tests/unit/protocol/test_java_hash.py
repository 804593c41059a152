"""Java's string hash, one by one and in bulk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.java_hash import hash_ascii_rows, java_hash, java_hash_spans, tags_code


def by_definition(text: str) -> int:
    """h = 31 h + unit over UTF-16 units, as the Java documentation has it."""
    units = np.frombuffer(text.encode("utf-16-be", "surrogatepass"), ">u2").tolist()
    value = 0
    for unit in units:
        value = (value * 31 + unit) % 2**32
    return value - 2**32 if value >= 2**31 else value


texts = st.text(max_size=20) | st.text("abcXYZ09_#", max_size=90) | st.sampled_from(["x" * 300, "é" * 200, "😀" * 40])


@pytest.mark.property
@given(texts)
def test_hash_of_any_string(text: str) -> None:
    """Strings of any length and script hash as in Java."""
    assert java_hash(text) == by_definition(text)


@pytest.mark.property
@given(st.lists(texts | st.none(), max_size=12), st.binary(max_size=9))
def test_hashes_in_bulk(strings: list[str | None], before: bytes) -> None:
    """Spans hash as the strings they hold, wherever they lie; absent ones hash to 0."""
    encoded = [b"" if string is None else string.encode() for string in strings]
    lengths = np.array([-1 if string is None else len(string.encode()) for string in strings], np.int64)
    starts = len(before) + np.cumsum([0, *map(len, encoded)])[:-1].astype(np.int64)
    buffer = np.frombuffer(before + b"".join(encoded), np.uint8)
    hashes = java_hash_spans(buffer, starts, lengths)
    assert hashes.tolist() == [by_definition(string or "") for string in strings]


@pytest.mark.property
@given(st.integers(1, 70).flatmap(lambda width: st.lists(st.binary(min_size=width, max_size=width), min_size=1)))
def test_hashes_of_rows(rows: list[bytes]) -> None:
    """Texts of one length, as ids are, hash the same in a table."""
    ascii_rows = [bytes(byte & 0x7F for byte in row) for row in rows]
    table = np.frombuffer(b"".join(ascii_rows), np.uint8).reshape(len(rows), -1)
    assert hash_ascii_rows(table).tolist() == [by_definition(row.decode()) for row in ascii_rows]


def test_no_tags_have_code_zero() -> None:
    """A message without tags is found under code 0."""
    assert tags_code(None) == tags_code("") == 0

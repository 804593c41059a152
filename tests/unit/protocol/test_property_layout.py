"""Properties laid out alike are found by their place; whatever the bytes, what is found is what is there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.buffers.spans import Spans
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.properties import decode_properties
from rmqspark.protocol.records.property_layout import Layout
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.records.record_properties import RecordProperties

from .test_record_batch import maps_of, texts

names = st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"a", b"b", b"\xc3\xa9"])
letters = st.sampled_from([0x00, 0x03, 0x20, 0x41, 0x61, 0xC3, 0xFE, 0xFF])


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Properties of a few records with the same names, values of the same lengths but for one of them."""
    pairs = draw(st.lists(st.tuples(names, st.integers(1, 40)), min_size=1, max_size=5))
    varying = draw(st.none() | st.integers(0, len(pairs) - 1))
    rows = []
    for _ in range(draw(st.integers(1, 6))):
        row = b""
        for number, (name, length) in enumerate(pairs):
            length = draw(st.integers(1, 40)) if number == varying else length
            value = bytes(draw(st.lists(letters, min_size=length, max_size=length)))
            row += name + b"\x01" + value + b"\x02"
        rows.append(row)
    return rows


@st.composite
def nearly_alike(draw: st.DrawFn) -> list[bytes]:
    """The same with a few bytes changed, cut off or added: separators where none were, none where they were."""
    rows = [bytearray(row) for row in draw(alike())]
    for _ in range(draw(st.integers(0, 3))):
        row = draw(st.sampled_from(rows))
        at = draw(st.integers(0, max(0, len(row) - 1)))
        row[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2) | st.sampled_from([b"\x01", b"\x02"]))
    return [bytes(row) for row in rows]


def spans_of(rows: list[bytes]) -> tuple[np.ndarray, Spans]:
    lengths = np.array([len(row) for row in rows], np.int64)
    return np.frombuffer(b"".join(rows), np.uint8), Spans(np.cumsum(lengths) - lengths, lengths)


@pytest.mark.property
@given(alike())
def test_what_is_laid_out_alike_is_seen(rows: list[bytes]) -> None:
    """Same names, same lengths but for one: nothing needs to be taken apart."""
    assert Layout.find(*spans_of(rows)) is not None


@pytest.mark.property
@given(nearly_alike(), st.booleans())
def test_places_are_those_of_every_single_record(rows: list[bytes], has_body: bool) -> None:
    """Alike, nearly alike or not at all: properties in bulk are those of each record by itself."""
    expected = [decode_properties(row) for row in rows]
    body = b"body" if has_body else b""
    batch = RecordBatch.scan(b"".join(bytes(encode_record(topic="T", body=body, properties=row)) for row in rows))
    batch.check(check_crc=True)
    assert texts(batch.buffer, batch.properties) == rows
    for name in ("TAGS", "KEYS", "UNIQ_KEY", "a", "b", "é", "none"):
        found = [
            None if value is None else value.decode("utf-8", "replace")
            for value in texts(batch.buffer, batch.property_spans(name.encode()))
        ]
        assert found == [properties.get(name) for properties in expected]
        assert batch.has_any_property([b"none", name.encode()]) is any(name in properties for properties in expected)
    assert batch.tags_codes().tolist() == [tags_code(properties.get("TAGS")) for properties in expected]
    assert maps_of(batch) == expected


@pytest.mark.parametrize(
    "change",
    [
        b"TAGS\x01x\x02KEYS\x01ab\x02",  # what the others are
        b"TAGS\x01x\x02KEYS\x01a\x02\x02",  # a separator too many
        b"TAGS\x01x\x02KEYS\x01\x01b\x02",
        b"TAGS\x01x\x02KEYT\x01ab\x02",  # another name
        b"TAGS\x01x\x02KEYS\x02ab\x02",  # the wrong separator
        b"TAGS\x01x\x02KEYSab\x01\x02",
        b"TAGS\x01x\x02KEYS\x01abc",  # no end
        b"",
    ],
)
@pytest.mark.parametrize("row", [0, 1, 2, 700, 999])
def test_one_record_among_many(change: bytes, row: int) -> None:
    """A single record that differs is read as it is, wherever it stands."""
    rows = [b"TAGS\x01x\x02KEYS\x01ab\x02"] * 1000
    rows[row] = change
    properties = RecordProperties(*spans_of(rows))
    expected = [decode_properties(encoded) for encoded in rows]
    found = texts(spans_of(rows)[0], properties.find(b"KEYS"))
    assert found == [one["KEYS"].encode() if "KEYS" in one else None for one in expected]
    assert properties.maps().counts.tolist() == [len(one) for one in expected]

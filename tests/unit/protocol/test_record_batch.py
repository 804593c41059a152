"""Records in bulk: column by column, they are what they are one by one."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.spans import Spans
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.properties import decode_properties
from rmqspark.protocol.records.record import decode_record, encode_record
from rmqspark.protocol.records.record_batch import RecordBatch

from .record_strategies import encoded_records
from .test_record import BAD_RECORDS, SAMPLE

NUMBERS = {
    "body_crcs": "body_crc",
    "queue_ids": "queue_id",
    "flags": "flag",
    "queue_offsets": "queue_offset",
    "physical_offsets": "physical_offset",
    "sys_flags": "sys_flag",
    "born_timestamps_ms": "born_timestamp_ms",
    "store_timestamps_ms": "store_timestamp_ms",
    "reconsume_times": "reconsume_times",
    "prepared_transaction_offsets": "prepared_transaction_offset",
    "sizes": "size",
}
SPANS = {"bodies": "body", "properties": "properties", "born_hosts": "born_host", "store_hosts": "store_host"}
NAMES = ("TAGS", "KEYS", "UNIQ_KEY", "XTAGS", "a", "nobody has this name")

copies = encoded_records.flatmap(lambda record: st.integers(2, 5).map(lambda times: [record] * times))
batches = st.lists(encoded_records, max_size=8) | copies


def texts(buffer: np.ndarray[Any, Any], spans: Spans) -> list[bytes | None]:
    return [
        None if length < 0 else buffer[start : start + length].tobytes()
        for start, length in zip(spans.starts.tolist(), spans.lengths.tolist(), strict=True)
    ]


def sizes_of(records: list[bytes]) -> np.ndarray[Any, Any]:
    return np.array([len(record) for record in records], np.int32)


@pytest.mark.property
@given(batches)
def test_columns_equal_single_records(wires: list[bytes]) -> None:
    """Every field, body, topic and property of every record is what decoding that record alone gives."""
    assert_columns_equal_single_records(wires)


@pytest.mark.parametrize(
    "parts",
    [
        [("TT", b"a", b""), ("T", b"bb", b"")],
        [("TT", b"a", b""), ("T", b"a", b"\2")],
        [("T", b"aa", b""), ("T", b"a", b"\2")],
        [("x" * 128, b"", b"")] * 3,
        [("x" * 127, b"aa", b""), ("x" * 128, b"", b"")],
        [("x" * 128, b"", b""), ("", b"", b"")],
        [("", b"nothing else", b"")],
        [("x" * 32_767, b"", b"v" * 32_767)],
    ],
)
def test_records_need_not_be_divided_alike(parts: list[tuple[str, bytes, bytes]]) -> None:
    """Where they are equally long, too; each part may be missing, or as long as its length field can say."""
    assert_columns_equal_single_records(
        [bytes(encode_record(topic=topic, body=body, properties=properties)) for topic, body, properties in parts]
    )


def assert_columns_equal_single_records(wires: list[bytes]) -> None:
    records = [decode_record(wire) for wire in wires]
    batch = RecordBatch.scan(b"".join(wires))
    batch.check(check_crc=True)
    assert len(batch) == len(records)
    for column, field in NUMBERS.items():
        assert getattr(batch, column).tolist() == [getattr(record, field) for record in records], column
    for column, field in SPANS.items():
        assert texts(batch.buffer, getattr(batch, column)) == [getattr(record, field) for record in records], column
    assert texts(batch.buffer, batch.topics) == [record.topic.encode() for record in records]


@pytest.mark.property
@given(batches)
def test_properties_equal_single_records(wires: list[bytes]) -> None:
    """Looked up or as maps, properties in bulk are those that RocketMQ would read, malformed ones included."""
    expected = [decode_properties(decode_record(wire).properties) for wire in wires]
    batch = RecordBatch.scan(b"".join(wires))
    for name in NAMES:
        found = texts(batch.buffer, batch.property_spans(name.encode()))
        assert [None if value is None else value.decode("utf-8", "replace") for value in found] == [
            properties.get(name) for properties in expected
        ], name
        assert batch.has_any_property([b"nobody", name.encode()]) is any(name in properties for properties in expected)
    assert batch.tags_codes().tolist() == [tags_code(properties.get("TAGS")) for properties in expected]
    assert RecordBatch.scan(b"".join(wires)).tags_codes().tolist() == batch.tags_codes().tolist()
    assert maps_of(batch) == expected


def maps_of(batch: RecordBatch) -> list[dict[str, str]]:
    counts, names, values = batch.property_pairs()
    pairs = [
        (name.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
        for name, value in zip(texts(batch.buffer, names), texts(batch.buffer, values), strict=True)
        if name is not None and value is not None
    ]
    ends = np.cumsum(counts).tolist()
    rows = [pairs[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]
    return [dict(row) for row in rows]


def test_maps_name_nothing_twice() -> None:
    """Of several pairs with one name in a record the last stays; names with equal hashes are kept apart."""
    wire = bytes(encode_record(topic="T", body=b"", properties=b"a\x011\x02Aa\x01x\x02BB\x01y\x02a\x012\x02"))
    batch = RecordBatch.scan(wire + SAMPLE + wire)
    counts, names, _ = batch.property_pairs()
    assert counts.tolist() == [3, 1, 3]
    assert texts(batch.buffer, names) == [b"Aa", b"BB", b"a", b"TAGS", b"Aa", b"BB", b"a"]


def test_properties_of_very_different_lengths() -> None:
    """One record with large properties among many small ones is read like them."""
    large = b"".join(b"%d\x01%s\x02" % (n, b"v" * 300) for n in range(100))
    wires = [
        bytes(encode_record(topic="T", body=b"", properties=large if n == 150 else b"TAGS\x01t%d\x02" % n))
        for n in range(400)
    ]
    batch = RecordBatch.scan(b"".join(wires))
    assert maps_of(batch) == [decode_properties(decode_record(wire).properties) for wire in wires]
    assert batch.tags_codes().tolist() == [0 if n == 150 else tags_code(f"t{n}") for n in range(400)]


def test_properties_of_a_large_buffer() -> None:
    """Megabytes of properties are read block by block, to the same result."""
    filler = b"filler\x01" + b"v" * 32_000 + b"\x02"
    wires = [bytes(encode_record(topic="T", body=b"", properties=filler + b"TAGS\x01t%d\x02" % n)) for n in range(150)]
    batch = RecordBatch.scan(b"".join(wires))
    assert batch.tags_codes().tolist() == [tags_code(f"t{n}") for n in range(150)]
    assert [properties["TAGS"] for properties in maps_of(batch)] == [f"t{n}" for n in range(150)]


def test_forged_properties_take_bounded_memory() -> None:
    """A frame full of the smallest properties is looked into without taking many times its size."""
    record = bytes(encode_record(topic="T", body=b"", properties=b"a\x01b\x02" * 8191))
    batch = RecordBatch.scan(record * 500)
    batch.check()
    tracemalloc.start()
    try:
        assert not batch.tags_codes().any()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024 * 1024


@pytest.mark.parametrize("case", BAD_RECORDS)
def test_bad_record_among_good_ones(case: str) -> None:
    """One bad record condemns the batch, and is named."""
    bad = BAD_RECORDS[case]
    good = bytes(encode_record(topic="T", body=b"another body", properties=b""))
    later = SAMPLE if case == "body changed" else BAD_RECORDS["magic zero"]  # lengths come before checksums
    wires = [good, SAMPLE, bad, SAMPLE, later]
    with pytest.raises(RecordError, match=f"At byte {len(good) + len(SAMPLE)}:|smallest"):
        RecordBatch.from_sizes(b"".join(wires), sizes_of(wires)).check(check_crc=True)
    for wires in ([good, bad], [bad] * 3):
        with pytest.raises(RecordError):
            RecordBatch.from_sizes(b"".join(wires), sizes_of(wires)).check(check_crc=True)


@pytest.mark.property
@given(st.lists(encoded_records | st.binary(min_size=85, max_size=120), min_size=1, max_size=4) | copies, st.data())
def test_bulk_and_single_checks_agree(wires: list[bytes], data: st.DataObject) -> None:
    """Whatever the bytes, checking them at once accepts and refuses what checking one by one does."""
    buffer = bytearray(b"".join(wires))
    for at in data.draw(st.lists(st.integers(0, len(buffer) - 1), max_size=3)):
        buffer[at] = data.draw(st.integers(0, 255))
    ends = np.cumsum(sizes_of(wires)).tolist()
    good = True
    for wire, end in zip(wires, ends, strict=True):
        try:
            good = good and decode_record(buffer[:end], end - len(wire)).size == len(wire)
        except RecordError:
            good = False
    try:
        RecordBatch.from_sizes(buffer, sizes_of(wires)).check(check_crc=True)
    except RecordError:
        assert not good
    else:
        assert good


@pytest.mark.property
@given(st.binary(max_size=300) | st.lists(encoded_records, max_size=4).map(b"".join), st.data())
def test_scan_of_any_bytes(wire: bytes, data: st.DataObject) -> None:
    """A scan finds whole records from end to end, or raises RecordError."""
    changed = bytearray(wire)
    if changed and data.draw(st.booleans()):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        batch = RecordBatch.scan(changed)
        batch.check()
    except RecordError:
        return
    assert int(batch.sizes.sum()) == len(changed)
    assert b"".join(wire for wire in texts(batch.buffer, Spans(batch.positions, batch.sizes)) if wire) == changed


@pytest.mark.parametrize(
    "sizes", [[], [len(SAMPLE)], [len(SAMPLE) * 2 + 1, -1], [2 * len(SAMPLE) - 90, 90], [len(SAMPLE)] * 3, [0, 0]]
)
def test_sizes_that_do_not_fit_the_buffer(sizes: list[int]) -> None:
    """Announced sizes have to fill the buffer, with room for a record in each."""
    with pytest.raises(RecordError):
        RecordBatch.from_sizes(SAMPLE * 2, np.array(sizes, np.int32))


@pytest.mark.parametrize("positions", [[0], [-1, 0], [0, len(SAMPLE) + 1], [2**62, 0]])
def test_positions_outside_the_buffer(positions: list[int]) -> None:
    """Positions that come from elsewhere, a damaged queue say, are not followed out of the buffer."""
    with pytest.raises(RecordError):
        RecordBatch(SAMPLE * 2, np.array(positions), np.array([len(SAMPLE)] * 2))


@pytest.mark.parametrize("announced", [len(SAMPLE) - 1, len(SAMPLE) + 1])
def test_records_are_as_long_as_was_announced(announced: int) -> None:
    """Also where they are equally long and follow each other."""
    batch = RecordBatch(SAMPLE * 2 + b"x", np.array([0, len(SAMPLE)]), np.array([announced] * 2))
    with pytest.raises(RecordError, match="At byte 0: a record of"):
        batch.check()


def test_records_in_any_order() -> None:
    """Positions need not follow each other: a queue's records lie scattered in the log."""
    wires = [bytes(encode_record(topic="T", body=bytes(n), queue_offset=n)) for n in (3, 1, 2)]
    positions = np.array([len(wires[0]) + len(wires[1]), 0])
    batch = RecordBatch(b"".join(wires), positions, np.array([len(wires[2]), len(wires[0])]))
    batch.check(check_crc=True)
    assert batch.queue_offsets.tolist() == [2, 3]
    assert batch.bodies.lengths.tolist() == [2, 3]

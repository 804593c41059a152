"""Writing in bulk: byte by byte what writing one by one gives."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidMessage
from rmqspark.protocol.buffers.columns import Column, MapColumn
from rmqspark.protocol.records.properties import RESERVED_NAMES, decode_properties, encode_properties
from rmqspark.protocol.records.property_builder import build_properties
from rmqspark.protocol.records.record import body_crc, encode_record, patch_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.records.record_builder import encode_records, patch

BORN_HOST = bytes([10, 0, 0, 1, 0, 0, 0, 80])
STORE_HOST = bytes([10, 0, 0, 2, 0, 0, 42, 159])
values = st.binary(max_size=40) | st.binary(min_size=7, max_size=7)
words = st.text("abcAé=:", max_size=9)


def column(rows: list[bytes | None], before: bytes = b"") -> Column:
    """As Arrow holds them: a slice of a longer array if there is something before; absent rows may have bytes."""
    texts = [b"?" if row is None else row for row in rows]
    offsets = len(before) + np.cumsum([0, *map(len, texts)])
    present = np.array([row is not None for row in rows]) if None in rows else None
    return Column(np.frombuffer(before + b"".join(texts), np.uint8), offsets.astype(np.int32), present)


def rows_of(result: Column) -> list[bytes]:
    ends = result.offsets.tolist()
    return [result.values[start:end].tobytes() for start, end in pairwise(ends)]


def same_lengths(texts: list[bytes]) -> list[bytes]:
    return [text[:3].ljust(3, b".") for text in texts]


bodies = st.lists(values, max_size=12) | st.lists(values, max_size=12).map(same_lengths)


@pytest.mark.property
@given(bodies, st.data())
def test_encoding_in_bulk_equals_encoding_one_by_one(rows: list[bytes], data: st.DataObject) -> None:
    """A bulk of records has the bytes that its records have, whatever their lengths."""
    count = len(rows)
    tails = data.draw(st.lists(values, min_size=count, max_size=count))
    if data.draw(st.booleans()):
        tails = same_lengths(tails)
    topic = data.draw(st.sampled_from(["TopicTest", "%RETRY%" + "g" * 130]))
    times = data.draw(st.lists(st.integers(0, 2**40), min_size=count, max_size=count))
    flags = data.draw(st.lists(st.integers(-9, 9), min_size=count, max_size=count))
    buffer, sizes = encode_records(
        topic,
        7,
        column(list(rows), before=data.draw(st.sampled_from([b"", b"before"]))),
        column(list(tails)),
        born_timestamp_ms=np.array(times, np.int64),
        born_host=BORN_HOST,
        flags=np.array(flags, np.int32),
        sys_flags=0x301,
    )
    expected = [
        encode_record(
            topic=topic,
            queue_id=7,
            body=body,
            properties=tail,
            born_timestamp_ms=time,
            born_host=BORN_HOST,
            flag=flag,
            sys_flag=0x301,
        )
        for body, tail, time, flag in zip(rows, tails, times, flags, strict=True)
    ]
    assert buffer.tobytes() == b"".join(expected)
    assert sizes.tolist() == [len(record) for record in expected]


@pytest.mark.property
@given(bodies, st.integers(0, 2**62), st.booleans())
def test_patching_in_bulk_equals_patching_one_by_one(rows: list[bytes], first: int, counted: bool) -> None:
    """The broker's patch of a whole bulk is its patch of every record."""
    buffer, sizes = encode_records(
        "T", 0, column(list(rows)), Column.constant(b"a\x01b\x02", len(rows)), born_timestamp_ms=1, born_host=BORN_HOST
    )
    expected = bytearray(buffer.tobytes())
    batch = RecordBatch.from_sizes(buffer, sizes)
    batch.check()  # which reads the heads
    positions = np.cumsum(sizes, dtype=np.int64) - sizes
    queue_offsets = np.arange(len(rows), dtype=np.int64) + first if counted else np.arange(len(rows))[::-1].copy()
    patch(
        buffer,
        positions,
        first_queue_offset=first if counted else queue_offsets,
        first_physical_offset=first,
        store_timestamp_ms=99,
        store_host=STORE_HOST,
    )
    for position, queue_offset in zip(positions.tolist(), queue_offsets.tolist(), strict=True):
        patch_record(
            expected,
            position,
            queue_offset=queue_offset,
            physical_offset=first + position,
            store_timestamp_ms=99,
            store_host=STORE_HOST,
        )
    assert buffer.tobytes() == expected
    assert (batch.store_timestamps_ms == 99).all()
    assert (batch.physical_offsets == first + positions).all()
    assert (batch.queue_offsets == (np.arange(len(rows)) + first if counted else queue_offsets)).all()


def test_given_memory_is_used_where_it_is_large_enough() -> None:
    """Fresh memory is dear: the caller's buffer takes the records, nothing behind them is touched."""
    out = np.full(1000, 7, np.uint8)
    body = column([b"one", b"three"])
    none = column([b"", b""])
    arguments: dict[str, Any] = {"born_timestamp_ms": 0, "born_host": BORN_HOST}
    buffer, _ = encode_records("T", 0, body, none, out=out, **arguments)
    assert np.shares_memory(buffer, out)
    assert (out[len(buffer) :] == 7).all()
    again, _ = encode_records("T", 0, body, none, out=out[:10], **arguments)
    assert not np.shares_memory(again, out)
    assert again.tobytes() == buffer.tobytes()


def test_given_checksums_are_used() -> None:
    """Who has the checksums already does not pay for them twice."""
    crcs = np.array([body_crc(b"one"), 5], np.uint32)
    buffer, _ = encode_records(
        "T", 0, column([b"one", b"two"]), column([b"", b""]), born_timestamp_ms=0, born_host=BORN_HOST, crcs=crcs
    )
    assert RecordBatch.scan(buffer).body_crcs.tolist() == crcs.tolist()


def test_too_long_properties_name_their_row() -> None:
    """The user learns which row cannot be sent."""
    with pytest.raises(InvalidMessage, match="Row 1: properties of 32768"):
        encode_records(
            "T", 0, column([b"", b""]), column([b"", bytes(32768)]), born_timestamp_ms=0, born_host=BORN_HOST
        )


@st.composite
def property_tables(draw: st.DrawFn) -> tuple[int, dict[str, list[str | None]], list[list[tuple[str, str | None]]]]:
    rows = draw(st.integers(0, 9))
    cells = st.lists(words | st.none(), min_size=rows, max_size=rows)
    singles = draw(st.dictionaries(st.sampled_from(["TAGS", "KEYS", "__SHARDINGKEY", "UNIQ_KEY"]), cells))
    names = words | st.sampled_from(sorted(RESERVED_NAMES)) | st.just("__RMQ.TRANSIENT.X")
    entries = st.lists(st.tuples(names, words | st.none()), max_size=4)
    return rows, singles, draw(st.lists(entries, min_size=rows, max_size=rows))


@pytest.mark.property
@given(property_tables(), st.booleans())
def test_properties_in_bulk_equal_properties_one_by_one(
    table: tuple[int, dict[str, list[str | None]], list[list[tuple[str, str | None]]]], with_map: bool
) -> None:
    """Columns of tags, keys and maps become the properties that a single send of each row would have."""
    rows, singles, maps = table
    entries = [entry for row in maps for entry in row]
    pairs = MapColumn(
        np.cumsum([0, *map(len, maps)]).astype(np.int32),
        column([name.encode() for name, _ in entries]),
        column([None if value is None else value.encode() for _, value in entries]),
    )
    columns = {
        name: column([None if cell is None else cell.encode() for cell in cells]) for name, cells in singles.items()
    }
    result = rows_of(build_properties(rows, columns, pairs if with_map else None))

    expected = []
    for row in range(rows):
        encoded = encode_properties({name: cells[row] or "" for name, cells in singles.items()})
        for name, value in maps[row] if with_map else []:
            if name and value and name not in RESERVED_NAMES and not name.startswith("__RMQ.TRANSIENT."):
                encoded += encode_properties({name: value})
        expected.append(encoded)
    assert result == expected


def test_a_slice_of_a_map_column() -> None:
    """Arrow hands out slices of maps: entries before the first offset are not this column's."""
    pairs = MapColumn(np.array([1, 2, 2], np.int32), column([b"x", b"a"]), column([b"y", b"b"]))
    assert rows_of(build_properties(2, {}, pairs)) == [b"a\x01b\x02", b""]


@pytest.mark.parametrize("separator", [b"\x01", b"\x02"])
@pytest.mark.parametrize("place", ["single", "name", "value"])
def test_separators_in_values_name_their_row(separator: bytes, place: str) -> None:
    """A 0x01 or 0x02 in a column would forge properties; the user learns which row has it."""
    bad = b"v" + separator + b"v"
    cells = {name: column([b"x", b"y", bad if name == place else b"z"]) for name in ("single", "name", "value")}
    with pytest.raises(InvalidMessage, match=f"Row 2: .*0x0{separator[0]}"):
        build_properties(3, {"TAGS": cells["single"]}, MapColumn(np.arange(4), cells["name"], cells["value"]))


def test_what_is_built_is_what_is_read() -> None:
    """From columns to records and back to columns nothing is lost."""
    properties = build_properties(
        3,
        {"TAGS": column([b"a", None, b"c"]), "KEYS": column([b"k1 k2", b"k3", None])},
        MapColumn(np.array([0, 1, 1, 2]), column([b"color", b"color"]), column([b"red", b"blue"])),
    )
    buffer, sizes = encode_records(
        "T", 3, column([b"one", b"two", b"three"]), properties, born_timestamp_ms=5, born_host=BORN_HOST
    )
    batch = RecordBatch.from_sizes(buffer, sizes)
    batch.check(check_crc=True)
    assert batch.queue_ids.tolist() == [3, 3, 3]
    assert batch.property_spans(b"TAGS").lengths.tolist() == [1, -1, 1]
    assert [decode_properties(row) for row in rows_of(properties)] == [
        {"TAGS": "a", "KEYS": "k1 k2", "color": "red"},
        {"KEYS": "k3"},
        {"TAGS": "c", "color": "blue"},
    ]

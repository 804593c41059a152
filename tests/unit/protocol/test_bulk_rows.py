"""Rows that stand for records: less on the way, the same in the log."""

from __future__ import annotations

import struct
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers import laying
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows, records_of_rows
from rmqspark.protocol.bulk.row_properties import RowProperties
from rmqspark.protocol.java_hash import java_hash
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.message_id import MAX_SEQUENCE, unique_id
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import SysFlag, encode_record
from rmqspark.protocol.records.unique_keys import IdRange, unique_key_hashes

PREFIX = "7F0000011F9018B4AAC2"
HOST = bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F])
SHARED_BYTES = 52
SHORT = st.text("abc", min_size=1, max_size=6).map(str.encode)


def widened(body: bytes) -> bytes:
    return body[:1] * 300


def column_of(texts: list[bytes]) -> Column:
    return Column(np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)]))


def rows_of(bodies: list[bytes], first: int = 7, sys_flag: int = 0) -> BulkRows:
    """Rows as a sink makes them."""
    column = column_of(bodies)
    crcs = body_crcs(column.values, column.spans())
    return BulkRows(1_700_000_000_000, HOST, sys_flag, IdRange(PREFIX, first), crcs, column)


def encoded(rows: BulkRows) -> bytes:
    return b"".join(part.tobytes() for part in rows.encode())


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=30), st.booleans(), st.integers(0, 1 << 40))
def test_what_arrives_stands_for_the_same_records(bodies: list[bytes], even: bool, first: int) -> None:
    """Bodies of one length or of several: the broker makes the records that a sender would have made one by one."""
    if even:
        bodies = [body.ljust(40, b".") for body in bodies]
    raw = encoded(rows_of(bodies, first, SysFlag.COMPRESSION_ZSTD))
    assert len(raw) == SHARED_BYTES + sum(map(len, bodies)) + 4 * len(bodies) * (
        1 if len({*map(len, bodies)}) == 1 else 2
    )
    arrived = BulkRows.decode(memoryview(raw), len(bodies))
    expected = [
        encode_record(
            topic="orders",
            body=body,
            queue_id=3,
            properties=encode_properties({"UNIQ_KEY": unique_id(PREFIX, number)}),
            sys_flag=SysFlag.COMPRESSION_ZSTD,
            born_timestamp_ms=1_700_000_000_000,
            born_host=HOST,
        )
        for number, body in enumerate(bodies, first)
    ]
    records = arrived.records("orders", 3)
    assert records.buffer.tobytes() == b"".join(expected)
    assert records.sizes.tolist() == [len(record) for record in expected]
    assert arrived.records_bytes("orders") == len(records.buffer)
    rest = arrived.skip(len(bodies) // 2)
    assert rest.records("orders", 3).buffer.tobytes() == b"".join(expected[len(bodies) // 2 :])
    hashes = unique_key_hashes(["orders#"], [arrived.ids], [len(bodies)])
    assert hashes.tolist() == [java_hash(f"orders#{unique_id(PREFIX, first + row)}") for row in range(len(bodies))]


@given(st.data())
def test_bulks_become_records_together(data: st.DataObject) -> None:
    """Rows of several senders, whatever differs between them or does not: the same records as each bulk alone would
    give."""
    texts = st.lists(data.draw(st.sampled_from([SHORT, st.binary(min_size=6, max_size=6), SHORT.map(widened)])))
    has_keys = data.draw(st.booleans())
    bulks, queue_ids = [], []
    for number in range(data.draw(st.integers(1, 4))):
        bodies = data.draw(texts.filter(len))
        rows = rows_of(bodies, data.draw(st.sampled_from([7, 1 << 40])), data.draw(st.sampled_from([0, 1 << 4])))
        if data.draw(st.booleans()):
            rows = rows._replace(born_timestamp_ms=number, born_host=bytes([*HOST[:7], number]))
        if data.draw(st.booleans()):
            rows = rows._replace(ids=IdRange(f"{number:020}", 5))
        if has_keys:
            keys = data.draw(st.lists(SHORT, min_size=len(bodies), max_size=len(bodies)))
            rows = rows._replace(properties=RowProperties.of(len(keys), keys=column_of(keys)))
        bulks.append(rows.skip(data.draw(st.integers(0, len(bodies) - 1))))
        queue_ids.append(data.draw(st.integers(0, 1)))
    with patch.object(laying, "_LARGE", data.draw(st.sampled_from([0, 1 << 20]))):
        together = records_of_rows("orders", queue_ids, bulks)
    alone = [bulk.records("orders", queue_id) for bulk, queue_id in zip(bulks, queue_ids, strict=True)]
    assert together.buffer.tobytes() == b"".join(each.buffer.tobytes() for each in alone)
    assert together.sizes.tolist() == [size for each in alone for size in each.sizes.tolist()]
    ranges, counts = [bulk.ids for bulk in bulks], [len(bulk.crcs) for bulk in bulks]
    hashes = [unique_key_hashes(["orders#"], [ids], [count]) for ids, count in zip(ranges, counts, strict=True)]
    assert unique_key_hashes(["orders#"] * len(ranges), ranges, counts).tolist() == np.concatenate(hashes).tolist()


def test_bodies_go_out_from_where_they_lie() -> None:
    """Nothing of a body is copied to send it."""
    rows = rows_of([b"aa", b"bb"])
    assert rows.encode()[-1].base is not None
    assert np.shares_memory(rows.encode()[-1], rows.bodies.values)


def changed(at: int, new: bytes, *, even: bool = True, count: int = 2) -> tuple[bytes, int]:
    raw = bytearray(encoded(rows_of([b"aaa", b"bbb" if even else b"b"])))
    raw[at : at + len(new)] = new
    return bytes(raw), count


@pytest.mark.parametrize(
    ("raw", "count", "story"),
    [
        (*changed(0, b"", count=0), "0 rows need more"),
        (*changed(0, b"", count=-1), "-1 rows need more"),
        (*changed(0, b"", count=1 << 30), "1073741824 rows need more"),
        (*changed(0, b"", count=1), "do not fill"),
        (*changed(0, b"", even=False, count=1), "do not fill"),
        (encoded(rows_of([b"aaa", b"bbb"])) + b"?", 2, "do not fill"),
        (encoded(rows_of([b"aaa", b"bbb"]))[:-1], 2, "do not fill"),
        (encoded(rows_of([b"aaa"]))[:50], 1, "1 rows need more"),
        (*changed(0, b"\xff"), "born at"),
        (*changed(20, b"g"), "hex digits"),
        (*changed(20, "é".encode()), "hex digits"),
        (*changed(40, struct.pack(">q", -1)), "first number"),
        (*changed(40, struct.pack(">q", MAX_SEQUENCE)), "first number"),
        (*changed(48, struct.pack(">i", -3)), "do not fill"),
        (*changed(48, struct.pack(">i", 2**31 - 1)), "do not fill"),
        (*changed(52, struct.pack(">i", -1), even=False), "a body is empty"),
        (*changed(52, struct.pack(">i", 0), even=False), "a body is empty"),
        (*changed(52, struct.pack(">i", 2**31 - 1), even=False), "do not fill"),
        (*changed(52, b"\xff"), "sign bit"),
    ],
)
def test_what_is_not_rows(raw: bytes, count: int, story: str) -> None:
    """Counts, lengths, ids and checksums that cannot be are named, whatever they would ask for in memory."""
    with pytest.raises(RecordError, match=story):
        BulkRows.decode(memoryview(raw), count)


@given(st.binary(max_size=200), st.integers(-2, 1 << 33))
def test_any_bytes(raw: bytes, count: int) -> None:
    """Any bytes are rows, or a RecordError."""
    try:
        rows = BulkRows.decode(memoryview(raw), count)
    except RecordError:
        return
    assert len(rows.crcs) == count

"""Rows of a DataFrame as messages."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rmqspark.model import MessageQueue
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.names import MAX_BODY_BYTES
from rmqspark.protocol.records.compression import decompress
from rmqspark.protocol.records.record import Record, decode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.records.record_builder import EncodedRecords
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.sink.rows.rows import Rows
from rmqspark.sink.sends.dealing import evenly
from rmqspark.store.appending.bulk_check import check_keys, check_rows

MAP = pa.map_(pa.string(), pa.string())


def records(batch: Any, compression: str = "none", first: int = 0) -> list[Record]:
    """The records that a broker stores for a batch, decoded by the plain decoder, checksums included."""
    rows = Rows(batch, "orders", IdRange("0" * 20, 0), compression)
    bulk = rows.bulk(
        MessageQueue("orders", "broker-a", 5),
        first,
        batch.num_rows,
        born_timestamp_ms=17,
        born_host=bytes(8),
        out=None,
    )
    are_alike = len(set(rows.sys_flags.tolist())) == 1
    assert isinstance(bulk, BulkRows) == ("properties" not in batch.schema.names and are_alike)
    encoded = bulk.records("orders", 5) if isinstance(bulk, BulkRows) else bulk
    if isinstance(bulk, EncodedRecords):
        assert encoded.sizes.tolist() == rows.sizes[first:].tolist()
    starts = np.cumsum(encoded.sizes) - encoded.sizes
    return [decode_record(encoded.buffer.tobytes(), int(start)) for start in starts]


@pytest.mark.parametrize("name", ["body", "value"])
@pytest.mark.parametrize(
    "bodies",
    [
        pa.array([b"one", b"two"], pa.binary()),
        pa.array(["one", "three"], pa.string()),
        pa.array(["one", "three"], pa.large_string()),
        pa.array([b"zero", b"one", b"two"], pa.binary()).slice(1),
    ],
)
def test_bodies_of_every_type(name: str, bodies: Any) -> None:
    """Strings and binaries, under either name, arrive as they are, each with an id of its own."""
    found = records(pa.record_batch({name: bodies}))
    expected = [value.encode() if isinstance(value, str) else value for value in bodies.to_pylist()]
    assert [record.body for record in found] == expected
    assert [record.property_map() for record in found] == [{"UNIQ_KEY": f"{row:032X}"} for row in range(len(found))]
    assert {(record.topic, record.queue_id, record.born_timestamp_ms) for record in found} == {("orders", 5, 17)}


def test_every_column_that_is_written() -> None:
    """Tags, keys, sharding key and properties travel with the message; what is null is left out."""
    batch = pa.record_batch(
        {
            "body": pa.array([b"a", b"bb", b"c"]),
            "tags": pa.array(["paid", None, "sent"]),
            "keys": pa.array([["k1", None, "k2"], None, []], pa.list_(pa.string())),
            "shardingKey": pa.array([None, "s", "ä"]),
            "properties": pa.array([[("x", "1"), ("KEYS", "reserved")], None, []], pa.map_(pa.string(), pa.string())),
        }
    )
    found = [record.property_map() for record in records(batch)]
    assert found == [
        {"TAGS": "paid", "KEYS": "k1 k2", "UNIQ_KEY": f"{0:032X}", "x": "1"},
        {"UNIQ_KEY": f"{1:032X}", "__SHARDINGKEY": "s"},
        {"TAGS": "sent", "UNIQ_KEY": f"{2:032X}", "__SHARDINGKEY": "ä"},
    ]


def test_properties_beside_null_maps() -> None:
    """Spark's strings may be any bytes, also where another row has no map; what lies under a null map is not sent."""
    odd = pa.array([b"a", b"\xff", b"c"], pa.binary()).view(pa.string())
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), odd, odd)
    second_is_null = pa.py_buffer(bytes([0b101]))
    some = pa.Array.from_buffers(maps.type, 3, [second_is_null, maps.buffers()[1]], children=[maps.values])
    first_is_null = pa.Array.from_buffers(
        maps.type, 2, [pa.py_buffer(bytes([0b10])), maps.buffers()[1]], children=[maps.values]
    )
    for properties, expected in (
        (some, [b"a\x01a\x02", b"", b"c\x01c\x02"]),
        (first_is_null, [b"", b"\xff\x01\xff\x02"]),
    ):
        bodies = pa.array([b"x"] * len(properties), pa.binary())
        found = records(pa.record_batch({"body": bodies, "properties": properties}))
        assert [bytes(record.properties).partition(b"\x02")[2] for record in found] == expected


def test_keys_as_a_string() -> None:
    """keys may also be one string, blanks between several."""
    batch = pa.record_batch({"body": pa.array([b"a"]), "keys": pa.array(["k1 k2"])})
    assert records(batch)[0].property_map()["KEYS"] == "k1 k2"


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
def test_keys_of_an_array_that_holds_no_nulls(list_of, text) -> None:
    """Spark's array("a", "b") says that none of its items is null; its keys are joined like others, of the large types
    too that spark.sql.execution.arrow.useLargeVarTypes brings."""
    keys = pa.array([["k1", "k2"]], list_of(pa.field("element", text, nullable=False)))
    assert records(pa.record_batch({"body": pa.array([b"a"]), "keys": keys}))[0].property_map()["KEYS"] == "k1 k2"


@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
def test_null_and_empty_keys_of_an_array_do_not_count(list_of) -> None:
    """What split() and array() leave in a list of keys beside the keys is not there for readers."""
    given = [["skipped"], ["", "k1", None, "", "k2"], None, [""], ["k3"]]
    keys = pa.array(given, list_of(pa.string())).slice(1)
    found = records(pa.record_batch({"body": pa.array([b"a", b"b", b"c", b"d"]), "keys": keys}))
    assert [record.property_map().get("KEYS") for record in found] == ["k1 k2", None, None, "k3"]


def test_part_of_a_batch() -> None:
    """A send made of the later rows of a batch carries these rows."""
    for more in ({}, {"tags": pa.array(["x", "y", "z"])}):
        found = records(pa.record_batch({"body": pa.array([b"a", b"bb", b"ccc"]), **more}), first=1)
        assert [record.body for record in found] == [b"bb", b"ccc"]
        assert [record.property_map()["UNIQ_KEY"] for record in found] == [f"{1:032X}", f"{2:032X}"]


@pytest.mark.parametrize("body_bytes", [1, 20, 200])
def test_small_bodies_do_not_become_more_than_a_broker_takes(body_bytes: int) -> None:
    """A send of the largest size is not refused for the records that it becomes."""
    bodies = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(body_bytes), 400_000, [None, pa.py_buffer(b"x" * (body_bytes * 400_000))]
    )
    rows = Rows(pa.record_batch({"body": bodies.cast(pa.binary())}), "t" * 127, IdRange("0" * 20, 0), "none")
    queue = MessageQueue("t" * 127, "broker-a", 0)
    for first, end in evenly(rows.sizes, 8 << 20):
        bulk = rows.bulk(queue, first, end, born_timestamp_ms=17, born_host=bytes(8), out=None)
        assert isinstance(bulk, BulkRows)
        check_rows(bulk, queue.topic, 4 << 20)
        assert sum(len(part) for part in bulk.encode()) < 9 << 20


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_bodies_that_compression_makes_no_smaller(kind: str) -> None:
    """They stay as they are, alone and beside others: the largest that a broker takes would grow beyond that."""
    dense, large = random.Random(1).randbytes(MAX_BODY_BYTES), b"abc" * 3_000
    for bodies in ([dense], [dense, large]):
        found = records(pa.record_batch({"body": pa.array(bodies)}), kind)
        assert (found[0].body, found[0].sys_flag) == (dense, 0)
        assert [record.sys_flag > 0 for record in found[1:]] == [True for _ in bodies[1:]]


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_large_bodies_are_compressed_when_asked_for(kind: str) -> None:
    """compression shrinks bodies of 4 KiB and more and leaves the others alone."""
    large = b"abc" * 3_000
    found = records(pa.record_batch({"body": pa.array([b"small", large])}), kind)
    assert (found[0].body, found[0].sys_flag) == (b"small", 0)
    assert len(found[1].body) < len(large)
    assert decompress(found[1].body, found[1].sys_flag, 1 << 20) == large


@pytest.mark.parametrize("batch_bytes", [1 << 20, 8 << 20])
@pytest.mark.parametrize("more", [{}, {"properties": pa.array([[("a", "b")]] * 60_000, MAP)}], ids=["keys", "all"])
@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["k0000000 k0000001 k0000002 k0000003 k0000004 k0000005"] * 60_000),
        pa.array([" ".join("abcdefghijklmnopqrstuvwxyz")] * 60_000),
        pa.array([[*"abcdefghijklmnopqrstuvwxyz"]] * 60_000),
        pa.array([None if row % 2 else "a b c d e f g h i j k l" for row in range(60_000)]),
    ],
    ids=["words", "letters", "list", "nulls"],
)
def test_many_keys_do_not_become_more_than_a_broker_enters(keys: Any, more: dict[str, Any], batch_bytes: int) -> None:
    """Few bytes may be many entries of its index, of which a bulk may bring so many: they are sent in several."""
    batch = pa.record_batch({"body": pa.array([b"x"] * 60_000), "keys": keys, **more})
    rows, queue = Rows(batch, "t", IdRange("0" * 20, 0), "none"), MessageQueue("t", "broker-a", 0)
    for first, end in evenly(rows.sizes, batch_bytes):
        bulk = rows.bulk(queue, first, end, born_timestamp_ms=17, born_host=bytes(8), out=None)
        if isinstance(bulk, BulkRows):
            check_rows(bulk, "t", 4 << 20)
        else:
            check_keys(RecordBatch.from_sizes(bulk.buffer, bulk.sizes))


def test_one_key_of_each_row_costs_no_room() -> None:
    """As nearly all rows have it: what is sent together is bounded by bytes alone."""
    bodies, keys = pa.array([b"x"] * 3), pa.array(["k", "", None])
    with_keys = Rows(pa.record_batch({"body": bodies, "keys": keys}), "t", IdRange("0" * 20, 0), "none")
    with_tags = Rows(pa.record_batch({"body": bodies, "tags": keys}), "t", IdRange("0" * 20, 0), "none")
    assert with_keys.sizes.tolist() == with_tags.sizes.tolist()

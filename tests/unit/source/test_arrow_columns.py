"""Records as Spark gets them: every column, every odd record."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rmqspark.client.pulling.received import received_all
from rmqspark.errors import InvalidArgument
from rmqspark.model import MessageQueue
from rmqspark.protocol.records.compression import compress
from rmqspark.protocol.records.message_id import offset_msg_id, pack_host
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import SysFlag, encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.source.values.arrow import INFLATED_BYTES, NARROW_ROWS, ArrowColumns
from rmqspark.source.values.schema import COLUMNS, check_schema, default_schema

QUEUE = MessageQueue("orders", "broker-a", 3)
HOST = pack_host("10.1.2.3", 10911)
EVERY_COLUMN = default_schema().add("offsetMsgId", "string")


def record(body: bytes = b"x", properties: dict[str, str] | None = None, **fields: object) -> bytes:
    given = {"topic": "orders", "queue_id": 3, "store_host": HOST, "born_host": HOST} | fields
    return bytes(encode_record(body=body, properties=encode_properties(properties or {}), **given))  # type: ignore[arg-type]


def rows(schema: StructType, *records: bytes) -> list[dict[str, object]]:
    batches = list(ArrowColumns(schema, QUEUE).batches(RecordBatch.scan(b"".join(records))))
    expected = to_arrow_schema(schema, timezone="UTC")
    assert all(batch.schema.equals(expected) for batch in batches)
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, expected).to_pylist()


FULL = record(
    b"hello",
    {"TAGS": "paid", "KEYS": "k1 k2", "UNIQ_KEY": "U" * 32, "region": "eu"},
    queue_offset=41,
    physical_offset=0x1234,
    born_timestamp_ms=1_700_000_000_123,
    store_timestamp_ms=1_700_000_000_456,
    reconsume_times=2,
    flag=7,
)
FULL_ROW = {
    "topic": "orders",
    "brokerName": "broker-a",
    "queueId": 3,
    "queueOffset": 41,
    "msgId": "U" * 32,
    "tags": "paid",
    "keys": "k1 k2",
    "body": b"hello",
    "properties": [("TAGS", "paid"), ("KEYS", "k1 k2"), ("UNIQ_KEY", "U" * 32), ("region", "eu")],
    "bornTimestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC),
    "storeTimestamp": datetime(2023, 11, 14, 22, 13, 20, 456_000, UTC),
    "reconsumeTimes": 2,
    "flag": 7,
    "offsetMsgId": offset_msg_id(HOST, 0x1234),
}


def test_every_column_of_a_message() -> None:
    """All that a message carries arrives in its column."""
    assert rows(EVERY_COLUMN, FULL) == [FULL_ROW]


ODD = (
    b"TAGS\x01\xff\x02KEYS\x01k\xfe1\x02UNIQ_KEY\x01\xfd\x02\xfc\x01a\x02\xfb\x01b\x02"
    b"\xc3\xa4\x01\xc3\xa4\xf0\x9f\x98\x80\x02"
)


@pytest.mark.parametrize("beside", [[], [FULL], [FULL] * 300])
def test_texts_that_are_no_utf_8(beside: list[bytes]) -> None:
    """Read as whoever else reads them, RocketMQ's clients too: with a sign in the place of what is none. Handed on as
    they are they would end whatever brings their column to Python, and nobody could tell for which message."""
    odd = bytes(
        encode_record(topic="orders", body=b"\xff", properties=ODD, queue_id=3, store_host=HOST, born_host=HOST)
    )
    found = rows(EVERY_COLUMN, *beside, odd, *beside)
    (message,) = received_all(odd, "broker-a")
    row = found.pop(len(beside))
    assert found == [FULL_ROW] * (2 * len(beside))
    assert (row["tags"], row["keys"], row["msgId"], row["body"]) == ("\ufffd", "k\ufffd1", "\ufffd", b"\xff")
    assert (row["tags"], row["msgId"], dict(row["properties"])) == (message.tags, message.msg_id, message.properties)  # type: ignore[call-overload]
    assert [name for name, _ in row["properties"]] == [*message.properties]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_alone(name: str) -> None:
    """A schema that names one column gets that column, whichever it is."""
    schema = StructType([field for field in EVERY_COLUMN if field.name == name])
    assert rows(check_schema(schema), FULL, FULL) == [{name: FULL_ROW[name]}] * 2


def test_a_bare_message() -> None:
    """A message with neither tags nor keys nor id has nulls, and goes by the broker's id."""
    row = rows(EVERY_COLUMN, record(physical_offset=99))[0]
    assert (row["tags"], row["keys"], row["properties"]) == (None, None, [])
    assert row["msgId"] == row["offsetMsgId"] == offset_msg_id(HOST, 99)


def test_ids_of_both_kinds_in_one_batch() -> None:
    """Only the messages without a unique id fall back to the broker's."""
    found = rows(StructType().add("msgId", "string"), FULL, record(physical_offset=5), FULL)
    assert [row["msgId"] for row in found] == ["U" * 32, offset_msg_id(HOST, 5), "U" * 32]


def test_ipv6_hosts() -> None:
    """Messages stored by a broker with an IPv6 address are read like any other."""
    wide = pack_host("2001:db8::7", 10911)
    found = rows(EVERY_COLUMN, FULL, record(b"six", {"TAGS": "t"}, store_host=wide, born_host=wide, reconsume_times=9))
    assert [(row["body"], row["reconsumeTimes"]) for row in found] == [(b"hello", 2), (b"six", 9)]
    assert found[1]["offsetMsgId"] == offset_msg_id(wide, 0)


@pytest.mark.parametrize("kind", [SysFlag.COMPRESSION_ZLIB, SysFlag.COMPRESSION_LZ4, SysFlag.COMPRESSION_ZSTD])
def test_compressed_bodies_are_inflated(kind: int) -> None:
    """A producer that compresses is not noticed by the reader."""
    body = b"long " * 2_000
    packed = record(compress(body, kind), sys_flag=SysFlag.COMPRESSED | kind)
    assert [row["body"] for row in rows(StructType().add("body", "binary"), FULL, packed, FULL)] == [
        b"hello",
        body,
        b"hello",
    ]


def test_a_body_that_does_not_inflate_ends_no_query() -> None:
    """One message of anybody who may send would end it, at every start again: it comes as it is stored."""
    stuck = record(b"no stream", sys_flag=SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD)
    found = rows(StructType().add("body", "binary"), FULL, stuck, FULL)
    assert [row["body"] for row in found] == [b"hello", b"no stream", b"hello"]


def test_inflated_batches_stay_small() -> None:
    """A few small records may hold very large bodies: they do not end up in one batch."""
    body = bytes(1 << 20)
    packed = record(compress(body, SysFlag.COMPRESSION_ZSTD), sys_flag=SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD)
    columns = ArrowColumns(StructType().add("queueOffset", "long").add("body", "binary"), QUEUE)
    batches = list(columns.batches(RecordBatch.scan(packed * 10)))
    assert sum(batch.num_rows for batch in batches) == 10
    assert max(batch.nbytes for batch in batches) < INFLATED_BYTES + 2 * len(body)


@pytest.mark.parametrize("born_ms", [-1, 253_402_300_800_000, 2**63 - 1, -(2**63)])
def test_a_message_that_was_born_in_no_year(born_ms: int) -> None:
    """Its sender says so, and would end each query that brings it to Python. Its neighbours keep their times."""
    schema = StructType().add("bornTimestamp", "timestamp").add("queueOffset", "long")
    strange = record(queue_offset=42, born_timestamp_ms=born_ms)
    found = rows(schema, FULL, strange, FULL)
    assert [each["bornTimestamp"] for each in found] == [FULL_ROW["bornTimestamp"], None, FULL_ROW["bornTimestamp"]]
    with pytest.raises(InvalidArgument, match="Column 'bornTimestamp' may be null"):
        check_schema(StructType().add("bornTimestamp", "timestamp", False))


def test_a_user_schema_may_forbid_nulls_where_there_are_none() -> None:
    """Nullability and order of a given schema are kept to the letter, or Spark refuses the batch."""
    schema = StructType().add("queueOffset", "long", False).add("body", "binary", False)
    assert rows(check_schema(schema), FULL) == [{"queueOffset": 41, "body": b"hello"}]


def test_large_chunks_are_cut() -> None:
    """An Arrow batch has a bounded number of rows."""
    one = record()
    batches = list(ArrowColumns(StructType().add("body", "binary"), QUEUE).batches(RecordBatch.scan(one * 45_000)))
    assert [batch.num_rows for batch in batches] == [NARROW_ROWS, NARROW_ROWS, 5_000]


@pytest.mark.property
@given(st.lists(st.binary(min_size=0, max_size=40), max_size=20), st.data())
def test_bodies_of_any_length(bodies: list[bytes], data: st.DataObject) -> None:
    """Bodies come out byte for byte: empty, of 12 bytes and fewer, and longer ones."""
    keys = data.draw(
        st.lists(st.none() | st.text("abcä", min_size=1, max_size=20), min_size=len(bodies), max_size=len(bodies))
    )
    records = [record(body, {"KEYS": key} if key else {}) for body, key in zip(bodies, keys, strict=True)]
    found = rows(StructType().add("body", "binary").add("keys", "string"), *records)
    assert found == [{"body": body, "keys": key} for body, key in zip(bodies, keys, strict=True)]


@pytest.mark.parametrize(
    ("schema", "story"),
    [
        (StructType(), "names no column"),
        (StructType().add("Body", "binary"), "no column 'Body'.*Did you mean 'body'"),
        (StructType().add("amount", "double"), "no column 'amount'.*There are: topic"),
        (StructType().add("value", "binary"), "no column 'value'. Did you mean 'body'"),
        (StructType().add("key", "binary"), "no column 'key'. Did you mean 'keys'"),
        (StructType().add("partition", "integer"), "no column 'partition'. Did you mean 'queueId'"),
        (StructType().add("offset", "long"), "no column 'offset'. Did you mean 'queueOffset'"),
        (StructType().add("timestamp", "timestamp"), "no column 'timestamp'. Did you mean 'storeTimestamp'"),
        (StructType().add("headers", "string"), "no column 'headers'. Did you mean 'properties'"),
        (StructType().add("body", "string"), "'body' is binary, not string.*cast"),
        (StructType().add("queueId", "long"), "'queueId' is int, not bigint"),
        (StructType().add("storeTimestamp", "timestamp_ntz"), "not timestamp_ntz. A time is timestamp_ltz"),
        (StructType().add("tags", "string", False), "'tags' may be null"),
        (StructType().add("body", "binary").add("body", "binary"), "'body' twice"),
    ],
)
def test_schemas_that_do_not_fit_are_refused(schema: StructType, story: str) -> None:
    """A schema that the source cannot give is an error that names the column."""
    with pytest.raises(InvalidArgument, match=story):
        check_schema(schema)

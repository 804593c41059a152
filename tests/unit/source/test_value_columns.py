"""Records whose bodies are parsed: fields, columns of the message, and what becomes of bad bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rmqspark.errors import UnparsableBody
from rmqspark.model import MessageQueue
from rmqspark.protocol.records.compression import compress
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import SysFlag, encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.source.values.bad_records import MAX_REASON_LETTERS, MAX_SENT_BYTES, BadRecord, message
from rmqspark.source.values.schema import COLUMNS
from rmqspark.source.values.value_columns import ValueColumns
from rmqspark.source.values.value_options import DROPMALFORMED, FAILFAST, ValueOptions
from rmqspark.source.values.value_schema import check_read_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

QUEUE = MessageQueue("orders", "broker-a", 3)
ID = StructField("id", LongType())


class Kept:
    """A place for bad records that remembers them."""

    def __init__(self) -> None:
        self.records: list[BadRecord] = []

    def send(self, records: Iterable[BadRecord]) -> None:
        self.records += records


def record(offset: int, body: bytes, sys_flag: int = 0) -> bytes:
    properties = encode_properties({"TAGS": "paid"})
    return bytes(
        encode_record(topic="orders", queue_id=3, body=body, properties=properties, queue_offset=offset,
                      sys_flag=sys_flag)
    )  # fmt: skip


def read(values: ValueOptions, fields: list[StructField], *records: bytes, kept: Kept | None = None) -> list[Any]:
    schema = check_read_schema(StructType(fields), values)
    columns = ValueColumns(schema, values, kept, QUEUE)  # type: ignore[arg-type]
    batches = list(columns.batches(RecordBatch.scan(b"".join(records))))
    expected = to_arrow_schema(schema, timezone="UTC")
    assert all(batch.schema.equals(expected) for batch in batches)
    return [tuple(row.values()) for row in pa.Table.from_batches(batches, expected).to_pylist()]


RECORDS = [record(5, b'{"id":1}'), record(6, b"x\xff"), record(7, b'{"id":3}')]


def test_fields_and_columns_of_the_message() -> None:
    """The schema's order holds, and the message's own columns stand where it names them."""
    values = ValueOptions("json", metadata_columns=("topic", "queueOffset", "tags", "body"))
    fields = [StructField(name, COLUMNS[name]) for name in ("queueOffset", "tags", "body", "topic")]
    assert read(values, [fields[0], ID, *fields[1:]], RECORDS[0]) == [(5, 1, "paid", b'{"id":1}', "orders")]


def test_permissive() -> None:
    """A body that does not parse has null fields, and is there in full if the schema names where."""
    corrupt = StructField("_corrupt_record", StringType())
    assert read(ValueOptions("json"), [ID], *RECORDS) == [(1,), (None,), (3,)]
    assert read(ValueOptions("json"), [ID, corrupt], *RECORDS) == [
        (1, None),
        (None, "x\N{REPLACEMENT CHARACTER}"),
        (3, None),
    ]


def test_dropmalformed() -> None:
    """A body that does not parse is left out, with all that its message has."""
    values = ValueOptions("json", DROPMALFORMED, metadata_columns=("queueOffset",))
    assert read(values, [ID, StructField("queueOffset", LongType())], *RECORDS) == [(1, 5), (3, 7)]
    assert read(values, [ID, StructField("queueOffset", LongType())], RECORDS[1]) == []


def test_failfast() -> None:
    """The first body that does not parse ends the read, and the error says where it is and what else could be done."""
    with pytest.raises(UnparsableBody, match="offset 6 of queue orders/broker-a/3 does not parse.*mode=PERMISSIVE"):
        read(ValueOptions("json", FAILFAST), [ID], *RECORDS)
    assert read(ValueOptions("json", FAILFAST), [ID], RECORDS[0]) == [(1,)]


@pytest.mark.parametrize(("mode", "rows"), [("PERMISSIVE", 3), (DROPMALFORMED, 2)])
def test_bad_records_are_kept(mode: str, rows: int) -> None:
    """Whatever the frame has of it, a body that does not parse is sent away as it was."""
    kept = Kept()
    assert len(read(ValueOptions("json", mode, "bad"), [ID], *RECORDS, kept=kept)) == rows
    ((queue, offset, body, reason),) = kept.records
    assert (queue, offset, body) == (QUEUE, 6, b"x\xff")
    assert "no JSON" in reason


def test_compressed_bodies() -> None:
    """Bodies are inflated before they are parsed."""
    body = compress(b'{"id":9}', SysFlag.COMPRESSION_ZLIB)
    assert read(ValueOptions("json"), [ID], record(1, body, SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB)) == [(9,)]


def test_text() -> None:
    """Text needs nothing but UTF-8, and shows where it is none."""
    line = StructField("line", StringType())
    assert read(ValueOptions("string"), [line], RECORDS[0]) == [('{"id":1}',)]
    assert read(ValueOptions("string"), [line], *RECORDS)[1] == ("x\N{REPLACEMENT CHARACTER}",)


def test_what_a_bad_record_says_of_itself() -> None:
    """Its key is where it was read, its properties say so in parts, and why."""
    sent = message("bad", BadRecord(QUEUE, 6, b"x", "no JSON:\x01\x02\ud800 " + "y" * 1_000))
    assert (sent.topic, sent.body, sent.keys) == ("bad", b"x", ["orders/broker-a/3/6"])
    reason = sent.properties["reason"]
    assert reason.startswith("no JSON:\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}")
    assert len(reason) == MAX_REASON_LETTERS
    encode_properties(sent.properties)
    assert {name: value for name, value in sent.properties.items() if name != "reason"} == {
        "sourceTopic": "orders",
        "sourceBroker": "broker-a",
        "sourceQueueId": "3",
        "sourceQueueOffset": "6",
    }


def test_bad_records_that_are_no_message() -> None:
    """A body that is larger than a message may be is cut and says so; an empty one becomes a blank."""
    large = message("bad", BadRecord(QUEUE, 6, b"x" * (MAX_SENT_BYTES + 1), "why"))
    assert (len(large.body), large.properties["bodyBytes"]) == (MAX_SENT_BYTES, str(MAX_SENT_BYTES + 1))
    assert message("bad", BadRecord(QUEUE, 6, b"", "why")).body == b" "

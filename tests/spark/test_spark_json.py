"""Bodies parsed by the source, beside Spark's own from_json."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rmqspark.client.browsing.body_schema import Sample, ddl
from rmqspark.client.producer import Producer
from rmqspark.model import Message

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Topic
    from pyspark.sql import DataFrame, SparkSession

    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.spark

DDL = (
    "a bigint, b double, s string, t timestamp, d date, e decimal(10,2), n struct<x:int,y:array<string>>, "
    "l array<bigint>, o boolean, i int, m map<string,int>, f float, y binary, tn timestamp_ntz, sh smallint, "
    "ls array<struct<x:int>>, g decimal(38,18), mg map<string,decimal(38,18)>, _corrupt_record string"
)
AGREED = [
    *('{"a":1,"b":2,"s":"x","o":true}', '{"a":-0}', '{"a":null}', "{}", '  {"a":1}  ', '{"a":\n1}', '{"A":5}'),
    *('{"a":1.0}', '{"a":"1"}', '{"a":1e2}', '{"a":true}', '{"a":""}', '{"a":[1]}', '{"a":9223372036854775808}'),
    *('{"i":2147483648}', '{"sh":40000}', '{"sh":4}', '{"a":01}', '{"a":1,"a":2}', '{"\\u0061":5}'),
    *('{"b":NaN}', '{"b":"NaN"}', '{"b":-Infinity}', '{"b":"-INF"}', '{"b":1e400}', '{"b":1e-400}', '{"b":"1"}'),
    *('{"b":123456789012345678901234567890}', '{"b":.5}', '{"f":0.1}', '{"f":16777217}', '{"f":1e39}'),
    *('{"b":-0}', '{"b":-0.0}', '{"f":-0}', '{"s":-0}', '{"n":{"x":-0}}'),
    *('{"o":"true"}', '{"o":1}', '{"o":false}'),
    *('{"s":1}', '{"s":1.50}', '{"s":true}', '{"s":{"q": 1, "r":[1,2.0]}}', '{"s":[1, "x"]}', '{"s":null}'),
    *('{"s":1e5}', '{"s":"\\ud800"}', '{"s":"\\ud83d\\ude00"}', '{"s":"a\tb"}', '{"s":"\\x"}', '{"s":"a\\u0000b"}'),
    *('{"t":"2024-01-01T10:00:00"}', '{"t":"2024-01-01T10:00:00Z"}', '{"t":"2024-01-01T10:00:00.123456789+02:00"}'),
    *('{"t":"2024-01-01 10:00:00+0200"}', '{"t":"2024-01-01T10:00:00+02"}', '{"t":"2024-1-1 1:2:3"}'),
    *('{"t":"2024-01-01T10:00:00 Europe/Berlin"}', '{"t":"2024-01-01T10:00:00 UTC"}', '{"t":" 2024-01-01 "}'),
    *('{"t":"2024-01"}', '{"t":"2024"}', '{"t":"2024-02-30"}', '{"t":"2024-01-01T24:00:00"}', '{"t":"x"}', '{"t":""}'),
    *('{"t":1700000000}', '{"t":1700000000.5}', '{"t":"1700000000"}'),
    *('{"tn":"2024-01-01T10:00:00"}', '{"tn":"2024-01-01T10:00:00Z"}', '{"tn":5}'),
    *('{"d":"2024-01-01"}', '{"d":"2024-1-1"}', '{"d":"2024-01-01T00:00:00"}', '{"d":"2024-01-01 10:00"}'),
    *('{"d":"2024-01"}', '{"d":19000}', '{"d":"2024-13-01"}', '{"d":""}'),
    *('{"e":"1.5"}', '{"e":1.255}', '{"e":-1.255}', '{"e":7}', '{"e":1e2}', '{"e":"1e2"}', '{"e":12345678.12}'),
    *('{"e":123456789.12}', '{"e":99999999.999}', '{"e":"abc"}', '{"e":NaN}', '{"e":" 1"}'),
    *('{"e":"1,234.5"}', '{"e":"1_0"}', '{"e":"\uff11"}', '{"e":"1."}', '{"b":"INF"}', '{"b":"+INF"}'),
    *('{"t":"2024-01-01T10:00:00.1234567890"}', '{"t":"2024-01-01T10:00:00+0:1"}', '{"t":"2024-01-01T10:00:00+1:60"}'),
    *('{"t":"2024-01-01T10:00:00 GMT+2"}', '{"t":"2024-01-01T10:00:00UT"}', '{"t":"2024-01-01T10:00:00 localtime"}'),
    *('{"t":"\\u00012024-01-01"}', '{"y":" aGVs\\r\\nbG8=\\n"}', '{"y":"aG\\nVsbG8="}', '{"y":"aGVsbG8"}'),
    *('{"g":10000000000.5}', '{"g":99999999999999999999.999999999999999999}', '{"mg":{"eur":-10000000000.5}}'),
    *('{"g":99999999999999999999.9999999999999999995}', '{"g":1e20}', '{"g":1e19}', '{"g":1e-400}'),
    *('{"b":1e99999999999999999999}', '{"zz":1e99999999999999999999}', '{"b":1e-99999999999999999999}'),
    *('{"g":1e99999999999999999999}', '{"g":1e-99999999999999999999}'),
    *('{"n":null,"l":null}', '{"n":{}, "l":[null]}', '{"n":{"x":"q","y":["a"]},"a":1}', '{"n":5,"a":1}'),
    *('{"n":[{"x":1}]}', '{"l":[1,"x"],"a":1}', '{"l":5}', '{"ls":[{"x":"q"},{"x":1}]}', '{"n":{"x":1,"zz":2}}'),
    *('{"m":{"a":1,"b":null}}', '{"m":{"a":"x","b":2},"a":1}', '{"m":[]}', '{"m":{"a":1,"a":2}}'),
    *('{"y":"aGVsbG8="}', '{"y":"***"}', '{"y":1}', '{"y":""}'),
    *("null", "1", '"x"', "x", "[]", "[1]", '[{"a":1},{"a":2}]', '{"a":1', '{"a":1,}', "{a:1}", '{"b":2, "a":tru}'),
    *('{"zz":NaN}', '{"zz":1e999999}', '{"zz":01}', '{"zz":"\\ud800"}', '{"a":5,"b":1.5,"q"}'),
]
DIFFERENT: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None]] = {  # from_json, ours
    '{"a":1} x': ({"a": 1}, None),
    '{"a":1}{"a":2}': ({"a": 1}, None),
    "{'a':1}": ({"a": 1}, None),
    '{"b":+INF}': ({"b": float("inf")}, None),
    '{"b":-INF}': ({"b": float("-inf")}, None),
    '{"a":"x","a":1}': ({"a": 1}, {"a": 1}),
    '{"s":NaN}': ({"s": '"NaN"'}, {"s": "NaN"}),
    '{"s":0.00001}': ({"s": "1.0E-5"}, {"s": "1e-05"}),
    '{"t":"2024-01-01T10:00:00 JST"}': ({"t": datetime(2024, 1, 1, 1)}, None),  # noqa: DTZ001
    '{"t":"2024-01-01T10:00Z"}': (None, {"t": datetime(2024, 1, 1, 10)}),  # noqa: DTZ001
    '{"s":1e7}': ({"s": "1.0E7"}, {"s": "10000000.0"}),
    " ": ({}, None),
}


def fitting(frame: DataFrame) -> dict[str, dict[str, Any] | None]:
    """What each body gave, nulls left out; None for one that did not parse, if nothing was left of it."""
    rows: dict[str, dict[str, Any] | None] = {}
    for row in frame.collect():
        values = {name: value for name, value in row.fields.asDict(recursive=True).items() if value is not None}
        bad = values.pop("_corrupt_record", None)
        assert bad in (None, row.body)
        rows[row.body] = values or None if bad else values
    return rows


@pytest.fixture
def utc(rmq_spark: SparkSession) -> Any:
    zone = rmq_spark.conf.get("spark.sql.session.timeZone")
    rmq_spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    rmq_spark.conf.set("spark.sql.session.timeZone", zone)


def test_what_agrees_with_from_json_and_what_does_not(topic: Topic, rmq_spark: SparkSession, utc: None) -> None:
    """A body gives what from_json makes of it, and does not parse where it does not; the differences are these."""
    topic.send(*AGREED, *DIFFERENT)
    theirs = fitting(
        topic.read("body binary")
        .select(F.expr("cast(body as string)").alias("body"))
        .select("body", F.from_json("body", DDL).alias("fields"))
        .where("fields is not null")
    )
    parsed = topic.read(f"{DDL}, body binary", valueFormat="json", metadataColumns="body")
    names = [name for name in parsed.columns if name != "body"]
    ours = fitting(parsed.select(F.expr("cast(body as string)").alias("body"), F.struct(*names).alias("fields")))
    theirs.setdefault(" ", {})  # from_json has null for it, which is neither
    for body in AGREED:
        assert repr(ours[body]) == repr(theirs[body]), body
    for body, (of_spark, of_ours) in DIFFERENT.items():
        assert (theirs[body], ours[body]) == (of_spark, of_ours), body


def test_a_stream_whose_bad_bodies_go_to_a_topic(topic: Topic, other: Topic, mq: LocalCluster, run: Any) -> None:
    """Fields and message columns in a stream; what does not parse is in the other topic when the batch is done."""
    with Producer(mq.namesrv) as producer:
        receipts = [
            producer.send(Message(topic.name, body, tags="paid"))
            for body in (b'{"id":1,"amount":2.5}', b"oops", b'{"id":2}')
        ]
    frame = topic.stream(
        "id bigint, amount double, tags string",
        valueFormat="json",
        mode="DROPMALFORMED",
        metadataColumns="tags",
        badRecordsTopic=other.name,
        startingOffsets="earliest",
    )
    rows = [tuple(row) for batch in run(frame).rows for row in batch]
    assert sorted(rows) == [(1, 2.5, "paid"), (2, None, "paid")]
    bad = receipts[1]
    (found,) = other.read("body binary, keys string, properties map<string,string>").collect()
    assert (bytes(found.body), found.keys) == (b"oops", f"{bad.queue}/{bad.queue_offset}")
    assert "no JSON" in found.properties["reason"]
    assert found.properties["sourceQueueOffset"] == str(bad.queue_offset)


def test_a_batch_whose_bad_bodies_go_to_a_topic(topic: Topic, other: Topic) -> None:
    """mode is PERMISSIVE by default: they are rows as well, with what was not understood where the schema wants it."""
    topic.send('{"id": 1}', "oops")
    frame = topic.read("id bigint, _corrupt_record string", valueFormat="json", badRecordsTopic=other.name)
    assert {tuple(row) for row in frame.collect()} == {(1, None), (None, "oops")}
    assert other.bodies() == ["oops"]


def test_text(topic: Topic, run: Any) -> None:
    """Text needs no schema, and takes the message's columns along, in a batch and in a stream."""
    topic.send("one", tags="t")
    text = {"valueFormat": "string", "metadataColumns": "tags"}
    assert [tuple(row) for row in topic.read(**text).collect()] == [("one", "t")]
    assert topic.read("line string", valueFormat="string").collect()[0].line == "one"
    batches = run(topic.stream(**text, startingOffsets="earliest"))
    assert [tuple(row) for rows in batches.rows for row in rows] == [("one", "t")]


def test_the_schema_found_is_sparks_own(rmq_spark: SparkSession, tmp_path: Path) -> None:
    """rmq topic schema finds the types that spark.read.json infers from the same bodies."""
    bodies = [
        '{"a":1,"b":2.5,"c":"x","d":true,"e":null,"f":[1,2],"g":{"x":1},"h":1,"i":9223372036854775808,"j":[]}',
        '{"a":2.5,"b":1,"c":5,"d":"no","e":1,"f":[2.5],"g":{"y":"q"},"h":"x","i":5,"k l":[{"m":1},{"n":[true]}]}',
    ]
    (tmp_path / "bodies.json").write_text("\n".join(bodies))
    sample = Sample()
    for body in bodies:
        sample.add(body.encode())
    inferred = rmq_spark.read.json(str(tmp_path)).schema
    found = StructType.fromDDL(ddl(sample.fields))
    assert sorted(found, key=lambda field: field.name) == sorted(inferred, key=lambda field: field.name)


def test_mistakes_are_told_before_anything_runs(topic: Topic) -> None:
    """No schema, a column that the schema lacks, a topic that is not there: each error says what to write."""
    topic.send("oops")
    with pytest.raises(Exception, match=f"needs the fields of the bodies.*rmq topic schema {topic.name}"):
        topic.read(valueFormat="json")
    with pytest.raises(Exception, match="metadataColumns names 'tags', the schema does not.*write tags string"):
        topic.read("id bigint", valueFormat="json", metadataColumns="tags").count()
    with pytest.raises(Exception, match="'nowhere' does not exist. badRecordsTopic must be there"):
        topic.read("id bigint", valueFormat="json", badRecordsTopic="nowhere").count()
    with pytest.raises(Exception, match=f"offset 0 of queue {topic.name}/.*does not parse"):
        topic.read("id bigint", valueFormat="json", mode="FAILFAST").count()

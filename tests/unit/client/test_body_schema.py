"""The schema that `rmq topic schema` finds in bodies."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from rmqspark.client.browsing.body_schema import Sample, ddl, kind_of, merged, one_case
from rmqspark.source.values.json_bodies import JsonBodies


def sample(*bodies: bytes) -> Sample:
    found = Sample()
    for body in bodies:
        found.add(body)
    return found


@pytest.mark.parametrize(
    ("documents", "schema"),
    [
        ([{"id": 1, "amount": 2.5, "name": "x", "ok": True}], "id bigint, amount double, name string, ok boolean"),
        ([{"a": 1}, {"a": 2.5}], "a double"),
        ([{"a": 1}, {"a": "x"}], "a string"),
        ([{"a": True}, {"a": 1}], "a string"),
        ([{"a": None}, {"a": 1}], "a bigint"),
        ([{"a": None}], "a string"),
        ([{"a": 1}, {"b": 2}], "a bigint, b bigint"),
        ([{"a": 1 << 63}], "a decimal(19,0)"),
        ([{"a": 1 << 70}, {"a": 5}], "a decimal(22,0)"),
        ([{"a": 1 << 63}, {"a": 5}], "a decimal(20,0)"),
        ([{"a": 10**50}], "a double"),
        ([{"a": [1, 2]}, {"a": []}], "a array<bigint>"),
        ([{"a": []}], "a array<string>"),
        ([{"a": [{"x": 1}, {"y": "q"}]}], "a array<struct<x: bigint, y: string>>"),
        ([{"a": {"x": 1}}, {"a": {"x": None, "y": [1.5]}}], "a struct<x: bigint, y: array<double>>"),
        ([{"a": {"x": 1}}, {"a": 5}], "a string"),
        ([{"a": {}}], "a string"),
        ([{"order id": 1, "b`c": 2, "ä": {"x-y": 3}}], "`order id` bigint, `b``c` bigint, `ä` struct<`x-y`: bigint>"),
    ],
)
def test_what_is_found(documents: list[Any], schema: str) -> None:
    """Each field has the narrowest type that holds all of its values."""
    assert ddl(sample(*(json.dumps(document).encode() for document in documents)).fields) == schema


def test_the_order_of_bodies_does_not_matter() -> None:
    """Types are the same whichever body came first."""
    values = [None, True, 1, 1 << 65, 1.5, "x", [1], [None], {"a": 1}, {"b": 2}]
    for one in map(kind_of, values):
        for other in map(kind_of, values):
            assert merged(one, other) == merged(other, one)


def test_bodies_that_are_no_objects() -> None:
    """They are counted, and do not disturb the others."""
    found = sample(b'{"a":1}', b"x", b"[1]", b"\xff", b"[" * 100_000, b'{"a":null,"b":1}')
    assert (found.bodies, found.not_objects, ddl(found.fields)) == (6, 4, "a bigint, b bigint")
    assert found.present == {"a": 2, "b": 1}


def test_bodies_are_read_as_spark_s_source_reads_them() -> None:
    """As UTF-8, with a sign in the place of what is none: no other encoding is looked for, nor a byte order mark."""
    bodies = [b'{"a":"\xff"}', '{"b":1}'.encode("utf-16"), '{"c":1}'.encode("utf-8-sig")]
    found = sample(*bodies)
    assert (found.bodies, found.not_objects, ddl(found.fields)) == (3, 2, "a string")
    assert list(JsonBodies(StructType().add("a", "string")).parse(pa.array(bodies, pa.binary())).bad) == [1, 2]


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_what_is_nested_deeply_is_a_string_there(opening: bytes, closing: bytes) -> None:
    """A body of a few hundred brackets, from whoever may send, keeps nobody from the schema of the others."""
    found = sample(*(b'{"a":' + opening * depth + b"1" + closing * depth + b"}" for depth in (63, 500, 900)))
    assert found.not_objects == 0
    assert ddl(found.fields).count("<") == 63
    assert ddl(found.fields).endswith("string" + ">" * 63)


def test_a_name_that_is_no_unicode() -> None:
    """JSON may escape half of a character, which no UTF-8 holds: it is shown as a question mark."""
    found = sample(rb'{"a\ud800": {"\ud800": 1}}')
    assert ddl(found.fields) == "`a?` struct<`?`: bigint>"
    assert found.present == {"a?": 1}


def test_names_that_differ_in_case_alone() -> None:
    """Spark refuses a schema with both: the first is in it, and the others are told."""
    found = sample(b'{"id": 1, "a": {"x": 1}}', b'{"ID": "x", "a": {"X": 2, "y": [{"z": 1, "Z": 2}]}}')
    fields, left_out = one_case(found.fields)
    assert ddl(fields) == "id bigint, a struct<x: bigint, y: array<struct<z: bigint>>>"
    assert left_out == ["a.X", "a.y.Z", "ID"]
    assert one_case(fields) == (fields, [])

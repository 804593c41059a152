"""What bodies may be read as, and what each mistake is answered with."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from rmqspark.errors import InvalidArgument
from rmqspark.source.options import SourceOptions, read_options
from rmqspark.source.values.schema import COLUMNS, default_schema
from rmqspark.source.values.value_options import DROPMALFORMED, FAILFAST, ValueOptions
from rmqspark.source.values.value_schema import ValueSchema, check_read_schema, default_read_schema


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({}, None),
        ({"valueFormat": "binary"}, None),
        ({"valueFormat": "string"}, ValueOptions("string")),
        ({"valueFormat": "JSON", "mode": "failfast"}, ValueOptions("json", FAILFAST)),
        (
            {
                "valueformat": "json",
                "MODE": "DropMalformed",
                "badRecordsTopic": "bad",
                "metadataColumns": "topic, tags",
            },
            ValueOptions("json", DROPMALFORMED, "bad", ("topic", "tags")),
        ),
    ],
)
@pytest.mark.parametrize("streaming", [True, False])
def test_what_can_be_asked_for(given: dict[str, str], meant: ValueOptions | None, streaming: bool) -> None:
    """Bodies as they are, as text, or as JSON with all that belongs to it."""
    assert SourceOptions.parse({"subscribe": "t"} | given, streaming=streaming).values == meant


@pytest.mark.parametrize(
    ("given", "story"),
    [
        ({"valueFormat": "xml"}, "binary, json, string is accepted"),
        ({"mode": "PERMISSIVE"}, "'mode' has no meaning with valueFormat=binary"),
        ({"valueFormat": "string", "mode": "PERMISSIVE"}, "'mode' has no meaning with valueFormat=string"),
        ({"valueFormat": "string", "badRecordsTopic": "b"}, "'badRecordsTopic' has no meaning"),
        ({"metadataColumns": "tags"}, "'metadataColumns' has no meaning"),
        ({"valueFormat": "json", "mode": "STRICT"}, "PERMISSIVE, DROPMALFORMED, FAILFAST is accepted"),
        ({"valueFormat": "json", "badRecordsTopic": "a b"}, "characters that are not allowed"),
        (
            {"valueFormat": "json", "badRecordsTopic": "%RETRY%g"},
            "'badRecordsTopic'.*for messages that consumers of its",
        ),
        ({"valueFormat": "json", "badRecordsTopic": "b", "mode": "FAILFAST"}, "no meaning with mode=FAILFAST"),
        ({"valueFormat": "json", "badRecordsTopic": "t"}, "come back for ever"),
        ({"valueFormat": "json", "metadataColumns": "offset"}, "no column 'offset'; did you mean 'queueOffset'"),
        ({"valueFormat": "json", "metadataColumns": "queueoffset"}, "did you mean 'queueOffset'"),
    ],
)
def test_mistakes_are_named(given: dict[str, str], story: str) -> None:
    """An option without a meaning, or one that contradicts another, is an error before anything is read."""
    with pytest.raises(InvalidArgument, match=story):
        SourceOptions.parse({"subscribe": "t"} | given, streaming=False)


def test_a_queue_that_is_assigned_is_read_too() -> None:
    """What does not parse cannot go to a topic of which the query reads a queue."""
    given = {"assign": '{"t":{"b":[0]}}', "valueFormat": "json", "badRecordsTopic": "t"}
    with pytest.raises(InvalidArgument, match="come back for ever"):
        SourceOptions.parse(given, streaming=True)


def test_the_columns_of_a_read_that_names_none() -> None:
    """Text has a column by itself, and the message's own behind it; JSON asks for its fields, and says who knows."""
    assert default_read_schema(read_options({"subscribe": "t"})) == default_schema()
    text = read_options({"subscribe": "t", "valueFormat": "string", "metadataColumns": "tags,queueId"})
    assert default_read_schema(text).simpleString() == "struct<body:string,tags:string,queueId:int>"
    with pytest.raises(InvalidArgument, match=r"needs the fields of the bodies.*\.schema\(.*rmq topic schema orders"):
        default_read_schema(read_options({"subscribe": "orders", "valueFormat": "json"}))
    with pytest.raises(InvalidArgument, match="'body' is the text"):
        default_read_schema(read_options({"subscribe": "t", "valueFormat": "string", "metadataColumns": "body"}))


def schema(*fields: StructField) -> StructType:
    return StructType(list(fields))


ID = StructField("id", LongType())
JSON = ValueOptions("json", metadata_columns=("queueOffset",))
OFFSET = StructField("queueOffset", COLUMNS["queueOffset"])


def test_which_names_are_fields_of_the_body() -> None:
    """All are, also those that the message has too, but for what metadataColumns names and the bodies that are bad."""
    wanted = schema(ID, StructField("topic", StringType()), OFFSET, StructField("_corrupt_record", StringType()))
    parts = ValueSchema.of(check_read_schema(wanted, JSON), JSON)
    assert parts.fields.fieldNames() == ["id", "topic"]
    assert parts.metadata.fieldNames() == ["queueOffset"]
    assert parts.corrupt_record


@pytest.mark.parametrize(
    ("wanted", "values", "story"),
    [
        (schema(ID), JSON, "metadataColumns names 'queueOffset', the schema does not.*write queueOffset bigint behind"),
        (schema(ID, StructField("queueOffset", StringType())), JSON, "'queueOffset' is bigint, not string"),
        (schema(OFFSET), JSON, "names no field of the bodies"),
        (schema(ID, ID, OFFSET), JSON, "names 'id' twice"),
        (schema(ID, OFFSET, StructField("_corrupt_record", LongType())), JSON, "'_corrupt_record' is the body"),
        (schema(StructField("id", LongType(), nullable=False)), ValueOptions("json"), "'id' may be null"),
        (
            schema(StructField("a", ArrayType(LongType(), containsNull=False))),
            ValueOptions("json"),
            r"'a\[\]' may be null",
        ),
        (
            schema(StructField("s", schema(StructField("gap", DayTimeIntervalType())))),
            ValueOptions("json"),
            "'s.gap' is interval day to second, which is not read from JSON",
        ),
        (schema(StructField("m", MapType(IntegerType(), LongType()))), ValueOptions("json"), "names in a JSON object"),
        (schema(ID), ValueOptions("string"), "gives one column, a string"),
        (schema(StructField("a", StringType()), StructField("b", StringType())), ValueOptions("string"), "one column"),
    ],
)
def test_schemas_that_bodies_cannot_give(wanted: StructType, values: ValueOptions, story: str) -> None:
    """A schema that could not be filled is an error that names the field."""
    with pytest.raises(InvalidArgument, match=story):
        check_read_schema(wanted, values)


def test_without_a_format_the_schema_selects_columns() -> None:
    """Bodies that come as they are have no fields."""
    with pytest.raises(InvalidArgument, match="no column 'id'"):
        check_read_schema(schema(ID), None)

"""A schema whose names are fields of message bodies: which of them are, and whether bodies can give them.

Spark makes the schema that a user names the schema of the frame, and lets no source add to it. So what is wanted of the
message itself stands in the schema too, and option metadataColumns says which of the names these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rmqspark.errors import InvalidArgument
from rmqspark.source.values.schema import COLUMNS, check_schema, default_schema
from rmqspark.source.values.value_options import ValueOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CORRUPT_RECORD = "_corrupt_record"

_SIMPLE = (
    BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, ShortType,
    StringType, TimestampNTZType, TimestampType,
)  # fmt: skip


class ValueSchema(NamedTuple):
    """The parts of a checked schema: fields of the body, columns of the message, and whether bad bodies are wanted."""

    fields: StructType
    metadata: StructType
    corrupt_record: bool

    @classmethod
    def of(cls, schema: StructType, values: ValueOptions) -> ValueSchema:
        """Sorts the names of a schema that `check_read_schema` has passed."""
        wanted, kept_apart = set(values.metadata_columns), _kept_apart(values)
        return cls(
            StructType([field for field in schema if field.name not in wanted | kept_apart]),
            StructType([field for field in schema if field.name in wanted]),
            any(field.name in kept_apart for field in schema),
        )


def default_read_schema(values: Mapping[str, Any]) -> StructType:
    """The schema of a read that names none, from options as read: JSON bodies have none. InvalidArgument."""
    parsed = ValueOptions.of(values)
    if parsed is None:
        return default_schema()
    if parsed.format == "string":
        if "body" in parsed.metadata_columns:
            raise InvalidArgument("Column 'body' is the text.", hint='Name it: .schema("line string, body binary").')
        columns = [StructField(name, COLUMNS[name]) for name in parsed.metadata_columns]
        return StructType([StructField("body", StringType()), *columns])
    topic = values.get("subscribe", ("TOPIC",))[0]
    raise InvalidArgument(
        "valueFormat=json needs the fields of the bodies.",
        hint=f'Name them: .schema("id bigint, amount double"). rmq topic schema {topic} prints what fits its messages.',
    )


def check_read_schema(schema: StructType, values: ValueOptions | None) -> StructType:
    """Returns `schema` if bodies and the message's own columns can give it; else raises InvalidArgument."""
    if values is None:
        return check_schema(schema)
    _check_names(schema, values.metadata_columns)
    parts = ValueSchema.of(schema, values)
    if parts.metadata.fields:
        check_schema(parts.metadata)
    if values.format == "string":
        _check_text(parts.fields)
    elif not parts.fields.fields:
        raise InvalidArgument("The schema names no field of the bodies.", hint="Leave valueFormat out to read none.")
    for field in schema:
        if field.name not in values.metadata_columns:
            _check_kind(field.dataType, field.name, nullable=field.nullable)
    if parts.corrupt_record and not isinstance(schema[CORRUPT_RECORD].dataType, StringType):
        raise InvalidArgument(f"{CORRUPT_RECORD!r} is the body that did not parse: a string.")
    return schema


def _check_names(schema: StructType, metadata_columns: Sequence[str]) -> None:
    named = schema.fieldNames()
    for name in named:
        if named.count(name) > 1:
            raise InvalidArgument(f"The schema names {name!r} twice.")
    if missing := [name for name in metadata_columns if name not in named]:
        columns = ", ".join(f"{name} {COLUMNS[name].simpleString()}" for name in missing)
        raise InvalidArgument(
            f"metadataColumns names {missing[0]!r}, the schema does not.",
            hint=f"Spark lets no source add columns to a schema: write {columns} behind the fields.",
        )


def _check_text(fields: StructType) -> None:
    if len(fields) != 1 or not isinstance(fields[0].dataType, StringType):
        raise InvalidArgument(
            "valueFormat=string gives one column, a string.",
            hint='Name it as you like: .schema("line string"), and columns of the message in metadataColumns.',
        )


def _check_kind(kind: DataType, place: str, *, nullable: bool) -> None:
    """Raises InvalidArgument for a type that is not read from JSON, or one that must not be null."""
    if not nullable:
        raise InvalidArgument(f"Field {place!r} may be null: a body need not have it.", hint="Drop NOT NULL.")
    if isinstance(kind, StructType):
        for field in kind:
            _check_kind(field.dataType, f"{place}.{field.name}", nullable=field.nullable)
    elif isinstance(kind, ArrayType):
        _check_kind(kind.elementType, f"{place}[]", nullable=kind.containsNull)
    elif isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise InvalidArgument(f"Field {place!r}: the names in a JSON object are strings.")
        _check_kind(kind.valueType, f"{place}{{}}", nullable=kind.valueContainsNull)
    elif not isinstance(kind, _SIMPLE):
        raise InvalidArgument(
            f"Field {place!r} is {kind.simpleString()}, which is not read from JSON.", hint="Read it as a string."
        )


def _kept_apart(values: ValueOptions) -> set[str]:
    return {CORRUPT_RECORD} if values.format == "json" else set()

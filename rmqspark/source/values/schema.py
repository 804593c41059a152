"""The columns the source gives, and the check of a schema that asks for some of them.

PySpark offers a Python source one projection only: the schema the user names. So a schema must name columns of this
table, with their types; what it does not name costs nothing.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rmqspark.errors import InvalidArgument
from rmqspark.options import most_like

_ALWAYS: dict[str, DataType] = {
    "topic": StringType(),
    "brokerName": StringType(),
    "queueId": IntegerType(),
    "queueOffset": LongType(),
    "msgId": StringType(),
    "tags": StringType(),
    "keys": StringType(),
    "body": BinaryType(),
    "properties": MapType(StringType(), StringType()),
    "bornTimestamp": TimestampType(),
    "storeTimestamp": TimestampType(),
    "reconsumeTimes": IntegerType(),
    "flag": IntegerType(),
}
_WHEN_NAMED: dict[str, DataType] = {"offsetMsgId": StringType()}
COLUMNS = _ALWAYS | _WHEN_NAMED
MAY_BE_NULL = frozenset({"tags", "keys", "bornTimestamp"})
_OF_KAFKA = {
    "key": "keys",
    "value": "body",
    "partition": "queueId",
    "offset": "queueOffset",
    "timestamp": "storeTimestamp",
    "headers": "properties",
}
_OF_TYPES = "Name it with its own type and cast it in Spark."
_OF_TIMES = "A time is timestamp_ltz; that is what timestamp means, unless spark.sql.timestampType says otherwise."


def default_schema() -> StructType:
    """The thirteen columns of a read that names none."""
    return StructType([StructField(name, kind) for name, kind in _ALWAYS.items()])


def check_schema(schema: StructType) -> StructType:
    """Returns `schema` if it is a selection of the columns, each once, with its type; else raises InvalidArgument."""
    if not schema.fields:
        raise InvalidArgument("The schema names no column.", hint=f"There are: {', '.join(COLUMNS)}.")
    seen: set[str] = set()
    for field in schema.fields:
        _check_field(field)
        if field.name in seen:
            raise InvalidArgument(f"The schema names column {field.name!r} twice.")
        seen.add(field.name)
    return schema


def _check_field(field: StructField) -> None:
    kind = COLUMNS.get(field.name)
    if kind is None:
        raise InvalidArgument(f"The rmq source has no column {field.name!r}.", hint=_suggestion(field.name))
    if _without_nullability(field.dataType) != _without_nullability(kind):
        raise InvalidArgument(
            f"Column {field.name!r} is {kind.simpleString()}, not {field.dataType.simpleString()}.",
            hint=_OF_TIMES if isinstance(field.dataType, TimestampNTZType) else _OF_TYPES,
        )
    if not field.nullable and field.name in MAY_BE_NULL:
        raise InvalidArgument(f"Column {field.name!r} may be null: a message need not have it.", hint="Drop NOT NULL.")


def _without_nullability(kind: DataType) -> DataType:
    return MapType(kind.keyType, kind.valueType) if isinstance(kind, MapType) else kind


def nearest_column(name: str) -> str | None:
    """The column that is meant by a name that is none: Kafka's source has it under that one, or it is alike."""
    return _OF_KAFKA.get(name.lower()) or most_like(name, COLUMNS)


def _suggestion(name: str) -> str:
    nearest = nearest_column(name)
    return f"Did you mean {nearest!r}?" if nearest else f"There are: {', '.join(COLUMNS)}."

"""The columns the sink takes, and the check of a DataFrame against them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from rmqspark.errors import InvalidArgument
from rmqspark.options import most_like

if TYPE_CHECKING:
    from rmqspark.sink.options import SinkOptions

_STRING = ("string", (StringType,))
_BODY_KINDS = (StringType, BinaryType)
_BODY = ("string or binary", _BODY_KINDS)
_NESTED = (StructType, ArrayType, MapType, VariantType)
_INTEGER = ("int or bigint", (IntegerType, LongType, ShortType))
_ACCEPTED: dict[str, tuple[str, tuple[type[DataType], ...]]] = {
    "body": _BODY,
    "value": _BODY,
    "topic": _STRING,
    "tags": _STRING,
    "keys": ("string or array<string>", (StringType, ArrayType)),
    "shardingKey": _STRING,
    "queueId": _INTEGER,
    "properties": ("map<string,string>", (MapType,)),
    "delayLevel": _INTEGER,
    "deliverTime": ("timestamp, or bigint in ms", (TimestampType, LongType)),
}
SOURCE_ONLY = frozenset(
    {
        "brokerName",
        "queueOffset",
        "msgId",
        "offsetMsgId",
        "bornTimestamp",
        "storeTimestamp",
        "reconsumeTimes",
        "flag",
    }
)
WRITTEN_COLUMNS = tuple(_ACCEPTED)
_ALIKE = 0.65  # below it is what has nothing to do with it, as price with topic
_NAME_A_TOPIC = (
    'Name it: .option("topic", "orders"), or a column topic. Spark keeps no options of a catalog table: '
    "INSERT INTO t WITH (namesrv '…', path 'orders') …, or a temporary view."
)
_OF_KAFKA = {
    "key": "Did you mean 'shardingKey', by which a queue is chosen, or 'keys', by which messages are found?",
    "partition": "Did you mean 'queueId', with option partitioner=column?",
    "headers": "Did you mean 'properties', a map<string,string>?",
}


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raises InvalidArgument, naming the column, for a DataFrame that the sink cannot write as it is."""
    for field in schema.fields:
        _check_column(field.name, field.dataType)
    names = set(schema.fieldNames())
    if len(names) < len(schema):  # which Spark would find out in each task
        twice = next(name for name in schema.fieldNames() if schema.fieldNames().count(name) > 1)
        raise InvalidArgument(f"There are two columns {twice!r}; keep one of them.")
    if not names & {"body", "value"}:
        raise InvalidArgument("There is no column to write.", hint="Name it body (or value): df.select(... AS body).")
    if {"body", "value"} <= names:
        raise InvalidArgument("Columns 'body' and 'value' mean the same; keep one of them.")
    if options.topic is None and "topic" not in names:
        raise InvalidArgument("No topic to write to.", hint=_NAME_A_TOPIC)
    if options.partitioner == "column" and "queueId" not in names:
        raise InvalidArgument("partitioner=column needs a column 'queueId'.")


def _check_column(name: str, kind: DataType) -> None:
    if name in SOURCE_ONLY:
        return
    if name not in _ACCEPTED:
        raise InvalidArgument(f"The rmq sink knows no column {name!r}.", hint=_suggestion(name))
    expected, kinds = _ACCEPTED[name]
    if not isinstance(kind, kinds) or not _holds_strings(kind):
        is_document = kinds is _BODY_KINDS and isinstance(kind, _NESTED)
        hint = f"Make it JSON: to_json({name}) AS {name}." if is_document else "Cast it first."
        raise InvalidArgument(f"Column {name!r} must be {expected}, not {kind.simpleString()}.", hint=hint)


def _holds_strings(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return isinstance(kind.elementType, StringType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    return True


def _suggestion(name: str) -> str:
    if name in _OF_KAFKA:
        return _OF_KAFKA[name]
    nearest = most_like(name, WRITTEN_COLUMNS, cutoff=_ALIKE)
    wish = f"Did you mean {nearest!r}? " if nearest else ""
    return f"{wish}Put it into body (to_json(struct(...))) or properties, or drop it."

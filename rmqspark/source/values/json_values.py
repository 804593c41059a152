"""One JSON document at a time into values of a Spark schema: the slower path of `json_bodies`, which decides.

What fits and what does not is Spark's from_json (JacksonParser): a number is not read from a string, nor a long from
1.0; a field that does not fit is null and the others stay. tests/spark/test_spark_json.py has the table of what agrees
and what does not.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rmqspark.source.values.json_times import BLANKS, days_since_1970, microseconds_since_1970

Convert = Callable[[Any], Any]

_WHOLE: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_NO_NUMBERS = {
    "NaN": float("nan"),
    **dict.fromkeys(("Infinity", "+INF", "+Infinity"), float("inf")),
    **dict.fromkeys(("-Infinity", "-INF"), float("-inf")),
}
_EXACT = Context(prec=39)  # a decimal of Spark has 38 digits at most, and rounding up can add one that is too many
_BASE64_BLANKS = re.compile(r"([^\0- ]{4})[\0- ]*")  # MIME breaks lines between groups of four letters
_SHOWN = 40  # of a value that does not fit


class Unfit(ValueError):
    """A value that its field cannot hold: why, where, and what is left of it (a struct keeps the fields that fit)."""

    def __init__(self, story: str, path: tuple[str, ...] = (), partial: Any = None) -> None:
        super().__init__(story)
        self.story = story
        self.path = path
        self.partial = partial

    @property
    def reason(self) -> str:
        """`customer.age: "x" is no int`, as a text that can be sent."""
        return _encodable(f"{'.'.join(self.path)}: {self.story}" if self.path else self.story)

    def inside(self, name: str, partial: Any = None) -> Unfit:
        """The same, of whatever holds the value under `name`."""
        return Unfit(self.story, (name, *self.path), partial)


def document_reader(fields: StructType) -> Callable[[bytes], dict[str, Any]]:
    """What turns a body into the values of `fields`, missing ones None: timestamps in µs, dates in days since 1970.

    It raises Unfit for a body that does not parse; `partial` then has what does, if anything.
    """
    convert = _struct(fields)
    parse_float = _exact_number if _has_decimals(fields) else None

    def read(body: bytes) -> dict[str, Any]:
        try:
            values: dict[str, Any] = convert(parsed(body))
        except RecursionError:  # what is read at this depth may not be written any more, as a text or in an error
            raise Unfit("it is nested too deeply") from None
        return values

    def parsed(body: bytes) -> dict[str, Any]:
        try:
            document = json.loads(body.decode("utf-8", "replace"), parse_float=parse_float)
        except ValueError as error:
            raise Unfit(f"it is no JSON: {error}") from None
        if not isinstance(document, dict):
            raise Unfit("it is no JSON object")
        return document

    return read


def _exact_number(text: str) -> Decimal | float:
    """A number with all its digits, or, where its exponent is beyond what a Decimal can have, 0 or infinity."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return float(text)


def _converter(kind: DataType) -> Convert:
    if isinstance(kind, StructType):
        return _struct(kind)
    if isinstance(kind, ArrayType):
        return _array(_converter(kind.elementType))
    if isinstance(kind, MapType):
        return _map(_converter(kind.valueType))
    if isinstance(kind, DecimalType):
        return _decimal(kind.precision, kind.scale)
    if type(kind) in _WHOLE:
        return _whole(_WHOLE[type(kind)], kind.simpleString())
    return _SIMPLE[type(kind)]


def _struct(fields: StructType) -> Convert:
    converters = [(field.name, _converter(field.dataType)) for field in fields]

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _unfit(value, "object")
        values: dict[str, Any] = {}
        first: Unfit | None = None
        for name, of_field in converters:
            given = value.get(name)
            try:
                values[name] = None if given is None else of_field(given)
            except Unfit as unfit:
                values[name] = unfit.partial
                first = first or unfit.inside(name, values)
        if first is not None:
            raise first
        return values

    return convert


def _array(of_item: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _unfit(value, "array")
        items: list[Any] = []
        _collect(((str(place), item) for place, item in enumerate(value)), of_item, items, lambda _, item: item)
        return items

    return convert


def _map(of_value: Convert) -> Convert:
    def convert(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise _unfit(value, "object")
        pairs: list[tuple[str, Any]] = []
        _collect(value.items(), of_value, pairs, lambda name, item: (_encodable(name), item))
        return pairs

    return convert


def _collect(
    given: Iterable[tuple[str, Any]], convert: Convert, into: list[Any], entry: Callable[[str, Any], Any]
) -> None:
    """Converts every item, or raises Unfit: with all of them if those that did not fit were structs, which are kept in
    part, else with none."""
    first: Unfit | None = None
    for name, item in given:
        try:
            into.append(entry(name, None if item is None else convert(item)))
        except Unfit as unfit:
            if unfit.partial is None:
                raise unfit.inside(name) from None
            into.append(entry(name, unfit.partial))
            first = first or unfit.inside(name, into)
    if first is not None:
        raise first


def _whole(bits: int, kind: str) -> Convert:
    bound = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if type(value) is int and -bound <= value < bound:
            return value
        raise _unfit(value, kind)

    return convert


def _decimal(precision: int, scale: int) -> Convert:
    bound, unit = Decimal(10) ** (precision - scale), Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, (int, Decimal, str)):
            raise _unfit(value, f"decimal({precision},{scale})")
        try:
            exact = Decimal(_digits(value) if isinstance(value, str) else value)
            fits = exact.is_finite() and exact.copy_abs() < bound
            rounded = exact.quantize(unit, ROUND_HALF_UP, _EXACT) if fits else exact
        except InvalidOperation:
            raise _unfit(value, f"decimal({precision},{scale})") from None
        if not fits or rounded.copy_abs() >= bound:
            raise _unfit(value, f"decimal({precision},{scale})")
        return rounded

    return convert


def _digits(text: str) -> str:
    """What Java's BigDecimal is given by Spark: no commas. Of what Python takes, it takes no blanks and underscores."""
    if "_" in text or text != text.strip():
        raise InvalidOperation
    return text.replace(",", "")


def _double(value: Any) -> float:
    if isinstance(value, str):
        if value in _NO_NUMBERS:
            return _NO_NUMBERS[value]
    elif isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    raise _unfit(value, "double")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _unfit(value, "boolean")


def _string(value: Any) -> str:
    """Anything has a text: what is no string keeps its JSON."""
    text = value if isinstance(value, str) else _json(value)
    return _encodable(text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)  # float: a Decimal


def _encodable(text: str) -> str:
    """Half a surrogate pair, which JSON can escape and UTF-8 cannot hold, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _binary(value: Any) -> bytes:
    if not isinstance(value, str):
        raise _unfit(value, "Base64")
    try:
        return base64.b64decode(_BASE64_BLANKS.sub(r"\1", value.lstrip(BLANKS)), validate=True)
    except ValueError:
        raise _unfit(value, "Base64") from None


def _date(value: Any) -> int:
    days = days_since_1970(value) if isinstance(value, str) else None
    if days is None:
        raise _unfit(value, "date")
    return days


def _timestamp(value: Any) -> int:
    """A whole number is seconds since 1970."""
    if type(value) is int and abs(value) < 1 << 43:
        return value * 1_000_000
    microseconds = microseconds_since_1970(value, zoned=True) if isinstance(value, str) else None
    if microseconds is None:
        raise _unfit(value, "timestamp")
    return microseconds


def _timestamp_ntz(value: Any) -> int:
    microseconds = microseconds_since_1970(value, zoned=False) if isinstance(value, str) else None
    if microseconds is None:
        raise _unfit(value, "timestamp_ntz")
    return microseconds


_SIMPLE: dict[type[DataType], Convert] = {
    BooleanType: _boolean,
    FloatType: _double,
    DoubleType: _double,
    StringType: _string,
    BinaryType: _binary,
    DateType: _date,
    TimestampType: _timestamp,
    TimestampNTZType: _timestamp_ntz,
}


def _has_decimals(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_decimals(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _has_decimals(kind.elementType)
    return _has_decimals(kind.valueType) if isinstance(kind, MapType) else isinstance(kind, DecimalType)


def _unfit(value: Any, kind: str) -> Unfit:
    shown = _json(value)
    return Unfit(f"{shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + '…'} is no {kind}")

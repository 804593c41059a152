"""JSON bodies as columns: the fast way, the slow way, and that they are the same."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
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

from rmqspark.source.values.json_bodies import BLOCK_ROWS, JsonBodies

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from rmqspark.source.values.json_bodies import Parsed


def fields(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


FAST = fields(
    i=IntegerType(),
    l=LongType(),
    d=DoubleType(),
    f=FloatType(),
    s=StringType(),
    b=BooleanType(),
    e=DecimalType(10, 2),
    t=TimestampType(),
    day=DateType(),
    n=fields(x=ShortType(), y=ArrayType(StringType())),
    a=ArrayType(LongType()),
)
SLOW = fields(m=MapType(StringType(), IntegerType()), y=BinaryType(), tn=TimestampNTZType(), n=fields(day=DateType()))


def parse(kinds: StructType, *bodies: bytes) -> Parsed:
    parsed = JsonBodies(kinds).parse(pa.array(bodies, pa.binary()))
    for column in parsed.columns:
        column.validate(full=True)
        assert len(column) == len(bodies)
    return parsed


def rows(kinds: StructType, *bodies: bytes) -> list[dict[str, Any]]:
    """What each body has, nulls left out."""
    columns = [column.to_pylist() for column in parse(kinds, *bodies).columns]
    return [
        {name: value for name, value in zip(kinds.fieldNames(), row, strict=True) if value is not None}
        for row in zip(*columns, strict=True)
    ]


NOON = datetime(2024, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b'{"i":1,"l":-5,"d":2,"s":"x","b":true}', {"i": 1, "l": -5, "d": 2.0, "s": "x", "b": True}),
        (b'{"e":1.5,"t":"2024-01-02T12:00:00Z"}', {"e": Decimal("1.50"), "t": NOON}),
        (b'{"t":"2024-01-02T14:00:00+02:00","day":"2024-01-02"}', {"t": NOON, "day": date(2024, 1, 2)}),
        (b'{"t":1704196800}', {"t": NOON}),
        (b'{"n":{"x":3,"y":["a",null]},"a":[1,2]}', {"n": {"x": 3, "y": ["a", None]}, "a": [1, 2]}),
        (b'{"unknown":{"i":7}}', {}),
        (b'{\n  "i": 1\n}', {"i": 1}),
        (b'{"i":1,"i":2}', {"i": 2}),
        (b'{"s":5}', {"s": "5"}),
        (b'{"s":{"q": [1, 2.5]}}', {"s": '{"q":[1,2.5]}'}),
        (b'{"s":"\\ud800"}', {"s": "?"}),
        (b'{"s":"\xff"}', {"s": "\N{REPLACEMENT CHARACTER}"}),
        (b'{"e":1.255}', {"e": Decimal("1.26")}),
        (b'{"e":"1,234.5"}', {"e": Decimal("1234.50")}),
        (b'{"t":"2024-01-02T12:00:00.0000000000Z"}', {"t": NOON}),
        (b'{"t":"2024-01-02T14:00:00 GMT+2"}', {"t": NOON}),
        (b'{"t":"2024-01-02T12:01:00+0:1"}', {"t": NOON}),
        (b'{"t":"2024-01-02T17:30:00.0000019+05:30"}', {"t": NOON.replace(microsecond=1)}),
        (b'{"t":"2024-01-02T11:45:00.5-0015"}', {"t": NOON.replace(microsecond=500_000)}),
        (b'{"t":" 2024-01-02T12:00:00 UT\\u0001"}', {"t": NOON}),
        (b'{"d":1e400}', {"d": float("inf")}),
    ],
)
def test_bodies_that_parse(body: bytes, values: dict[str, Any]) -> None:
    """Each way of writing a value is read, one body alone or among others."""
    plain = b'{"l":7}'
    assert rows(FAST, body) == [values]
    assert rows(FAST, plain, body, plain) == [{"l": 7}, values, {"l": 7}]
    assert parse(FAST, plain, body).bad == {}


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b'{"m":{"a":1,"b":null}}', {"m": [("a", 1), ("b", None)]}),
        (b'{"y":"aGVsbG8="}', {"y": b"hello"}),
        (b'{"y":" aGVs\\r\\nbG8=\\n"}', {"y": b"hello"}),
        (b'{"tn":"2024-01-02 12:00"}', {"tn": datetime(2024, 1, 2, 12)}),  # noqa: DTZ001 it has no zone
        (b'{"n":{"day":"2024-01-02"}}', {"n": {"day": date(2024, 1, 2)}}),
    ],
)
def test_fields_that_only_the_slower_way_reads(body: bytes, values: dict[str, Any]) -> None:
    """Maps, binary, times without a zone and dates inside of structs are read too."""
    assert rows(SLOW, body) == [values]


def test_a_map_is_made_of_an_object() -> None:
    """Of nothing else."""
    parsed = parse(SLOW, b'{"m":[1]}')
    assert parsed.bad == {0: "m: [1] is no object"}


@pytest.mark.parametrize(
    ("body", "reason", "left"),
    [
        (b"x", "no JSON", {}),
        (b" ", "no JSON", {}),
        (b"null", "no JSON object", {}),
        (b'[{"i":1}]', "no JSON object", {}),
        (b'{"i":1} {"i":2}', "no JSON", {}),
        (b'{"i":1}null{}', "no JSON", {}),
        (b'{"i":1', "no JSON", {}),
        (b'{"i":"1","l":2}', 'i: "1" is no int', {"l": 2}),
        (b'{"i":1.0}', "i: 1.0 is no int", {}),
        (b'{"i":2147483648}', "i: 2147483648 is no int", {}),
        (b'{"b":1}', "b: 1 is no boolean", {}),
        (b'{"b":"\\ud800"}', r'b: "\?" is no boolean', {}),
        (b'{"d":"1"}', 'd: "1" is no double', {}),
        (b'{"e":123456789.1}', r"e: 123456789.1 is no decimal\(10,2\)", {}),
        (b'{"t":"tomorrow"}', 't: "tomorrow" is no timestamp', {}),
        (b'{"t":"2024-02-30"}', 't: "2024-02-30" is no timestamp', {}),
        (b'{"t":"2024-01-01T00:00:00 Nowhere/City"}', "is no timestamp", {}),
        (b'{"t":"2024-01-01T00:00:00 America"}', "is no timestamp", {}),
        (b'{"t":"2024-01-01T00:00:00+99:99"}', "is no timestamp", {}),
        (b'{"t":"2024-01-01T00:00:00+01:60"}', "is no timestamp", {}),
        (b'{"t":"2024-01-01T00:00:00 localtime"}', "is no timestamp", {}),
        (b'{"t":"2024-01-01T00:00:00 right/UTC"}', "is no timestamp", {}),
        (b'{"t":"2024-01-01T00:00:00' + b" " * 200_000 + b'!"}', "is no timestamp", {}),
        (b'{"t":"10000-01-01"}', "is no timestamp", {}),
        (b'{"e":"1_0"}', 'e: "1_0" is no decimal', {}),
        (b'{"e":true}', "e: true is no decimal", {}),
        (b'{"n":5,"l":1}', "n: 5 is no object", {"l": 1}),
        (b'{"d":-NaN}', "no JSON", {}),
        (b'{"d":"INF"}', 'd: "INF" is no double', {}),
        (b'{"day":19000}', "day: 19000 is no date", {}),
        (b'{"n":{"x":"q","y":["a"]}}', 'n.x: "q" is no smallint', {"n": {"x": None, "y": ["a"]}}),
        (b'{"a":[1,"x"],"l":1}', 'a.1: "x" is no bigint', {"l": 1}),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply", {}),
    ],
)
def test_bodies_that_do_not_parse(body: bytes, reason: str, left: dict[str, Any]) -> None:
    """What fits is kept, the rest is null, and the reason says where and why."""
    parsed = parse(FAST, b'{"l":7}', body)
    assert list(parsed.bad) == [1]
    assert re.search(reason, parsed.bad[1])
    assert rows(FAST, body) == [left]


@pytest.mark.parametrize("kind", [StringType(), LongType(), ArrayType(StringType())])
def test_no_depth_is_too_much(kind: DataType) -> None:
    """What Python can just read it may not be able to write: as a text, or into what is said of it."""
    read = fields(v=kind)
    for depth in range(900, 1001):
        parse(read, b'{"v":' + b"[" * depth + b"]" * depth + b"}\n")


EXACT = DecimalType(38, 18)


@pytest.mark.parametrize(
    "written",
    [
        "10000000000.5",
        "-99999999999999999999.999999999999999999",
        "99999999999999999999.99999999999999999949",
        "1e19",
        "0.1234567890123456785",
        "1e-400",
    ],
)
def test_a_decimal_keeps_all_its_digits(written: str) -> None:
    """Next to a body that only the slower way reads, inside of a map and as a string, too."""
    value = Decimal(written).quantize(Decimal("1e-18"), ROUND_HALF_UP, Context(prec=38))
    for given_ in (written, f'"{written}"'):
        body = f'{{"e":{given_}}}'.encode()
        assert rows(fields(e=EXACT), body) == [{"e": value}]
        listed = f'{{"a":[{given_}]}}'.encode()
        assert rows(fields(a=ArrayType(EXACT)), listed) == [{"a": [value]}]
        assert rows(fields(e=EXACT), body, b'{"e":1}\n') == [{"e": value}, {"e": Decimal(1)}]
        assert rows(fields(m=MapType(StringType(), EXACT)), b'{"m":' + body + b"}") == [{"m": [("e", value)]}]


@pytest.mark.parametrize(
    "written",
    ["100000000000000000000", "99999999999999999999.9999999999999999995", "1e20", "1e999999999", f"1e{'9' * 30}"],
)
def test_a_decimal_with_too_many_digits_does_not_fit(written: str) -> None:
    """What has 39 digits, or has them once it is rounded, and what has an exponent beyond all bounds."""
    body = f'{{"e":{written},"d":1.5}}'.encode()
    parsed = parse(fields(e=EXACT, d=DoubleType()), b'{"e":1}\n', body)
    assert list(parsed.bad) == [1]
    assert parsed.columns[0].to_pylist() == [Decimal(1), None]
    assert parsed.columns[1].to_pylist() == [None, 1.5]


@pytest.mark.parametrize(
    ("precision", "scale", "written"),
    [(38, 18, "123456789012345678901234567890"), (38, 33, "749311159"), (38, 33, "-14.16978755e26"), (38, 4, "9" * 37)],
)
def test_a_decimal_that_is_too_large_is_no_other_number(precision: int, scale: int, written: str) -> None:
    """Arrow multiplies it by powers of ten until it fits again, if it is let."""
    kind, body = DecimalType(precision, scale), f'{{"e":{written}}}'.encode()
    parsed = parse(fields(e=kind), body)
    assert (list(parsed.bad), parsed.columns[0].to_pylist()) == ([0], [None])
    nested = fields(n=StructType([StructField("e", kind)]), l=ArrayType(kind))
    assert list(parse(nested, b'{"n":' + body + b"}", f'{{"l":[{written}]}}'.encode()).bad) == [0, 1]


def test_an_exponent_beyond_all_bounds_beside_a_decimal() -> None:
    """Where nobody reads it it harms nothing; a double is 0 or infinity, as without a decimal in the schema."""
    tiny, huge = f"1e-{'9' * 30}", f"1e{'9' * 30}"
    read = fields(e=EXACT, d=DoubleType())
    bodies = [f'{{"d":{tiny}}}\n', f'{{"d":{huge}}}\n', f'{{"e":2,"unknown":{huge}}}\n']
    assert rows(read, *map(str.encode, bodies)) == [{"d": 0.0}, {"d": float("inf")}, {"e": Decimal(2)}]


@pytest.mark.parametrize(
    ("written", "days"),
    [("0000", -719_528), ("0000-02-29", -719_469), ("0000-12-31", -719_163), ("0001-01-01", -719_162)],
)
def test_the_year_0(written: str, days: int) -> None:
    """Spark has one, Python has none: both ways know its days and times."""
    read = fields(t=TimestampType(), day=DateType())
    body = f'{{"t":"{written}","day":"{written}"}}'.encode()
    for bodies in ([body], [body, b"{}\n"]):
        parsed = parse(read, *bodies)
        assert parsed.bad == {}
        assert parsed.columns[0].cast(pa.int64())[0].as_py() == days * 86_400_000_000
        assert parsed.columns[1].cast(pa.int32())[0].as_py() == days


def test_no_more_days_in_the_year_0_than_there_were() -> None:
    """It has a 29th of February, and no 30th."""
    body = b'{"t":"0000-02-30","day":"0000-02-30","tn":"0000-02-30"}'
    read = fields(t=TimestampType(), day=DateType(), tn=TimestampNTZType())
    assert list(parse(read, body).bad) == [0]


NEGATIVE = fields(d=DoubleType(), f=FloatType(), a=ArrayType(DoubleType()), n=fields(x=DoubleType()), s=StringType())


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b'{"d":-0}', {"d": 0.0}),
        (b'{"f":-0 ,"d":1}', {"d": 1.0, "f": 0.0}),
        (b'{"a":[null,1,-0]}', {"a": [None, 1.0, 0.0]}),
        (b'{"n":{"x":-0}}', {"n": {"x": 0.0}}),
        (b'{"d":-0.0,"f":-0e0,"a":[-1e-400]}', {"d": -0.0, "f": -0.0, "a": [-0.0]}),
        (b'{"d":-0.0,"s":"-0, it says"}', {"d": -0.0, "s": "-0, it says"}),
    ],
)
def test_a_zero_with_a_sign(body: bytes, values: dict[str, Any]) -> None:
    """Written as a whole number it has none, as for Spark's from_json; else it keeps it, either way it is read."""
    for bodies in ([body], [body, b"{}\n"]):
        assert repr(rows(NEGATIVE, *bodies)[0]) == repr(values)


@pytest.mark.parametrize("body", [b'{"d":Inf}', b'{"f": -Inf }', b'{"a":[1,Inf]}', b'{"n":{"x":-Inf},"d":1}'])
def test_infinity_by_an_abbreviation(body: bytes) -> None:
    """Such a body does not parse, as for Spark's from_json, whatever others it is read together with."""
    for bodies in ([body], [body, b"{}\n"]):
        assert list(parse(NEGATIVE, *bodies).bad) == [0]
    written = b'{"d":Infinity,"a":[1e400,-Infinity],"s":"Inf"}'
    assert rows(NEGATIVE, written)[0] == {"d": math.inf, "a": [math.inf, -math.inf], "s": "Inf"}


def test_one_bad_body_among_many() -> None:
    """Bodies before and behind a bad one are as if it were not there, across all blocks."""
    bodies = [json.dumps({"l": number}).encode() for number in range(3 * BLOCK_ROWS)]
    bodies[BLOCK_ROWS + 3] = b"{"
    parsed = parse(fields(l=LongType()), *bodies)
    assert list(parsed.bad) == [BLOCK_ROWS + 3]
    values = parsed.columns[0].to_pylist()
    assert values == [None if number == BLOCK_ROWS + 3 else number for number in range(3 * BLOCK_ROWS)]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 65), 1 << 65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(
        [1e12, 123456789.12, "2024-01-02", "2024-01-02T03:04:05", "2024-01-02 03:04:05.5+01:00", "1.25", "NaN"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*"xyq"]), inner, max_size=3),
    max_leaves=6,
)
AS_WRITTEN = st.sampled_from(
    [
        *(
            "-0",
            "01",
            "+1",
            "1.",
            ".5",
            "1e",
            "-",
            "NaN",
            "-NaN",
            "Infinity",
            "-Infinity",
            "Inf",
            "+INF",
            "nan",
            "tru",
            "TRUE",
        ),
        *("0.005", "99999999.999", "1e309", "5e-324", "3.4028236e38", "1e-46", "9223372036854775808", "8796093022207"),
        *('"1_0"', '"1,0"', '"INF"', '"2024-01-02T10Z"', '"2024-01-02T24:00"', '"2024-01-02T10:00:00.1234567891"'),
        *('"2024-01-02T10:00:00+18:30"', '"2024-01-02T10:00:00+00:60"', '"20240102"', '"0000-02-29"', '"\\ud800"'),
        *('"\\x"', '"\\/"', '"a\tb"', '{"x":1,"x":2}', '{"x":1.0}', '{"y":[1]}', "[1.0]", "[[1]]", '{"x":-0}'),
    ]
)
TEXTS = st.lists(st.tuples(st.sampled_from(FAST.fieldNames()), AS_WRITTEN), max_size=3).map(
    lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}"
)
DOCUMENTS = st.dictionaries(st.sampled_from([*FAST.fieldNames(), "other"]), JSON_VALUES, max_size=4)
BODIES = (
    DOCUMENTS.map(lambda document: json.dumps(document).encode())
    | TEXTS.map(str.encode)
    | st.binary(max_size=20)
    | st.sampled_from([b'{"d":-0}', b'{"f":-0.0,"d":0}', b'{"d":-0.0,"n":{"x":-0}}'])
    | st.sampled_from(
        [b"{}", b"{}{}", b"null", b'{"i":1}null{"i":2}', b'{"s":"}\n{"}', b'{"i":', b"1}", b'{"s":"}', b'{"}']
    )
)


@pytest.mark.property
@given(st.lists(BODIES, min_size=1, max_size=6))
@example([b'{"s":"}', b'{"}'])
@example([b"{}null{}", b"{}"])
@example([b'{"d": "NaN"}'])
@example([b'{"t":8796093022207}', b'{"day":"0000-1"}'])
def test_both_ways_are_the_same(bodies: list[bytes]) -> None:
    """Bodies read together give what each gives alone in the slower way, whatever they are."""
    parser = JsonBodies(FAST)
    array = pa.array(bodies, pa.binary())
    together, alone = parser.parse(array), parser._one_by_one(array)
    assert together.bad == alone.bad
    for column, other in zip(together.columns, alone.columns, strict=True):
        column.validate(full=True)
        assert told(column) == told(other)


def told(column: pa.Array) -> str:
    """All of it: NaN is not equal to itself, but written the same, and a year that Python does not have is a number."""
    numbers = {pa.timestamp("us", "UTC"): pa.int64(), pa.date32(): pa.int32()}
    return repr(column.view(numbers.get(column.type, column.type)).to_pylist())

"""How the texts of options become values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.errors import InvalidArgument
from rmqspark.options import (
    Moment,
    Option,
    OptionTable,
    boolean,
    choice,
    directory,
    exclusive,
    integer,
    json_object,
    moment,
    names,
    size_bytes,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (boolean, "TRUE", True),
        (boolean, "false", False),
        (choice("none", "lz4"), "LZ4", "lz4"),
        (integer(0), "0", 0),
        (integer(1), "+7", 7),
        (integer(0), "9223372036854775807", 2**63 - 1),
        (size_bytes(1, 1 << 30), "4096", 4096),
        (size_bytes(1, 1 << 30), "1m", 1 << 20),
        (size_bytes(1, 1 << 30), "2 KB", 2048),
        (names, "a, b,,a", ("a", "b")),
        (directory, "/data/a b", "/data/a b"),
        (directory, "stores", "stores"),
        (directory, "file:///data/a%20b", "/data/a b"),
        (directory, "file:/data", "/data"),
        (directory, "FILE://localhost/data", "/data"),
        (directory, "file:///stores#2/?", "/stores#2/?"),
        (json_object, '{"a": 1}', {"a": 1}),
        (moment, "1700000000000", Moment(1_700_000_000_000)),
        (moment, "2023-11-14T23:13:20+01:00", Moment(1_700_000_000_000)),
        (moment, "2023-11-14", Moment(1_699_920_000_000)),
        (moment, "-2h", Moment(ago_ms=7_200_000)),
        (moment, "-500ms", Moment(ago_ms=500)),
    ],
)
def test_values_are_read(read: Callable[[str], Any], value: str, expected: object) -> None:
    """What an option documents, it accepts."""
    assert read(value) == expected


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (text, ""),
        (directory, ""),
        (directory, "file://data/stores"),
        (directory, "hdfs://namenode:8020/data"),
        (directory, "s3a://bucket/data"),
        (boolean, "1"),
        (choice("none", "lz4"), "zip"),
        (integer(1), "0"),
        (integer(0), "1.5"),
        (integer(0), "9" * 30),
        (integer(0), "9223372036854775808"),
        (size_bytes(1, 100), "101"),
        (size_bytes(1, 100), "1x"),
        (size_bytes(1, 100), "-1"),
        (names, ","),
        (json_object, "[]"),
        (json_object, "{"),
        (json_object, '{"a": 1, "a": 2}'),
        (json_object, '{"a": {"0": 1, "0": 2}}'),
        (json_object, "[" * 100_000),
        (moment, "10m"),
        (moment, "-10y"),
        (moment, "now"),
    ],
)
def test_other_values_are_refused(read: Callable[[str], Any], value: str) -> None:
    """What an option does not accept is refused with a word on what it does."""
    with pytest.raises(ValueError, match=r"accepted|empty|needed|JSON"):
        read(value)


def test_a_day_without_dashes_is_not_taken_for_milliseconds() -> None:
    """The error says how to write either, and what it says is what is meant."""
    with pytest.raises(ValueError, match=r"2026-01-31 is accepted for the day, 1970-01-01T05:37:40\.131 for the mill"):
        moment("20260131")
    assert moment("1970-01-01T05:37:40.131") == Moment(20_260_131)
    assert moment("2026-01-31") == moment("20260131T00")


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        ("1700000000", "1700000000000"),
        ("170000000", "170000000000"),
        ("99999999999", "99999999999000"),
        ("1700000000.9643414", "1700000000964"),  # time.time()
        ("1700000000.5", "1700000000500"),
    ],
)
def test_seconds_are_not_taken_for_milliseconds(seconds: str, milliseconds: str) -> None:
    """A time early in 1970 would be before every message there is; the error has the milliseconds that are meant."""
    with pytest.raises(ValueError, match=f"looks like seconds since 1970. Milliseconds are accepted: {milliseconds}.$"):
        moment(seconds)
    assert moment("100000000000") == Moment(100_000_000_000)
    assert moment("0") == Moment(0)


@pytest.mark.parametrize(
    ("digits", "meant"),
    [
        ("2026", "a year. 2026-01-01 is accepted"),
        ("202611", "a year. 2026-11-01 is accepted"),
        ("202611251000", "a time without its signs. 2026-11-25T10:00 is accepted"),
        ("20261125100059", "a time without its signs. 2026-11-25T10:00:59 is accepted"),
        ("1795600800123456", "micro- or nanoseconds since 1970. Milliseconds are accepted: 1795600800123."),
        ("1795600800123456789", "nanoseconds since 1970. Milliseconds are accepted: 1795600800123."),
        ("17956008001234567", "milliseconds since 1970 have fewer digits"),
        ("1" * 5_000, "milliseconds since 1970 have fewer digits"),
    ],
)
def test_digits_that_are_no_milliseconds(digits: str, meant: str) -> None:
    """Taken for milliseconds, or for ISO 8601, they are times that no message can have; the error has what is meant."""
    with pytest.raises(ValueError, match=meant):
        moment(digits)
    assert moment("202613") == Moment(202_613)  # no month
    assert moment("202699251000") == Moment(202_699_251_000)  # no day
    assert moment("1795600800123") == Moment(1_795_600_800_123)


def test_milliseconds_of_a_time_are_exact() -> None:
    """Also where a float of its seconds lies just below."""
    assert moment("2004-02-28T12:00:01.008Z") == Moment(1_077_969_601_008)
    assert moment("2039-02-28T12:00:01.911") == Moment(2_182_507_201_911)


def test_relative_moments_are_fixed_when_they_are_asked_for() -> None:
    """-10m is ten minutes before the query starts."""
    assert Moment(ago_ms=600_000).resolve(1_000_000) == 400_000
    assert Moment(5).resolve(1_000_000) == 5


def test_nothing_is_before_1970() -> None:
    """Brokers are asked with a number that they understand, however long ago something is to be."""
    assert moment("-999999999999d").resolve(1_700_000_000_000) == 0
    assert moment("0001-01-01").resolve(1_700_000_000_000) == 0


TABLE = OptionTable(
    "source",
    (Option("subscribe", "–", "topics", names, aliases=("path",)), Option("limit", "–", "rows", integer(1))),
    foreign={"topic": "Use subscribe."},
    ignored=frozenset({"queryname"}),
)


def test_a_table_reads_in_any_case_and_skips_what_is_sparks() -> None:
    """Options are case-insensitive; those that Spark adds are left alone."""
    assert TABLE.read({"PATH": "t", "Limit": " 3 ", "queryName": "q"}) == {"subscribe": ("t",), "limit": 3}


@pytest.mark.parametrize(
    ("given", "story"),
    [
        ({"limits": "3"}, "source has no option 'limits'. Did you mean 'limit'?"),
        ({"zzz": "3"}, "no option 'zzz'. It has: subscribe, limit."),
        ({"topic": "t"}, "no option 'topic'. Use subscribe."),
        ({"kafka.acks": "1"}, "Kafka's client"),
        ({"subscribe": "t", "PATH": "t"}, "'subscribe' and 'path' mean the same"),
        ({"LIMIT": "many"}, "Option 'limit' cannot be 'many': a whole number"),
    ],
)
def test_a_table_names_what_is_wrong(given: dict[str, str], story: str) -> None:
    """No option is ever ignored, and a known one is spelled as the docs do, however Spark handed it over."""
    with pytest.raises(InvalidArgument) as raised:
        TABLE.read(given)
    assert story in str(raised.value)


def test_options_that_exclude_each_other() -> None:
    """Two options that contradict each other are both named."""
    exclusive({"a": 1}, ("a", "b"))
    with pytest.raises(InvalidArgument, match="'a' and 'b' exclude each other"):
        exclusive({"a": 1, "b": 2}, ("a", "b"))

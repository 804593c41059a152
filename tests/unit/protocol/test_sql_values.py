"""Text as Java reads it."""

from __future__ import annotations

import math
import time

import pytest

from rmqspark.protocol.sql.values import NotComparable, double, to_boolean, to_double, to_integer, to_long

NO = None


@pytest.mark.parametrize(
    ("text", "integer", "long", "number"),
    [
        ("5", 5, 5, 5.0),
        ("+5", 5, 5, 5.0),
        ("-0", 0, 0, -0.0),
        ("2147483648", NO, 2147483648, 2147483648.0),
        ("-2147483648", -2147483648, -2147483648, -2147483648.0),
        ("9223372036854775808", NO, NO, 9223372036854775808.0),
        ("0" * 5000 + "7", 7, 7, 7.0),
        ("-" + "0" * 80, 0, 0, -0.0),
        ("9" * 5000, NO, NO, math.inf),
        ("٥", 5, 5, NO),
        ("𝟓", NO, NO, NO),
        (" 5", NO, NO, 5.0),
        ("5\x00\t", NO, NO, 5.0),
        ("\u00a05", NO, NO, NO),
        ("5_0", NO, NO, NO),
        ("", NO, NO, NO),
        ("-", NO, NO, NO),
        ("3.5", NO, NO, 3.5),
        (".5", NO, NO, 0.5),
        ("5.", NO, NO, 5.0),
        (".", NO, NO, NO),
        ("1e3", NO, NO, 1000.0),
        ("1e", NO, NO, NO),
        ("5f", NO, NO, 5.0),
        ("5D", NO, NO, 5.0),
        ("5L", NO, NO, NO),
        ("1e999", NO, NO, math.inf),
        ("1e-999", NO, NO, 0.0),
        ("NaN", NO, NO, math.nan),
        *((text, NO, NO, math.inf) for text in ("Infinity", "+Infinity", " Infinity ")),
        ("-Infinity", NO, NO, -math.inf),
        ("inf", NO, NO, NO),
        ("nan", NO, NO, NO),
        ("Infinityf", NO, NO, NO),
        ("0x1p3", NO, NO, 8.0),
        ("-0X.8P0d", NO, NO, -0.5),
        ("0x1p99999", NO, NO, math.inf),
        ("-0x1p99999", NO, NO, -math.inf),
        ("0x1", NO, NO, NO),
    ],
)
def test_numbers_are_read_as_java_reads_them(
    text: str, integer: int | None, long: int | None, number: float | None
) -> None:
    """Integer.valueOf, Long.valueOf and Double.valueOf, where they throw a NumberFormatException too."""
    expected = (integer, long, NO if number is NO else double(number))
    for convert, value in zip((to_integer, to_long, to_double), expected, strict=True):
        if value is NO:
            with pytest.raises(NotComparable):
                convert(text)
        else:
            assert convert(text) == value


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TrUe", True), ("", False), ("yes", False), ("1", False)])
def test_only_true_is_true(text: str, value: bool) -> None:
    """Boolean.valueOf: every other text is false."""
    assert to_boolean(text) is value


def test_doubles_are_in_javas_order() -> None:
    """Double.compareTo: minus zero below zero, NaN above all and equal to itself."""
    rising = [-math.inf, -1.5, -0.0, 0.0, 5e-324, 1.5, math.inf, math.nan]
    assert [double(number) for number in rising] == sorted(map(double, reversed(rising)))
    assert len({double(number) for number in rising}) == len(rising)
    assert double(float("nan")) == double(-float("nan"))


@pytest.mark.parametrize(
    "text",
    [
        "1" * 32_000 + "x",
        "1" * 16_000 + "." + "1" * 16_000 + "x",
        "0x" + "f" * 32_000,
        "0x" + "1" * 32_000 + "p",
        "1e" * 16_000,
    ],
)
def test_long_text_is_gone_through_once(text: str) -> None:
    """What a producer writes into a property cannot keep a broker busy that filters by it; it took half a minute."""
    begin = time.process_time()
    with pytest.raises(NotComparable):
        to_double(text)
    assert time.process_time() - begin < 1

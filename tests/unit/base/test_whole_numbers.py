"""Numbers in texts from outside: what is one, and that nothing else is an error of another kind."""

from __future__ import annotations

import pytest

from rmqspark.broker.attributes import _is_long
from rmqspark.errors import InvalidArgument
from rmqspark.remoting.address import parse_address
from rmqspark.whole_numbers import whole_number

NUMBERS = [("0", 0), ("007", 7), ("9223372036854775807", 2**63 - 1)]
OTHERS = ["", " 1", "1 ", "+1", "-1", "1_0", "0x1", "1.0", "²", "٣", "1" * 20, "1" * 5_000]


@pytest.mark.parametrize(("text", "number"), NUMBERS)
def test_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", OTHERS, ids=lambda text: text[:8])
def test_nothing_else_is(text: str) -> None:
    """A port of it is none either, and is refused as every other one that is none."""
    assert whole_number(text) is None
    with pytest.raises(InvalidArgument, match="is not an address"):
        parse_address(f"h:{text}")


@pytest.mark.parametrize(
    ("text", "is_long"),
    [
        *(("-9223372036854775808", True), ("9223372036854775807", True), ("-9223372036854775809", False)),
        *(("9223372036854775808", False), ("--1", False), ("-" + "9" * 5_000, False)),
    ],
    ids=lambda text: str(text)[:8],
)
def test_what_a_long_of_java_holds(text: str, is_long: bool) -> None:
    assert _is_long(text) is is_long

"""Numbers in texts from outside: what is one, and that nothing else is an error of another kind."""

from __future__ import annotations

import pytest

from rmqspark.broker.state.attributes import check_attributes
from rmqspark.errors import InvalidArgument, ServerFault
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


@pytest.mark.parametrize("text", ["-1", "0", "9223372036854775807"])
def test_the_ends_of_a_range_are_in_it(text: str) -> None:
    """As of an attribute that is a long of Java's, from -1 on."""
    check_attributes({"reserve.time": text})


@pytest.mark.parametrize(
    "text", ["-2", "9223372036854775808", "--1", "-", "-" + "9" * 5_000], ids=lambda text: str(text)[:8]
)
def test_what_is_outside_a_range_or_no_number_is_refused(text: str) -> None:
    with pytest.raises(ServerFault, match="'reserve.time' cannot be"):
        check_attributes({"reserve.time": text})

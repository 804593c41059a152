"""Text as numbers and truth, by Java's rules, and what may be compared with what.

Integer.valueOf, Long.valueOf, Double.valueOf, Boolean.valueOf, and the conversions of RocketMQ's ComparisonExpression
(spec: semantics, section 9). A double is held as a tuple that sorts as Double.compareTo does: NaN above everything and
equal to itself, -0.0 below 0.0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from rmqspark.protocol.sql.tree import NUMBERS, Constant, Kind

Conversion: TypeAlias = Callable[[Any], Any]
Double: TypeAlias = tuple[int, float, float]

_INT_RANGE: Final = range(-(1 << 31), 1 << 31)
_LONG_RANGE: Final = range(-(1 << 63), 1 << 63)
_MOST_DIGITS: Final = 64  # of text that may be a long, leading zeros left out
_LAST_CHAR: Final = "\uffff"  # what lies beyond takes two of Java's chars, neither of which is a digit
_WHOLE: Final = re.compile(r"[+-]?\d+")
# Possessive throughout: of digits that were taken none is given back. So 32 KiB of them, which a producer may write
# into a property, are gone through once; otherwise they take half a minute, if a letter follows.
_DECIMAL: Final = re.compile(r"(?a:([+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?)[fFdD]?)")
_HEX_DIGITS: Final = r"(?:[0-9a-fA-F]++\.?|[0-9a-fA-F]*+\.[0-9a-fA-F]++)"
_HEXADECIMAL: Final = re.compile(rf"(?a:([+-]?0[xX]{_HEX_DIGITS}[pP][+-]?\d++)[fFdD]?)")
_NAMED: Final = {"NaN": math.nan, "Infinity": math.inf}
_TRIMMED: Final = "".join(map(chr, range(0x21)))  # what Java's String.trim takes off


class NotComparable(Exception):
    """Two values that cannot be compared: RocketMQ's evaluation ends here, and the message does not match."""


class Alignment(NamedTuple):
    """How both sides of a comparison become values of one type."""

    left: Conversion
    right: Conversion


def to_integer(text: str) -> int:
    return _whole(text, _INT_RANGE)


def to_long(text: str) -> int:
    return _whole(text, _LONG_RANGE)


def to_double(text: str) -> Double:
    return double(_to_float(text))


def to_boolean(text: str) -> bool:
    return text.lower() == "true"


def double(number: float) -> Double:
    """A number as a double that compares as Java's do."""
    if math.isnan(number):
        return (1, 0.0, 1.0)
    return (0, float(number), math.copysign(1.0, number))


def held(constant: Constant) -> Any:
    """The value of a constant as comparisons have it."""
    return double(constant.value) if isinstance(constant.value, float) else constant.value


def alignment(left: Kind, right: Kind, *, ordered: bool) -> Alignment | None:
    """The conversions for a comparison, `ordered` unless it is for equality; None where two never are equal."""
    if left is right:
        return _both(to_double) if ordered and left is Kind.TEXT else _both(_same)
    if Kind.NOTHING in (left, right):
        return _both(_same)
    if left is Kind.TEXT:
        return Alignment(_FROM_TEXT[right], _same)
    if right is Kind.TEXT:
        return Alignment(_same, _no_boolean if left is Kind.BOOLEAN else _FROM_TEXT[left])
    if not {left, right} <= NUMBERS:
        return None
    if Kind.DOUBLE in (left, right):
        return Alignment(*(_same if kind is Kind.DOUBLE else double for kind in (left, right)))
    return _both(_same)


def _both(conversion: Conversion) -> Alignment:
    return Alignment(conversion, conversion)


def _same(value: Any) -> Any:
    return value


def _no_boolean(text: str) -> bool:
    raise NotComparable(f"A truth value on the left is not compared with {text!r} (in Java a ClassCastException).")


_FROM_TEXT: Final[dict[Kind, Conversion]] = {
    Kind.INTEGER: to_integer,
    Kind.LONG: to_long,
    Kind.DOUBLE: to_double,
    Kind.BOOLEAN: to_boolean,
}


def _whole(text: str, within: range) -> int:
    if len(text) > _MOST_DIGITS:
        sign = text[0] if text[0] in "+-" else ""
        text = sign + (text[len(sign) :].lstrip("0") or "0")
    if len(text) <= _MOST_DIGITS and _WHOLE.fullmatch(text) and max(text) <= _LAST_CHAR:
        number = int(text)
        if number in within:
            return number
    raise NotComparable(f"{text[:_MOST_DIGITS]!r} is no whole number of that size.")


def _to_float(text: str) -> float:
    trimmed = text.strip(_TRIMMED)
    if found := _DECIMAL.fullmatch(trimmed):
        return float(found[1])
    if found := _HEXADECIMAL.fullmatch(trimmed):
        return _from_hexadecimal(found[1])
    unsigned = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
    if unsigned in _NAMED:
        return math.copysign(_NAMED[unsigned], -1.0 if trimmed[0] == "-" else 1.0)
    raise NotComparable(f"{text[:_MOST_DIGITS]!r} is no number.")


def _from_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text[0] == "-" else math.inf

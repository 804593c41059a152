"""From what the grammar recognises to nodes, and the rules on what may stand where.

A method for each production that is named in `syntax.py`; each gets the nodes and tokens of its parts. RocketMQ has the
same rules in the create methods of its expression classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import InvalidFilter
from rmqspark.protocol.sql.tree import (
    NUMBERS,
    And,
    Between,
    Constant,
    Equal,
    In,
    IsNull,
    Kind,
    Negative,
    Not,
    Or,
    Order,
    Ordered,
    Property,
    Search,
    Searched,
    Truth,
    Value,
    kind_of,
)
from rmqspark.protocol.sql.values import NotComparable, alignment, held, to_integer, to_long

if TYPE_CHECKING:
    from lark import Token

    from rmqspark.protocol.sql.tree import Node

MAX_LIST: Final = 512
_SHOWN: Final = 60  # characters
_HINT: Final = "For example: price > 10 AND region IN ('EU', 'US')"


def wrong_at(at: int, story: str, hint: str = _HINT) -> InvalidFilter:
    """The error for a mistake at a place of the text, counted from 0; people count from 1."""
    return InvalidFilter(f"The SQL92 expression is wrong at character {at + 1}: {story}.", hint=hint)


def shown(text: str) -> str:
    """A piece of the expression, as a message shows it."""
    return repr(str(text)) if len(text) <= _SHOWN else repr(text[:_SHOWN]) + "…"


class Builder:
    """Makes the nodes. Raises InvalidFilter for what the grammar allows and the rules do not."""

    # --- literals and names

    def text(self, parts: list[Token]) -> Node:
        return Constant(_at(parts[0]), _content(parts[0]), Kind.TEXT)

    def whole(self, parts: list[Token]) -> Node:
        digits = parts[0].rstrip("lL")
        try:
            number = to_long(digits)
        except NotComparable:
            raise wrong_at(_at(parts[0]), f"{shown(digits)} is more than a long can be") from None
        return Constant(_at(parts[0]), number, _whole_kind(digits))

    def fraction(self, parts: list[Token]) -> Node:
        number = float(parts[0])
        if number == 0 or number == float("inf"):  # what RocketMQ thinks of zero
            raise wrong_at(_at(parts[0]), f"{shown(parts[0])} is not what a double can be, or zero", "Write 0.")
        return Constant(_at(parts[0]), number, Kind.DOUBLE)

    def truth(self, parts: list[Token]) -> Node:
        return Constant(_at(parts[0]), True, Kind.BOOLEAN)

    def falsehood(self, parts: list[Token]) -> Node:
        return Constant(_at(parts[0]), False, Kind.BOOLEAN)

    def null(self, parts: list[Token]) -> Node:
        return Constant(_at(parts[0]), None, Kind.NOTHING)

    def variable(self, parts: list[Token]) -> Node:
        return Property(_at(parts[0]), str(parts[0]))

    def negative(self, parts: list[Node]) -> Node:
        kind = kind_of(parts[0])
        return Negative(parts[0].at, parts[0], kind if kind in NUMBERS else Kind.NOTHING)

    # --- conditions

    def condition(self, parts: list[Node]) -> Node:
        """What is asked for a condition: a property becomes one."""
        node = parts[0]
        if isinstance(node, Property):
            return Truth(node.at, node)
        if _is_condition(node):
            return node
        raise wrong_at(node.at, "a condition is needed here, which is true or false")

    def any_of(self, parts: list[Node]) -> Node:
        return Or(parts[0].at, tuple([self.condition([part]) for part in parts]))

    def all_of(self, parts: list[Node]) -> Node:
        return And(parts[0].at, tuple([self.condition([part]) for part in parts]))

    def negation(self, parts: list[Node]) -> Node:
        return Not(parts[0].at, self.condition(parts))

    # --- comparisons

    def equal(self, parts: list[Node]) -> Node:
        left, right = parts
        for operand in parts:
            if isinstance(operand, Constant) and operand.value is None:
                raise wrong_at(operand.at, "nothing equals NULL", "Write IS NULL or IS NOT NULL.")
        are_constants = isinstance(left, Constant) and isinstance(right, Constant)
        if are_constants and kind_of(left) is Kind.BOOLEAN and kind_of(right) is not Kind.BOOLEAN:
            raise wrong_at(right.at, "this is neither TRUE nor FALSE")
        return Equal(left.at, left, right)

    def not_equal(self, parts: list[Node]) -> Node:
        return Not(parts[0].at, self.equal(parts))

    def is_null(self, parts: list[Node]) -> Node:
        return IsNull(parts[0].at, parts[0])

    def is_not_null(self, parts: list[Node]) -> Node:
        return Not(parts[0].at, self.is_null(parts))

    def ordered(self, parts: tuple[Node, Token, Node]) -> Node:
        left, order, right = parts
        _require_numbers(left, right)
        return Ordered(left.at, Order(order), left, right)

    def between(self, parts: list[Node]) -> Node:
        return self._between(parts, outside=False)

    def not_between(self, parts: list[Node]) -> Node:
        return self._between(parts, outside=True)

    def _between(self, parts: list[Node], *, outside: bool) -> Node:
        operand, low, high = parts
        _require_numbers(operand, low, high)
        if not outside and isinstance(low, Constant) and isinstance(high, Constant) and _is_above(low, high):
            raise wrong_at(low.at, f"nothing is between {low.value} and {high.value}", "Write the lower one first.")
        return Between(operand.at, operand, low, high, outside)

    def texts(self, parts: list[Token]) -> list[Token]:
        """What stands in the brackets of an IN."""
        if len(parts) > MAX_LIST:
            raise wrong_at(_at(parts[MAX_LIST]), f"the list has {len(parts)} values, the most are {MAX_LIST}", "")
        return parts

    def in_texts(self, parts: tuple[Node, list[Token]]) -> Node:
        return self._in(*parts, absent=False)

    def not_in_texts(self, parts: tuple[Node, list[Token]]) -> Node:
        return self._in(*parts, absent=True)

    def _in(self, operand: Node, texts: list[Token], *, absent: bool) -> Node:
        if not isinstance(operand, Property):
            raise wrong_at(operand.at, "IN needs the name of a property on its left")
        return In(operand.at, operand, frozenset(map(_content, texts)), absent)

    def search(self, parts: list[Token]) -> Search:
        return Search(parts[0].upper())

    def searched(self, parts: tuple[Node, Search, Token]) -> Node:
        operand, search, text = parts
        return Searched(operand.at, search, operand, _content(text), absent=False)

    def not_searched(self, parts: tuple[Node, Search, Token]) -> Node:
        operand, search, text = parts
        return Searched(operand.at, search, operand, _content(text), absent=True)


def _at(token: Token) -> int:
    return token.start_pos or 0


def _content(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _whole_kind(digits: str) -> Kind:
    try:
        to_integer(digits)
    except NotComparable:
        return Kind.LONG
    return Kind.INTEGER


def _is_condition(node: Node) -> bool:
    if isinstance(node, Constant):
        return node.kind in (Kind.BOOLEAN, Kind.NOTHING)
    return not isinstance(node, Property | Negative)


def _require_numbers(*operands: Node) -> None:
    """Only numbers are ordered, and properties, whose text may be one."""
    for operand in operands:
        if isinstance(operand, Constant) and operand.kind not in NUMBERS:
            raise wrong_at(operand.at, f"{_spelled(operand.value)} is no number", "Only numbers are ordered.")
        if _is_condition(operand):
            raise wrong_at(operand.at, "a condition is no number", "Only numbers are ordered.")


def _is_above(low: Constant, high: Constant) -> bool:
    aligned = alignment(low.kind, high.kind, ordered=True)
    return aligned is not None and bool(aligned.left(held(low)) > aligned.right(held(high)))


def _spelled(value: Value) -> str:
    if isinstance(value, str):
        return shown(value)
    return "NULL" if value is None else str(value).upper()

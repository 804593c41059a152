"""From a tree to one function of the values of its properties.

Each node becomes a closure once; what a comparison has to convert is known from the kinds of its sides, so nothing is
looked up or asked about types while messages go by. Null is None, and NotComparable ends an evaluation as an exception
ends RocketMQ's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from rmqspark.protocol.sql.tree import (
    And,
    Between,
    Constant,
    Equal,
    In,
    IsNull,
    Kind,
    Negative,
    Node,
    Not,
    Or,
    Order,
    Ordered,
    Property,
    Search,
    Searched,
    Truth,
    kind_of,
)
from rmqspark.protocol.sql.values import Alignment, alignment, double, held

Row: TypeAlias = Sequence[str | None]
"""The values of the properties that an expression names, in the order of its names."""

Evaluation: TypeAlias = Callable[[Row], Any]
Test: TypeAlias = Callable[[Any, Any], bool]

_TESTS: Final[dict[Order, Test]] = {
    Order.GREATER: operator.gt,
    Order.GREATER_OR_EQUAL: operator.ge,
    Order.LESS: operator.lt,
    Order.LESS_OR_EQUAL: operator.le,
}
_SEARCHES: Final[dict[Search, Test]] = {
    Search.CONTAINS: operator.contains,
    Search.STARTS_WITH: str.startswith,
    Search.ENDS_WITH: str.endswith,
}


def compile_tree(node: Node, places: dict[str, int]) -> Evaluation:
    """The node as a function of a row; `places` says where in it each property is. Depth is the caller's to bound."""

    def compiled(part: Node) -> Evaluation:
        return compile_tree(part, places)

    match node:
        case Constant():
            return _constant(held(node))
        case Property(name=name):
            return operator.itemgetter(places[name])
        case Negative(operand=operand, kind=kind):
            return _negative(compiled(operand), kind)
        case Truth(operand=operand):
            return _truth(compiled(operand))
        case Not(operand=operand):
            return _not(compiled(operand))
        case Equal(left=left, right=right):
            return _equal(compiled(left), compiled(right), alignment(kind_of(left), kind_of(right), ordered=False))
        case IsNull(operand=operand):
            return _is_null(compiled(operand))
        case Ordered(order=order, left=left, right=right):
            test = _ordering(order, left, right)
            return _ordered(test, compiled(left), compiled(right))
        case Between():
            return _compile_between(node, compiled)
        case In(operand=operand, values=values, absent=absent):
            return _in(compiled(operand), values, absent)
        case Searched(search=search, operand=operand, text=text, absent=absent):
            return _searched(_SEARCHES[search], compiled(operand), text, absent)
        case And(parts=parts):
            return _all([compiled(part) for part in parts])
        case Or(parts=parts):
            return _any([compiled(part) for part in parts])


def _constant(value: Any) -> Evaluation:
    return lambda row: value


def _negative(operand: Evaluation, kind: Kind) -> Evaluation:
    if kind is Kind.NOTHING:  # evaluated all the same: it may not be comparable
        return lambda row: (operand(row), None)[1]
    if kind is Kind.DOUBLE:
        return lambda row: double(-operand(row)[1])
    return lambda row: -operand(row)


def _truth(operand: Evaluation) -> Evaluation:
    return lambda row: None if operand(row) is None else False


def _not(operand: Evaluation) -> Evaluation:
    def negation(row: Row) -> bool | None:
        value = operand(row)
        return None if value is None else not value

    return negation


def _is_null(operand: Evaluation) -> Evaluation:
    return lambda row: operand(row) is None


def _equal(left: Evaluation, right: Evaluation, aligned: Alignment | None) -> Evaluation:
    """Two nulls are equal; a null on the left of a value makes null, one on its right false."""

    def comparison(row: Row) -> bool | None:
        value, other = left(row), right(row)
        if value is None:
            return True if other is None else None
        if other is None or aligned is None:
            return False
        return bool(aligned.left(value) == aligned.right(other))

    return comparison


def _ordering(order: Order, left: Node, right: Node) -> Test:
    """The test of two values that are there. What never is equal counts as less (RocketMQ's -1)."""
    aligned, test = alignment(kind_of(left), kind_of(right), ordered=True), _TESTS[order]
    if aligned is None:
        return lambda value, other: test(-1, 0)
    to_left, to_right = aligned
    return lambda value, other: test(to_left(value), to_right(other))


def _ordered(test: Test, left: Evaluation, right: Evaluation) -> Evaluation:
    def comparison(row: Row) -> bool | None:
        value = left(row)
        if value is None:
            return None
        other = right(row)
        return None if other is None else test(value, other)

    return comparison


def _compile_between(node: Between, compiled: Callable[[Node], Evaluation]) -> Evaluation:
    """x BETWEEN a AND b is x >= a AND x <= b; outside it is x < a OR x > b. Here x is evaluated once: what is nested in
    it would otherwise be evaluated twice as often with every level."""
    orders = (Order.LESS, Order.GREATER) if node.outside else (Order.GREATER_OR_EQUAL, Order.LESS_OR_EQUAL)
    bounds = [
        (_ordering(order, node.operand, bound), compiled(bound))
        for order, bound in zip(orders, (node.low, node.high), strict=True)
    ]
    return _between(compiled(node.operand), bounds, decisive=node.outside)


def _between(operand: Evaluation, bounds: list[tuple[Test, Evaluation]], *, decisive: bool) -> Evaluation:
    """`decisive` is what one of the two bounds can settle alone: AND is settled by false, OR by true."""

    def comparison(row: Row) -> bool | None:
        value = operand(row)
        if value is None:
            return None
        unknown = False
        for test, bound in bounds:
            limit = bound(row)
            if limit is None:
                unknown = True
            elif test(value, limit) is decisive:
                return decisive
        return None if unknown else not decisive

    return comparison


def _in(operand: Evaluation, values: frozenset[str], absent: bool) -> Evaluation:
    def membership(row: Row) -> bool | None:
        value = operand(row)
        return None if value is None else (value in values) is not absent

    return membership


def _searched(found: Test, operand: Evaluation, text: str, absent: bool) -> Evaluation:
    """False for all that is no text, and wherever nothing is looked for; also in the NOT form."""
    if not text:
        return _constant(False)

    def search(row: Row) -> bool:
        value = operand(row)
        return isinstance(value, str) and found(value, text) is not absent

    return search


def _all(parts: list[Evaluation]) -> Evaluation:
    """False if a part is, else null if a part is. Later parts are not evaluated once one is false."""

    def conjunction(row: Row) -> bool | None:
        unknown = False
        for part in parts:
            value = part(row)
            if value is None:
                unknown = True
            elif not value:
                return False
        return None if unknown else True

    return conjunction


def _any(parts: list[Evaluation]) -> Evaluation:
    def disjunction(row: Row) -> bool | None:
        unknown = False
        for part in parts:
            value = part(row)
            if value is None:
                unknown = True
            elif value:
                return True
        return None if unknown else False

    return disjunction

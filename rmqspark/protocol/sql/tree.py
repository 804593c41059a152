"""What an expression consists of once it is read.

The nodes are those of RocketMQ's org.apache.rocketmq.filter.expression, for its rules ask of which of these an operand
is. `at` is where a node begins in the text, counted from 0: errors name it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | None


class Kind(Enum):
    """What a node's value is if it is not null. Known beforehand: a property is always text."""

    TEXT = auto()
    INTEGER = auto()  # Java's int
    LONG = auto()
    DOUBLE = auto()
    BOOLEAN = auto()
    NOTHING = auto()  # never has a value


NUMBERS = frozenset({Kind.INTEGER, Kind.LONG, Kind.DOUBLE})


class Order(Enum):
    """The comparisons that need numbers."""

    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LESS = "<"
    LESS_OR_EQUAL = "<="


class Search(Enum):
    """The comparisons that look for a piece of text."""

    CONTAINS = "CONTAINS"
    STARTS_WITH = "STARTSWITH"
    ENDS_WITH = "ENDSWITH"


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    at: int
    value: Value
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class Property:
    at: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Negative:
    """Minus a number; minus anything else is null."""

    at: int
    operand: Node
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """A property where a condition is asked for: null if it is missing, else false, for it is text."""

    at: int
    operand: Property


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    at: int
    operand: Node


@dataclass(frozen=True, slots=True, eq=False)
class Equal:
    at: int
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class IsNull:
    at: int
    operand: Node


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    at: int
    order: Order
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """`outside` turns it into NOT BETWEEN."""

    at: int
    operand: Node
    low: Node
    high: Node
    outside: bool


@dataclass(frozen=True, slots=True, eq=False)
class In:
    at: int
    operand: Property
    values: frozenset[str]
    absent: bool


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    at: int
    search: Search
    operand: Node
    text: str
    absent: bool


@dataclass(frozen=True, slots=True, eq=False)
class And:
    at: int
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Or:
    at: int
    parts: tuple[Node, ...]


Node: TypeAlias = (
    Constant | Property | Negative | Truth | Not | Equal | IsNull | Ordered | Between | In | Searched | And | Or
)


def kind_of(node: Node) -> Kind:
    """What the node's value is."""
    match node:
        case Constant(kind=kind) | Negative(kind=kind):
            return kind
        case Property():
            return Kind.TEXT
        case _:
            return Kind.BOOLEAN


def children(node: Node) -> tuple[Node, ...]:
    """The nodes it is made of."""
    match node:
        case Negative() | Truth() | Not() | IsNull() | In() | Searched():
            return (node.operand,)
        case Equal() | Ordered():
            return (node.left, node.right)
        case Between():
            return (node.operand, node.low, node.high)
        case And() | Or():
            return node.parts
        case _:
            return ()

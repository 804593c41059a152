"""RocketMQ's own parser and evaluator beside ours: thousands of expressions, right and wrong, mean the same to both."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from rmqspark.errors import InvalidFilter
from rmqspark.protocol.sql.filter import SqlFilter
from rmqspark.protocol.sql.values import NotComparable

if TYPE_CHECKING:
    from jvm import Jvm

pytestmark = pytest.mark.java
EXPRESSIONS = 1500
SEED = 92
NUMBERS = "0 5 3 3.5 10L 2147483647 2147483648 9223372036854775807 1e3 .5 5. 5.e2 5l 9223372036854775808 0.0 01 1e400"
TEXTS = ["'x'", "'y'", "''", "'it''s'", "'5'", "'true'", "'ä'", "'a\nb'"]
NAMES = ["a", "b", "c", "d", "a", "b", "$x", "_y", "true1"]
OTHERS = """
    NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH LIKE not And = <> > >= < <= + - ( ) , --
    /* */ /*c*/ != == # ; ' é 1e
"""
VALUES = """
    5 3 x y 3.5 -5 +5 5.0 5d 5L 0x1p3 0X.8P0 NaN -NaN Infinity -Infinity -0 0 -0.0 0.0 true TRUE false 1e400 1e-400
    2147483647 2147483648 -2147483648 -2147483649 9223372036854775808 -9223372036854775808 ٥ ٥.5 5_0 . 1. .5 1e 1e5f
    inf nan it's 𝟓
"""
ODD_VALUES = [" 5", "5 ", "\u00a05", "\x005", "", "0" * 80 + "7", "9" * 100]


class Chance:
    """Draws expressions: most of them right, some made wrong, some of any tokens."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pick = self.random.choice
        self.numbers, self.others = NUMBERS.split(), OTHERS.split()
        self.values = [*VALUES.split(), *ODD_VALUES]

    def expression(self) -> str:
        kind = self.random.random()
        if kind < 0.6:
            return self.condition(3)
        if kind < 0.8:
            words = (
                self.pick(self.pick([self.numbers, TEXTS, NAMES, self.others, self.others]))
                for _ in range(self.random.randint(1, 9))
            )
            return "".join(word + self.pick(["", " ", " ", "\t"]) for word in words)
        text = self.condition(2)
        at = self.random.randrange(len(text))
        return text[:at] + self.pick(["", *self.others, *self.numbers]) + text[at + 1 :]

    def condition(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(["a", "TRUE", "FALSE", "NULL", "a = b", "c IS NULL"])
        one, other = self.condition(depth - 1), self.condition(depth - 1)
        x, y, z = (self.operand(depth - 1) for _ in range(3))
        negated = self.pick([" ", " NOT "])
        texts = ",".join(self.random.choices(TEXTS, k=self.random.randint(1, 6)))
        search = self.pick(["CONTAINS", "STARTSWITH", "ENDSWITH"])
        return self.pick(
            [
                f"{one} {self.pick(['AND', 'OR', 'and'])} {other}",
                f"NOT {one}",
                f"({one})",
                f"{x} {self.pick(['>', '>=', '<', '<='])} {y}",
                f"{x}{self.pick(['=', '<>'])}{y}",
                f"{x} IS{negated}NULL",
                f"{x}{negated}BETWEEN {y} AND {z}",
                f"{x}{negated}IN ({texts})",
                f"{x}{negated}{search} {self.pick(TEXTS)}",
                f"{one}{self.pick(['=', '<>', ' > '])}{other}",
            ]
        )

    def operand(self, depth: int) -> str:
        nested = f"({self.condition(depth)})" if depth > 0 else "a"
        return self.pick(
            [
                *NAMES,
                *NAMES,
                *self.numbers[:13],
                *TEXTS[:4],
                "TRUE",
                "NULL",
                f"-{self.pick(NAMES)}",
                "-5",
                nested,
                nested,
            ]
        )

    def properties(self) -> dict[str, str]:
        return {name: self.pick(self.values) for name in "abcd" if self.random.random() < 0.75}


def theirs(jvm: Jvm, compiled: Any, properties: dict[str, str]) -> object:
    table = jvm.java.util.HashMap()
    for name, value in properties.items():
        table.put(name, value)
    try:
        return compiled.evaluate(jvm.rocketmq.broker.filter.MessageEvaluationContext(table))
    except Py4JJavaError:
        return "exception"


def ours(wanted: SqlFilter, properties: dict[str, str]) -> object:
    try:
        return wanted.evaluate(properties)
    except NotComparable:
        return "exception"


def test_every_expression_means_what_it_means_to_rocketmq(jvm: Jvm) -> None:
    """Refused by both or by none, and for any properties true, false, null or an exception for both."""
    chance = Chance(SEED)
    parser = jvm.rocketmq.filter.FilterFactory.INSTANCE.get("SQL92")
    seen = set()
    for _ in range(EXPRESSIONS):
        expression = chance.expression()
        wanted = compiled = None
        try:
            wanted = SqlFilter.parse(expression)
        except InvalidFilter:
            seen.add("refused")
        with suppress(Py4JJavaError):
            compiled = parser.compile(expression)
        assert (wanted is None) == (compiled is None), expression
        for properties in [chance.properties() for _ in range(3)] if wanted else []:
            verdict = ours(wanted, properties)
            assert verdict == theirs(jvm, compiled, properties), (expression, properties)
            seen.add(verdict)
    assert seen == {"refused", "exception", None, True, False}

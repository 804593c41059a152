"""SQL92 filters mean what they mean to RocketMQ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidFilter
from rmqspark.protocol.filters import MAX_SQL_BYTES
from rmqspark.protocol.sql.filter import SqlFilter
from rmqspark.protocol.sql.values import NotComparable

_VECTORS = Path(__file__).parents[2] / "golden" / "sql"
GOLDEN = [case for file in sorted(_VECTORS.glob("*.json")) for case in json.loads(file.read_text())["meaning"]["cases"]]


def outcome(expression: str, properties: dict[str, str]) -> str:
    """What becomes of an expression, in the words of the vectors."""
    try:
        verdict = SqlFilter.parse(expression).evaluate(properties)
    except InvalidFilter:
        return "parse error"
    except NotComparable:
        return "exception"
    return "null" if verdict is None else str(verdict).lower()


@pytest.mark.golden
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["expression"])
def test_expressions_give_what_rocketmq_gives(case: dict) -> None:
    """True, false, null, exception or parse error: as RocketMQ's own classes answered."""
    assert outcome(case["expression"], case["properties"]) == case["result"]
    if case["result"] != "parse error":
        assert SqlFilter.parse(case["expression"]).matches(case["properties"]) is (case["result"] == "true")


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 = TRUE", "false"),
        ("(b IS NULL) = 1", "false"),
        ("a BETWEEN 2 AND b", "null"),
        ("NOT (a BETWEEN b AND 9)", "null"),
        ("NOT (a BETWEEN 4 AND b)", "true"),
    ],
)
def test_what_is_no_number_is_compared_with_none(expression: str, result: str) -> None:
    """Neither TRUE nor a property that is not there; the other bound may settle it."""
    assert outcome(expression, {"a": "3"}) == result


@pytest.mark.parametrize(
    ("expression", "place", "story"),
    [
        ("a > ", 5, "ends too early"),
        ("a > 3 AND", 10, "ends too early"),
        ("price ! 5", 7, "'!' begins nothing"),
        ("a = 'x", 5, '"\'" begins nothing'),
        ("a > > 3", 5, "'>' cannot stand here"),
        ("a NOT 5", 7, "'5' cannot stand here"),
        ("(a = 'x'", 9, "ends too early"),
        ("b = 'y' AND a > 'x'", 17, "'x' is no number"),
        ("a < TRUE", 5, "TRUE is no number"),
        ("a = NULL", 5, "nothing equals NULL"),
        ("a BETWEEN 9 AND 2", 11, "nothing is between 9 and 2"),
        ("a > 9223372036854775808", 5, "more than a long"),
        ("a > 0.0", 5, "not what a double can be"),
        ("7", 1, "a condition is needed"),
        ("-a AND b", 2, "a condition is needed"),
        ("TRUE = 'x'", 8, "neither TRUE nor FALSE"),
        ("'x' IN ('x')", 1, "the name of a property"),
        (f"a IN ({','.join(['1234'] * 3)})", 7, "cannot stand here"),
        ("a IN ('x'" + ",'x'" * 512 + ")", 2055, "the most are 512"),
        ("(" * 500 + "a" + ")" * 500, 257, "nested more than 64 deep"),
        ("NOT " * 65 + "a", 261, "nested more than 64 deep"),
        ("a = b" + " = c" * 100, 153, "nested more than 64 deep"),
        ("-" * 4_000, 257, "nested more than 64 deep"),
    ],
)
def test_a_mistake_is_shown_with_its_place(expression: str, place: int, story: str) -> None:
    """An error names the character, counted from 1, and what is wrong with it."""
    with pytest.raises(InvalidFilter) as error:
        SqlFilter.parse(expression)
    assert f"at character {place}: " in error.value.message
    assert story in error.value.message


@pytest.mark.parametrize(
    ("expression", "place", "story"),
    [
        (
            "x >= 390 OR TAGS LIKE 'p%'",
            18,
            "'LIKE' is not understood here. There are CONTAINS, STARTSWITH and ENDSWITH",
        ),
        ("x >= 390 LIMIT 3", 10, "'LIMIT' is not understood here. There are conditions alone"),
        ("x >= 390 ORDER BY x", 10, "'ORDER' is not understood here"),
        ("x + 1 > 390", 3, "'+' is not understood here. There is no arithmetic"),
        ("x >= 390)", 9, "')' is not understood here. No bracket is open there"),
        ("length(TAGS) > 3", 7, "'(' is not understood here. There are no functions"),
        ("SELECT 1", 8, "'1' is not understood here"),
        ("a > 3 5", 7, "'5' is not understood here"),
    ],
)
def test_what_follows_a_whole_expression_is_told_to_who_typed_it(expression: str, place: int, story: str) -> None:
    """Brokers ignore it, as RocketMQ does: a condition would be gone, without a word."""
    SqlFilter.parse(expression)
    with pytest.raises(InvalidFilter) as error:
        SqlFilter.parse(expression, whole=True)
    assert f"at character {place}: {story}" in str(error.value)


@pytest.mark.parametrize("expression", ["a > 3 -- why\n", "(a = 'x') /* 5 */ ", "TAGS = 'p' OR b IS NULL\n"])
def test_whole_expressions_are_whole(expression: str) -> None:
    """Comments, brackets and blanks at the end are nothing that is ignored."""
    assert SqlFilter.parse(expression, whole=True).expression == expression


@pytest.mark.parametrize("expression", [None, "", " \n", "a = 'x' " + " " * MAX_SQL_BYTES, "ä" * (2 << 10) + "ä"])
def test_an_expression_has_a_length(expression: str | None) -> None:
    """None at all is an error, and so is one of more than 4 KiB."""
    with pytest.raises(InvalidFilter, match="empty|over the limit"):
        SqlFilter.parse(expression)


def test_long_lists_of_conditions_are_fine() -> None:
    """AND and OR nest nothing, however many they join: hundreds of ids can be asked for."""
    expression = " OR ".join(f"id = '{number}'" for number in range(250))
    assert SqlFilter.parse(expression).matches({"id": "249"})
    assert not SqlFilter.parse(expression).matches({"id": "250"})
    values = ",".join(f"'{number}'" for number in range(512))
    assert SqlFilter.parse(f"id IN ({values})").matches({"id": "511"})


def test_few_long_expressions_are_kept() -> None:
    """256 of 4 KiB, which anybody may send, took 115 MiB for good; short ones stay, however many long ones come."""
    long = [f"a = '{'x' * 600}{number}'" for number in range(40)]
    short, kept = SqlFilter.parse("a = 'short'"), [SqlFilter.parse(expression) for expression in long]
    assert SqlFilter.parse(long[-1]) is kept[-1]
    assert SqlFilter.parse(long[0]) is not kept[0]
    assert SqlFilter.parse("a = 'short'") is short


def test_what_is_nested_in_bounds_is_evaluated_once() -> None:
    """BETWEEN within BETWEEN costs a step a level, not twice as much with each."""
    expression = "-(" * 30 + "a BETWEEN 1 AND 2" + ") BETWEEN 1 AND 2" * 30
    assert SqlFilter.parse(expression).evaluate({"a": "1"}) is None
    assert SqlFilter.parse(expression).cost < 150


_WORDS = """
    a b $c _d 'x' 'it''s' '' 0 5 5L 3.5 .5 5. 1e3 1e999 = <> > >= < <= + - ( ) , AND OR NOT IN IS NULL TRUE FALSE
    BETWEEN CONTAINS STARTSWITH ENDSWITH and -- /* */ /*c*/ ' ; é
"""
_PROPERTIES = st.dictionaries(
    st.sampled_from(["a", "b", "$c", "_d", "AND"]),
    st.sampled_from(["5", "x", "3.5", "NaN", "true"]) | st.text(max_size=5),
)


@pytest.mark.property
@given(st.lists(st.sampled_from(_WORDS.split()), max_size=30).map(" ".join) | st.text(max_size=40), _PROPERTIES)
def test_any_text_is_an_expression_or_an_error(text: str, properties: dict[str, str]) -> None:
    """Nothing but InvalidFilter leaves the parser, and what was read answers yes or no."""
    try:
        read = SqlFilter.parse(text)
    except InvalidFilter:
        return
    assert read.matches(properties) in (True, False)
    assert read.cost >= 1

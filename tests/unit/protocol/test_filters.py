"""Tag expressions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidFilter
from rmqspark.protocol.filters import TagFilter
from rmqspark.protocol.java_hash import java_hash
from rmqspark.protocol.names import trimmed_tag


@pytest.mark.parametrize("expression", [None, "", "*", " ", " * "])
def test_everything_needs_no_filter(expression: str | None) -> None:
    """A subscription to all tags is no filter at all."""
    assert TagFilter.parse(expression) is None


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("TagA", {"TagA"}),
        ("TagA || TagB", {"TagA", "TagB"}),
        ("TagA||TagB|| TagA", {"TagA", "TagB"}),
        ("|| TagA ||", {"TagA"}),
        ("a|b", {"a|b"}),
        ("订单 || order", {"订单", "order"}),
        ("TagA || *", {"TagA", "*"}),
        ("\u3000TagA||TagB\u00a0 || \u2003*", {"\u3000TagA", "TagB\u00a0", "\u2003*"}),
        ("\0TagA \x1f||\tTagB\x01\n", {"TagA", "TagB"}),
        ("\u3000", {"\u3000"}),
    ],
)
def test_tags_are_joined_by_two_bars(expression: str, tags: set[str]) -> None:
    """Expressions are split as RocketMQ splits them."""
    parsed = TagFilter.parse(expression)
    assert parsed is not None
    assert parsed.tags == tags
    assert parsed.codes == {java_hash(tag) for tag in tags}


@pytest.mark.parametrize(
    "expression", ["paid,shipped", "paid|shipped", "paid && shipped", "paid OR shipped", "x || pai*", "paid || *"]
)
def test_tags_that_look_like_several_are_doubted(expression: str) -> None:
    """RocketMQ takes them for one tag, and a query would wait for it for ever; but messages may have it."""
    parsed = TagFilter.parse(expression)
    assert parsed is not None
    assert "with exactly the tag" in (parsed.doubt or "")
    assert TagFilter.of("paid", "in-transit", "a.b/c:d", "订单").doubt is None


def test_tags_are_compared_not_their_hashes() -> None:
    """Two tags with one hash code are two tags to a reader."""
    parsed = TagFilter.of("Aa")
    assert java_hash("Aa") == java_hash("BB")
    assert parsed.matches("Aa")
    assert not parsed.matches("BB")


def test_messages_without_tags_match_no_filter() -> None:
    """Only a subscription to everything gets untagged messages."""
    assert not TagFilter.of("a").matches(None)
    assert not TagFilter.of("a").matches("")


@pytest.mark.parametrize("expression", ["||", " || || ", "x" * 4097, "订" * 1400])
def test_expressions_that_name_nothing_or_too_much_are_refused(expression: str) -> None:
    """An expression without a tag, or beyond 4 KiB, is an error and not a silent nothing."""
    with pytest.raises(InvalidFilter):
        TagFilter.parse(expression)


@pytest.mark.property
@given(
    st.sets(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="|"), min_size=1)
        .map(trimmed_tag)
        .filter(bool),
        min_size=1,
        max_size=6,
    )
)
def test_a_filter_reads_what_it_writes(tags: set[str]) -> None:
    """An expression made from tags selects just these."""
    parsed = TagFilter.parse(str(TagFilter.of(*tags)))
    assert parsed == (None if tags == {"*"} else TagFilter.of(*tags))
    if parsed:
        assert all(parsed.matches(tag) for tag in tags)

"""What a consumer may ask to be filtered by: tags, or a SQL92 expression over properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import InvalidFilter, ServerFault
from rmqspark.protocol.bodies.client import SQL92, TAG
from rmqspark.protocol.faults import SQL_UNSUPPORTED
from rmqspark.protocol.filters import TagFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqspark.protocol.bodies.client import SubscriptionData
    from rmqspark.protocol.sql.filter import SqlFilter


class Difference(NamedTuple):
    """Of a topic two members of a group want different messages."""

    topic: str
    one: str
    another: str


def difference(known: Mapping[str, SubscriptionData], told: Iterable[SubscriptionData]) -> Difference | None:
    """The first topic of which `told` wants others than what is known by its name."""
    pairs = ((known[each.topic], each) for each in told if each.topic in known)
    return next((Difference(b.topic, a.subString, b.subString) for a, b in pairs if _wanted(a) != _wanted(b)), None)


def _wanted(subscription: SubscriptionData) -> tuple[str, frozenset[str]]:
    if subscription.expressionType == SQL92:
        return SQL92, frozenset([(subscription.subString or "").strip()])
    return TAG, frozenset(tag.strip() for tag in (subscription.subString or "*").split("||"))


class Filter(NamedTuple):
    """The messages that are wanted: those with one of these tags (their hash codes), or those an expression accepts.
    With neither, all are."""

    tag_codes: frozenset[int] | None = None
    sql: SqlFilter | None = None


EVERYTHING: Final = Filter()


def parse_subscription(expression: str | None, expression_type: str | None, *, property_filter: bool) -> Filter:
    """The filter a subscription stands for.

    Raises InvalidFilter for what is no expression, and RocketMQ's SYSTEM_ERROR for SQL92 where `property_filter` is off
    (the broker's enable_property_filter).
    """
    if expression_type == SQL92:
        if not property_filter:
            raise ServerFault(SQL_UNSUPPORTED)
        from rmqspark.protocol.sql.filter import SqlFilter  # brings the grammar, which a broker may never need

        return Filter(sql=SqlFilter.parse(expression))
    if expression_type not in (None, "", TAG):
        raise InvalidFilter(f"There are no expressions of type {expression_type!r}.")
    tags = TagFilter.parse(expression)
    return EVERYTHING if tags is None else Filter(tag_codes=tags.codes)

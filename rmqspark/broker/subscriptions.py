"""What a consumer may ask to be filtered by: tags, so far."""

from __future__ import annotations

from typing import Final

from rmqspark.errors import InvalidFilter, ServerFault
from rmqspark.protocol.bodies_client import SQL92, TAG
from rmqspark.protocol.filters import TagFilter

_SQL_UNSUPPORTED: Final = "The broker does not support consumer to filter message by SQL92"  # RocketMQ's words


def parse_subscription(expression: str | None, expression_type: str | None) -> TagFilter | None:
    """The filter a subscription stands for, None for everything.

    Raises InvalidFilter for what is no expression, and RocketMQ's SYSTEM_ERROR for SQL92, which it too answers while
    property filters are off.
    """
    if expression_type == SQL92:
        raise ServerFault(_SQL_UNSUPPORTED)
    if expression_type not in (None, "", TAG):
        raise InvalidFilter(f"There are no expressions of type {expression_type!r}.")
    return TagFilter.parse(expression)

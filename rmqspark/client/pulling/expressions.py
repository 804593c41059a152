"""What consumers say of the messages they want: tags, or a SQL92 expression. Mistakes show before a broker is asked."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.names import trimmed_tag

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.model import ReceivedMessage

_log = logging.getLogger(__name__)


def check_sql(sql: str, tags: str) -> None:
    """Raises InvalidFilter for what is no expression, and InvalidArgument where tags are asked for beside it."""
    from rmqspark.protocol.sql.filter import SqlFilter  # brings the grammar

    if trimmed_tag(tags) not in ("", "*"):
        raise InvalidArgument("tags and sql exclude each other.", hint="In SQL92 tags are a property: TAGS = 'paid'")
    SqlFilter.parse(sql, whole=True)


def tag_test(tags: str) -> Callable[[ReceivedMessage], bool] | None:
    """The exact test, which is the client's: brokers go by the hash of tags (spec: semantics, section 8.7). None where
    every message is wanted."""
    if trimmed_tag(tags) in ("", "*"):
        return None
    from rmqspark.protocol.filters import TagFilter  # brings NumPy, which only filters ask for

    wanted = TagFilter.parse(tags)
    if wanted is None:
        return None
    if wanted.doubt:
        _log.warning("%s", wanted.doubt)
    return lambda message: wanted.matches(message.tags)

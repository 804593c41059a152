"""The options `tags` and `sql`, read where the query is planned: a mistake shows before any job starts."""

from __future__ import annotations

import logging

from rmqspark.options import text

_log = logging.getLogger(__name__)


def tag_expression(value: str) -> str:
    """The expression as it is, if it is one; with a warning if it can hardly be meant. Raises InvalidFilter, a
    ValueError."""
    from rmqspark.protocol.filters import TagFilter  # brings NumPy, which only those who filter wait for

    wanted = TagFilter.parse(text(value))
    if wanted is not None and wanted.doubt:
        _log.warning("%s", wanted.doubt)
    return value


def sql_expression(value: str) -> str:
    """The same for SQL92. The error names the character where it goes wrong, or where brokers would stop reading."""
    from rmqspark.protocol.sql.filter import SqlFilter  # brings the grammar, which only those who filter wait for

    return SqlFilter.parse(value, whole=True).expression

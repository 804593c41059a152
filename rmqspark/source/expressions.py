"""The options `tags` and `sql`, read where the query is planned: a mistake shows before any job starts."""

from __future__ import annotations

from rmqspark.options import text


def tag_expression(value: str) -> str:
    """The expression as it is, if it is one. Raises InvalidFilter, a ValueError."""
    from rmqspark.protocol.filters import TagFilter  # brings NumPy, which only those who filter wait for

    TagFilter.parse(text(value))
    return value


def sql_expression(value: str) -> str:
    """The same for SQL92. The error names the character where it goes wrong, or where brokers would stop reading."""
    from rmqspark.protocol.sql.filter import SqlFilter  # brings the grammar, which only those who filter wait for

    return SqlFilter.parse(value, whole=True).expression

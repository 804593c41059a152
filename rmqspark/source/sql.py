"""The option `sql`, read where the query is planned: a mistake shows before any job starts."""

from __future__ import annotations


def sql_expression(value: str) -> str:
    """The expression as it is, if it is one. Raises InvalidFilter naming the character where it goes wrong."""
    from rmqspark.protocol.sql.filter import SqlFilter  # brings the grammar, which only those who filter wait for

    return SqlFilter.parse(value).expression

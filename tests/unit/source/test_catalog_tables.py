"""Tables of Spark's catalog: what it asks for when one is made."""

from __future__ import annotations

import pytest

from rmqspark.errors import NotSupported
from rmqspark.source.catalog_tables import is_catalog_table


@pytest.mark.parametrize(
    ("options", "is_table"),
    [
        ({"provider": "rmq", "owner": "me"}, True),
        ({"subscribe": "orders", "namesrv": "h:1"}, False),
        ({}, False),
    ],
)
def test_a_table_is_told_from_a_read(options: dict[str, str], is_table: bool) -> None:
    """Only CREATE TABLE names a provider."""
    assert is_catalog_table(options) is is_table


def test_options_that_spark_would_forget_are_refused() -> None:
    """Whoever gives a table options is told that they would be lost, and what to do."""
    with pytest.raises(NotSupported, match="namesrv, subscribe.*TEMPORARY VIEW"):
        is_catalog_table(
            {"provider": "rmq", "subscribe": "t", "option.subscribe": "t", "namesrv": "h", "option.namesrv": "h"}
        )

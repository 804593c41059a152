"""Tables of Spark's catalog: what they keep of their options, and what a read makes of it."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from rmqspark.datasource import RmqDataSource
from rmqspark.errors import InvalidArgument, NotSupported, RmqError
from rmqspark.source.catalog_tables import check_insert, is_catalog_table, table_columns, with_options_of_table
from rmqspark.source.options import SourceOptions
from rmqspark.source.values.schema import check_schema, default_schema

ORDERS = {"namesrv": "h:1", "subscribe": "orders", "tags": "paid", "startingtimestamp": "-1h"}


def made_with(options: dict[str, str], **properties: str) -> StructType:
    """The columns of CREATE TABLE … USING rmq OPTIONS (…), as Spark asks for them and keeps them."""
    marked = {f"option.{name}": value for name, value in options.items()}
    columns = table_columns({"provider": "rmq", "owner": "me", **options, **marked, **properties})
    return StructType.fromJson(columns.jsonValue())


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


def test_a_table_without_options_is_plain() -> None:
    """Its columns are those of any read, and say nothing of one."""
    assert made_with({}) == default_schema()
    assert with_options_of_table(made_with({}), {"subscribe": "t"}) == {"subscribe": "t"}


@pytest.mark.parametrize(
    ("given", "read_with"),
    [
        ({}, ORDERS),
        ({"TAGS": "lost"}, ORDERS | {"tags": "lost"}),
        ({"sql": "a > 3"}, {**{name: ORDERS[name] for name in ORDERS if name != "tags"}, "sql": "a > 3"}),
        ({"nameServer": "x:2"}, {**ORDERS, "namesrv": "x:2"}),
        ({"startingOffsets": "earliest"}, {**ORDERS, "startingtimestamp": None, "startingOffsets": "earliest"}),
        ({"path": "other", "group": "g"}, {**ORDERS, "subscribe": "other", "group": "g"}),
        ({"assign": '{"t":{"b":[0]}}'}, {**ORDERS, "subscribe": None, "assign": '{"t":{"b":[0]}}'}),
    ],
)
def test_a_query_adds_to_the_options_of_its_table(given: dict[str, str], read_with: dict[str, str | None]) -> None:
    """What it says itself counts, in whatever spelling, and what it says instead."""
    spelled = {"nameServer": "namesrv", "path": "subscribe", "TAGS": "tags"}
    found = with_options_of_table(made_with(ORDERS), given)
    expected = {name: value for name, value in read_with.items() if value is not None}
    assert {spelled.get(name, name): value for name, value in found.items()} == expected


@pytest.mark.parametrize(
    ("held", "given", "kept"),
    [
        (
            {"startingtimestamp": "-1h", "startingoffsetsbytimestampstrategy": "latest"},
            {"startingOffsets": "latest"},
            (),
        ),
        (
            {"startingtimestamp": "-1h", "startingoffsetsbytimestampstrategy": "latest"},
            {"startingOffsetsByTimestamp": '{"orders":"-2h"}'},
            ("startingoffsetsbytimestampstrategy",),
        ),
        (
            {"startingoffsets": "group", "group": "g", "groupoffsetreset": "earliest"},
            {"startingTimestamp": "-1h"},
            ("group",),
        ),
        (
            {"startingoffsets": "group", "group": "g", "groupoffsetreset": "earliest"},
            {"tags": "paid"},
            ("startingoffsets", "group", "groupoffsetreset"),
        ),
    ],
)
def test_a_query_that_starts_elsewhere_is_rid_of_what_belongs_to_its_tables_start(
    held: dict[str, str], given: dict[str, str], kept: tuple[str, ...]
) -> None:
    """Beside the start that the query names it would be an error, which nobody could do anything about."""
    found = with_options_of_table(made_with({"subscribe": "orders", **held}), given)
    assert found == {"subscribe": "orders", **{name: held[name] for name in kept}, **given}
    SourceOptions.parse(found, streaming=True)


def test_the_columns_of_a_table_are_read() -> None:
    """A body is there in every message; nothing else differs from a read that names no columns."""
    columns = made_with(ORDERS)
    assert check_schema(columns) is columns
    assert [field.name for field in columns if not field.nullable] == ["body"]


def test_properties_of_the_users_own_are_let_be() -> None:
    """TBLPROPERTIES are Spark's and the user's; ours belong in OPTIONS."""
    assert with_options_of_table(made_with(ORDERS, team="billing", comment="paid orders"), {}) == ORDERS
    with pytest.raises(NotSupported, match="'namesrv'.*belongs in OPTIONS"):
        made_with({"subscribe": "orders"}, namesrv="h:1")


@pytest.mark.parametrize(
    ("options", "story"),
    [
        ({"subscribe": "t", "secretkey": "s"}, "'secretKey' is not kept in a table.*WITH"),
        ({"subscribe": "t", "tlskeypassword": "s"}, "'tlsKeyPassword' is not kept in a table"),
        ({"subscribe": "t", "startingofsets": "earliest"}, "Did you mean 'startingOffsets'"),
        ({"subscribe": "t", "tags": "a", "sql": "b > 3"}, "exclude each other"),
        ({"namesrv": "h:1"}, "No topic to read"),
    ],
)
def test_what_no_table_can_be_made_with(options: dict[str, str], story: str) -> None:
    """The error comes when the table is made, not with its first query."""
    with pytest.raises(InvalidArgument, match=story):
        made_with(options)


def test_a_topic_is_no_path() -> None:
    """Spark takes a table's path for a place in the file system."""
    with pytest.raises(NotSupported, match="subscribe 'orders'"):
        table_columns({"provider": "rmq", "path": "orders", "location": "orders"})


@pytest.mark.parametrize("given", [{}, {"compression": "zstd"}, {"deliveryGuarantee": "at-least-once"}])
def test_an_insert_says_where_to(given: dict[str, str]) -> None:
    """Whose options they are that stand in the columns of a write cannot be told, so it goes by its own."""
    with pytest.raises(RmqError, match="Name them: INSERT INTO t WITH"):
        check_insert(made_with(ORDERS), given)
    with pytest.raises(RmqError, match="Name them: INSERT INTO t WITH"):
        RmqDataSource(dict(given)).writer(made_with(ORDERS), overwrite=False)
    with pytest.raises(RmqError, match="Name them: INSERT INTO t WITH"):  # else it would go back to where it is from
        RmqDataSource(dict(given)).streamWriter(made_with(ORDERS), overwrite=False)


@pytest.mark.parametrize("given", [{"topic": "t"}, {"Path": "t"}, {"nameServer": "h:1"}])
def test_an_insert_that_says_where_to(given: dict[str, str]) -> None:
    check_insert(made_with(ORDERS), given)
    check_insert(default_schema(), {})

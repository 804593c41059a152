"""Tables of Spark's catalog: `CREATE TABLE t USING rmq OPTIONS (…)`.

Tried with PySpark 4.2.0: what OPTIONS names is there when the table is made (each also under `option.`, beside
`provider`, `owner`, `location`), and never again: a SELECT or INSERT gives a Python source none of it, only what its
own WITH (…) names. What Spark keeps, and hands to whoever reads the table, are the columns. So the options stand in
the metadata of the first one, and a read adds its own to them.

An INSERT cannot go by them. Spark hands a writer the columns of the rows: most times it has put the table's metadata on
them, but where names and types are the same already, as of rows SELECTed from another topic, they bring their own, and
would go back to where they come from. So an INSERT names its topic itself. For that to be noticed, `body` is NOT NULL
in such a table: then rows of a plain read are never taken as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from rmqspark.errors import InvalidArgument, NotSupported

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPTIONS = "rmq.options"  # in the metadata of a column
_IN_OPTIONS = "option."
_A_PLACE = ("path", "location")
_FOR_AN_INSERT = frozenset({"topic", "path", "namesrv", "nameserver", "namesrvaddr"})


def is_catalog_table(options: Mapping[str, str]) -> bool:
    """Whether a table of Spark's catalog is being made: only then is there a provider."""
    return "provider" in {name.lower() for name in options}


def table_columns(options: Mapping[str, str]) -> StructType:
    """The columns of the table that is being made, which hold its options. Raises what a read with these raises, and
    NotSupported or InvalidArgument for what has no place in a table."""
    from rmqspark.source.options import read_options
    from rmqspark.source.values.schema import default_schema
    from rmqspark.source.values.value_schema import default_read_schema

    given = _options_of_table({name.lower(): value for name, value in options.items()})
    if not given:
        return default_schema()
    return _holding(default_read_schema(read_options(given)), given)


def with_options_of_table(schema: StructType, given: Mapping[str, str]) -> Mapping[str, str]:
    """The options of a read: those given, and of the table that is read what they do not say or replace."""
    held = _held(schema)
    if not held:
        return given
    from rmqspark.source.option_table import SOURCE_OPTIONS  # of use to tables alone
    from rmqspark.source.options import EXCLUSIVE, NEEDED

    said = {SOURCE_OPTIONS.name_of(typed) for typed in given}
    replaced = said.union(*(names for names in EXCLUSIVE if not said.isdisjoint(names)))
    there = said | {name for typed in held if (name := SOURCE_OPTIONS.name_of(typed)) not in replaced}
    # What belongs to a start that is replaced would be an error without it.
    replaced |= {name for name, needed in NEEDED.items() if there.isdisjoint(needed)}
    if "startingOffsets" in replaced:
        replaced.add("groupOffsetReset")
    return {name: value for name, value in held.items() if SOURCE_OPTIONS.name_of(name) not in replaced} | dict(given)


def check_insert(schema: StructType, given: Mapping[str, str]) -> None:
    """Raises NotSupported for rows of or for a table with options, where the write says nothing of where they go."""
    if _held(schema) and _FOR_AN_INSERT.isdisjoint(name.lower() for name in given):
        raise NotSupported(
            "Spark gives a write none of its table's options.",
            hint="Name them: INSERT INTO t WITH (namesrv '…', topic 'orders') …, of a stream .option(\"topic\", …); or "
            "insert into a temporary view.",
        )


def _options_of_table(options: Mapping[str, str]) -> dict[str, str]:
    from rmqspark.client.cluster_options import SECRET_NAMES
    from rmqspark.source.option_table import SOURCE_OPTIONS

    given = {name.removeprefix(_IN_OPTIONS): value for name, value in options.items() if name.startswith(_IN_OPTIONS)}
    for name in options:
        if name in _A_PLACE:
            raise NotSupported("A topic lies in no path.", hint="Name it in OPTIONS (subscribe 'orders').")
        if name not in given and SOURCE_OPTIONS.name_of(name) is not None:
            raise NotSupported(f"Property {name!r} of a table says nothing to rmq.", hint="It belongs in OPTIONS (…).")
    for name in given:
        if SOURCE_OPTIONS.name_of(name) in SECRET_NAMES:
            raise InvalidArgument(
                f"Option {SOURCE_OPTIONS.name_of(name)!r} is not kept in a table, which others may look at.",
                hint="Name it in each query, SELECT … FROM t WITH (…), or in the environment (docs/spark.md).",
            )
    return given


def _holding(columns: StructType, options: dict[str, str]) -> StructType:
    first, *others = (_never_null(field) for field in columns)
    return StructType([StructField(first.name, first.dataType, first.nullable, {_OPTIONS: options}), *others])


def _never_null(field: StructField) -> StructField:
    from rmqspark.source.values.schema import COLUMNS

    is_body = field.name == "body" and field.dataType == COLUMNS["body"]
    return StructField(field.name, field.dataType, nullable=False) if is_body else field


def _held(schema: StructType) -> dict[str, Any]:
    return next((field.metadata[_OPTIONS] for field in schema if _OPTIONS in field.metadata), {})

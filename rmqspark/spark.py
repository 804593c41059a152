"""Topics as tables of a Spark session.

    import rmqspark.spark
    rmqspark.spark.register(spark, "orders", namesrv="127.0.0.1:9876")
    spark.sql("SELECT tags, count(*) FROM orders GROUP BY tags")
    spark.sql("INSERT INTO orders (body) VALUES (CAST('new' AS BINARY))")

They are temporary views, which can be written to as well as read; `source/catalog_tables.py` has what a table of
Spark's catalog can do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SPARKS_OWN_WORD = re.compile("[A-Za-z0-9_.]+|`.*`")  # with dots it is none of a view, as Spark says best
_WHAT_TO_READ = ("subscribe", "subscribePattern", "assign", "store")


def register(
    spark: SparkSession,
    name: str,
    topic: str | None = None,
    *,
    schema: str | StructType | None = None,
    stream: bool = False,
    **options: str | int | bool | None,
) -> DataFrame:
    """Makes the temporary view `name` over `topic`, or over what the options name (`subscribe`, `subscribePattern`,
    `assign`, `store`), else over the topic of that name; returns its frame.

    What it reads is fixed by the first query of it, as with any frame of a Python source; to see what came since, call
    this again: a view of that name is replaced. With `stream` the view is a stream: `spark.table(name).writeStream`.
    `schema` selects columns; `options` are those of the source (docs/spark.md), None for one that is not given. With
    no more of them than the sink has, too (`namesrv`, keys, TLS), the view can be written to: INSERT INTO sends to the
    topic. A name with hyphens, which topics may have, stands in backquotes in SQL: SELECT * FROM `my-orders`. Raises
    InvalidArgument for a topic beside such an option, and what `load` raises.
    """
    given = {option: value for option, value in options.items() if value is not None}  # with which Spark cannot do
    path = _path(name, topic, given)
    reader = (spark.readStream if stream else spark.read).format("rmq").options(**given)
    frame = (reader if schema is None else reader.schema(schema)).load(path)
    frame.createOrReplaceTempView(name if _SPARKS_OWN_WORD.fullmatch(name) else f"`{name}`")
    return frame


def _path(name: str, topic: str | None, options: Iterable[str]) -> str | None:
    """What to load; None where the options say it."""
    given = {option.lower() for option in options}
    named = next((option for option in _WHAT_TO_READ if option.lower() in given), None)
    if named is None:
        return topic or name
    if topic is None:
        return None
    raise InvalidArgument(
        f"The topic {topic!r} and option {named!r} both say what to read.", hint="Give one of them to register()."
    )

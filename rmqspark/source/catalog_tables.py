"""`CREATE TABLE … USING rmq`: Spark asks for the columns, and keeps the columns alone.

Tried with PySpark 4.2.0: what OPTIONS names is there when the table is made (each also under `option.`, beside
`provider`, `owner`, `location`), and never again: a SELECT or INSERT gives a Python source none of it, only what its
own WITH (…) names. So options of a table are refused, rather than forgotten. A temporary view keeps its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import NotSupported

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPARKS_OWN = frozenset({"provider", "owner", "comment", "collation", "external", "is_managed_location"})


def is_catalog_table(options: Mapping[str, str]) -> bool:
    """Whether a table of Spark's catalog is being made. Raises NotSupported for one with options."""
    given = {name.lower() for name in options}
    if "provider" not in given:
        return False
    lost = sorted(name for name in given - _SPARKS_OWN if not name.startswith("option."))
    if lost:
        raise NotSupported(
            f"Spark would forget the options of this table: {', '.join(lost)}.",
            hint="Use CREATE TEMPORARY VIEW … USING rmq OPTIONS (…), or rmqspark.spark.register; "
            "or leave OPTIONS out here and name them in each query: SELECT … FROM t WITH (subscribe 'orders').",
        )
    return True

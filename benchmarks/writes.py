"""A batch job into a topic, beside Kafka's connector: rows that Spark makes up, at-least-once and exactly-once.

`with tags, keys, shardingKey` goes beside Kafka's rows with a key and two headers. Kafka's connector has nothing but
at-least-once, and is that in every line. `in large sends` has the settings that docs/spark.md advises for rows of a
kilobyte; all else, and Kafka's connector everywhere, has its defaults.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from figures import Comparison
from given import LARGE, SMALL
from sides import LARGE_SENDS, Nothing, arrow_batches, settings, started
from spark_paths import session
from turns import Way, in_turns

if TYPE_CHECKING:
    from given import Given
    from pyspark.sql import SparkSession
    from sides import Side

EXACT = {"transactionalId": "bench"}
BODY = "cast(repeat('x', {}) AS binary) AS body"
# About as long as those of an order: a key of a thousand customers, one tag of eight, one key of its own.
DRESSED = ["concat('customer-', id % 1000) AS key", "concat('tag-', id % 8) AS tags", "cast(id AS string) AS keys"]
# What is asked of us, in times Kafka's rows a second, by bytes of a body (issue D).
ASKED = {
    "write, at-least-once": {SMALL: 2.0, LARGE: 3.0},
    "write, exactly-once": {SMALL: 1.6, LARGE: 2.5},
    "write in large sends, at-least-once": {LARGE: 3.0},
    "write in large sends, exactly-once": {LARGE: 2.5},
    "write with tags, keys, shardingKey, at-least-once": {SMALL: 1.0, LARGE: 1.0},
    "write with tags, keys, shardingKey, exactly-once": {SMALL: 1.0, LARGE: 1.0},
}


def measure(given: Given) -> list[dict[str, Any]]:
    """Bodies alone, and with all that a row can have; each pair on servers of its own, which bounds the disk's use."""
    spark = session(settings("kafka"))
    kinds = [("write", []), ("write with tags, keys, shardingKey", DRESSED)]
    compared = [
        line
        for size in (SMALL, LARGE)
        for name, columns in kinds
        for line in _writes(spark, given, size, name, [BODY.format(size), *columns])
    ]
    return [line.as_json() for line in compared]


def _writes(spark: SparkSession, given: Given, size: int, name: str, columns: list[str]) -> list[Comparison]:
    rows = given.rows_of(size)
    topics = Topics(spark, columns, rows, given.queues)
    with ExitStack() as stack:
        stack.enter_context(given.memory())
        ours, theirs = (stack.enter_context(started(side)) for side in ("rmqspark", "kafka"))
        ways = [
            topics.way(f"{name}, at-least-once", ours, {}),
            topics.way(f"{name}, Kafka", theirs, {}),
            topics.way(f"{name}, exactly-once", ours, EXACT),
            topics.way(f"{name}, the bridge alone", Nothing(spark, rows, given.queues, size), {}),
        ]
        if size == LARGE and name == "write":
            ways += [
                topics.way("write in large sends, at-least-once", ours, LARGE_SENDS),
                topics.way("write in large sends, exactly-once", ours, LARGE_SENDS | EXACT),
            ]
        plain, peer, *others = in_turns(ways, given.repeat, given.timeout)
    return [Comparison(each.path, size, each, peer, ASKED.get(each.path, {}).get(size)) for each in (plain, *others)]


class Topics:
    """Writes the same rows into a new topic each time."""

    def __init__(self, spark: SparkSession, columns: list[str], rows: int, queues: int) -> None:
        self._spark, self._columns, self._rows, self._queues = spark, columns, rows, queues
        self._numbers = itertools.count(1)

    def way(self, name: str, side: Side | Nothing, options: dict[str, str]) -> Way:
        return Way(
            name,
            self._rows,
            run=lambda topic: self._write(side, topic, options),
            count=lambda topic: side.read(self._spark, topic).count(),
            target=lambda: self._new(side),
            tries=side.tries,
        )

    def _new(self, side: Side | Nothing) -> str:
        topic = f"target-{next(self._numbers)}"
        side.create_topic(self._spark, topic, self._queues)
        return topic

    def _write(self, side: Side | Nothing, topic: str, options: dict[str, str]) -> None:
        """With a transactional id, the version is the number of the topic."""
        version = {"transactionVersion": topic.removeprefix("target-")} if "transactionalId" in options else {}
        with arrow_batches(self._spark, options.get("batchBytes")):
            side.write(self._spark.range(self._rows).selectExpr(*self._columns), topic, **options, **version)

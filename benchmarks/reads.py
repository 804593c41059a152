"""Reading a topic from its beginning to its end, as a batch and as a stream, beside Kafka's connector.

Rows go into Spark's noop sink. `direct` is `readMode=direct`: tasks read the broker's files themselves.
"""

from __future__ import annotations

import functools
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from figures import Comparison
from given import LARGE, SMALL
from sides import settings, started
from spark_paths import session
from turns import Way, in_turns, limited, progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from given import Given
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from sides import Side

TOPIC = "source"
DIRECT = {"readMode": "direct"}
ROWS_A_BATCH = 500_000
# What is asked of us, in times Kafka's rows a second, by bytes of a body (issue D).
ASKED = {
    "read, all columns": {SMALL: 1.6, LARGE: 1.6},
    "read, body only": {SMALL: 3.0, LARGE: 2.0},
    "direct read, all columns": {SMALL: 1.8, LARGE: 1.8},
    "direct read, body only": {SMALL: 4.5, LARGE: 3.0},
}
ASKED_OF_STREAMS = 1.3


def measure(given: Given) -> list[dict[str, Any]]:
    """Batches: all columns and the body alone, through the broker and directly."""
    spark = session(settings("kafka"))
    return [line.as_json() for size in (SMALL, LARGE) for line in _batches(spark, given, size)]


def measure_streams(given: Given) -> list[dict[str, Any]]:
    """`Trigger.AvailableNow` in batches of 500,000 rows, all columns."""
    spark = session(settings("kafka"))
    rows = given.rows
    with given.memory(), started("rmqspark") as ours, started("kafka") as theirs:
        for side in (ours, theirs):
            fill(spark, side, rows, SMALL, given)
        ways = [
            _stream("AvailableNow, all columns", spark, rows, ours),
            _stream("AvailableNow, all columns, Kafka", spark, rows, theirs),
            _stream("direct AvailableNow, all columns", spark, rows, ours, DIRECT),
        ]
        plain, peer, direct = in_turns(ways, given.repeat, given.timeout)
    compared = [Comparison(figure.path, SMALL, figure, peer, ASKED_OF_STREAMS) for figure in (plain, direct)]
    return [line.as_json() for line in compared]


def fill(spark: SparkSession, side: Side, rows: int, body_bytes: int, given: Given, queues: int | None = None) -> None:
    """A topic `source` of equal bodies."""
    side.create_topic(spark, TOPIC, queues or given.queues)
    with limited(given.timeout, f"filling {side.name}"):
        bodies = spark.range(rows).selectExpr(f"cast(repeat('x', {body_bytes}) AS binary) AS body")
        side.write(bodies, TOPIC, **side.filling)
    progress(f"{side.name} has {rows:,} rows of {body_bytes} bytes")


def _batches(spark: SparkSession, given: Given, size: int) -> list[Comparison]:
    rows = given.rows_of(size)
    with ExitStack() as stack:
        stack.enter_context(given.memory())
        ours, theirs = (stack.enter_context(started(name)) for name in ("rmqspark", "kafka"))
        for side in (ours, theirs):
            fill(spark, side, rows, size, given)
        frames = {
            "read, all columns": lambda: ours.read_all_columns(spark, TOPIC),
            "read, all columns, Kafka": lambda: theirs.read_all_columns(spark, TOPIC),
            "direct read, all columns": lambda: ours.read_all_columns(spark, TOPIC, **DIRECT),
            "read, body only": lambda: ours.read_bodies(spark, TOPIC),
            "read, body only, Kafka": lambda: theirs.read_bodies(spark, TOPIC),
            "direct read, body only": lambda: ours.read_bodies(spark, TOPIC, **DIRECT),
        }
        ways = [_batch(name, rows, frame) for name, frame in frames.items()]
        found = {figure.path: figure for figure in in_turns(ways, given.repeat, given.timeout)}
    return [
        Comparison(path, size, found[path], found[f"{path.removeprefix('direct ')}, Kafka"], asked[size])
        for path, asked in ASKED.items()
    ]


def _batch(name: str, rows: int, frame: Callable[[], DataFrame]) -> Way:
    @functools.cache  # the topic stays as it is: it is enough to count it once
    def count(_: str) -> int:
        return frame().count()

    return Way(name, rows, lambda _: frame().write.format("noop").mode("overwrite").save(), count)


def _stream(name: str, spark: SparkSession, rows: int, side: Side, options: dict[str, str] | None = None) -> Way:
    queries: list[StreamingQuery] = []

    def run(_: str) -> None:
        with tempfile.TemporaryDirectory(prefix="rmq-bench-") as checkpoint:
            frame = side.stream_all_columns(spark, TOPIC, ROWS_A_BATCH, **(options or {}))
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            queries.append(writer.trigger(availableNow=True).start())
            queries[-1].awaitTermination()

    return Way(name, rows, run, lambda _: sum(batch.numInputRows for batch in queries[-1].recentProgress))

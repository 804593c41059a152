"""What a row costs through Spark as queues, topics and the store grow: processor time of all that takes part.

- 1, 8 and 64 queues of one topic;
- 1 to --topics topics of one queue each, written by a `topic` column and read by `subscribePattern`;
- a store of 0.1 million to --store-messages messages: so many more are written, and as many read from the middle.

Every count has servers of its own, which run all the while; the counts take turns. Rows are 100 bytes; a read has the
body alone.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any

from figures import Usage, markdown, rate, result
from given import SMALL
from reads import TOPIC, fill
from sides import started
from spark_paths import session
from turns import Way, in_turns
from writes import BODY

from rmqspark.client.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from figures import Figure
    from given import Given
    from pyspark.sql import DataFrame, SparkSession
    from sides import Side

QUEUES = (1, 8, 64)
TOPICS = (1, 10, 100)
STORES = (100_000, 1_000_000, 5_000_000)
MOST_ROWS = 1_000_000  # of a run: what is measured is processor time


def measure(given: Given) -> list[dict[str, Any]]:
    spark = session()
    return [_line(kind, figure) for kind, measure in _KINDS.items() for figure in measure(spark, given)]


def _by_queues(spark: SparkSession, given: Given) -> list[Figure]:
    with ExitStack() as stack:
        ways = [way for queues in QUEUES for way in _of_queues(spark, given, stack, queues)]
        return in_turns(ways, given.repeat, given.timeout)


def _of_queues(spark: SparkSession, given: Given, stack: ExitStack, queues: int) -> Iterator[Way]:
    side, rows = stack.enter_context(started("rmqspark")), _rows(given)
    fill(spark, side, rows, SMALL, given, queues)
    names = count(1)

    def new_topic() -> str:
        topic = f"target-{next(names)}"
        side.create_topic(spark, topic, queues)
        return topic

    def written(topic: str) -> int:
        return side.read(spark, topic).count()

    yield Way(
        f"write, {_many(queues, 'queue')}", rows, lambda topic: _write(spark, side, topic, rows), written, new_topic
    )
    yield Way(f"read, {_many(queues, 'queue')}", rows, lambda _: _noop(side.read_bodies(spark, TOPIC)), lambda _: rows)


def _by_topics(spark: SparkSession, given: Given) -> list[Figure]:
    with ExitStack() as stack:
        counts = sorted({*TOPICS, given.topics})
        ways = [way for topics in counts for way in _of_topics(spark, given, stack, topics)]
        return in_turns(ways, given.repeat, given.timeout)


def _of_topics(spark: SparkSession, given: Given, stack: ExitStack, topics: int) -> Iterator[Way]:
    side, rows = stack.enter_context(started("rmqspark")), _rows(given)
    with AdminClient(side.address) as admin:
        for name in range(topics):
            admin.create_topic(f"first-{name}", 1)
            admin.create_topic(f"then-{name}", 1)
    columns = [BODY.format(SMALL), f"concat('{{}}-', id % {topics}) AS topic"]

    def write(prefix: str) -> None:
        frame = spark.range(rows).selectExpr(*(column.replace("{}", prefix) for column in columns))
        frame.write.format("rmq").option("namesrv", side.address).mode("append").save()

    def read() -> DataFrame:
        reader = spark.read.format("rmq").option("namesrv", side.address).option("subscribePattern", "first-[0-9]+")
        return reader.schema("body binary").load()

    grown = Growth(side, [f"then-{name}" for name in range(topics)])
    write("first")
    yield Way(f"write, {_many(topics, 'topic')}", rows, lambda _: write("then"), grown.rows)
    yield Way(f"read, {_many(topics, 'topic')}", rows, lambda _: _noop(read()), lambda _: read().count())


def _by_store(spark: SparkSession, given: Given) -> list[Figure]:
    with ExitStack() as stack:
        stores = sorted({size for size in STORES if size < given.store_messages} | {given.store_messages})
        ways = [way for size in stores for way in _of_store(spark, given, stack, size)]
        return in_turns(ways, given.repeat, given.timeout)


def _of_store(spark: SparkSession, given: Given, stack: ExitStack, size: int) -> Iterator[Way]:
    side, rows = stack.enter_context(started("rmqspark")), min(_rows(given), STORES[0])
    fill(spark, side, size, SMALL, given)
    grown = Growth(side, [TOPIC])

    def in_the_middle() -> DataFrame:
        return side.read_bodies(spark, TOPIC, **_middle(side, rows))

    yield Way(f"write, {size:,} stored", rows, lambda _: _write(spark, side, TOPIC, rows), grown.rows)
    yield Way(f"read, {size:,} stored", rows, lambda _: _noop(in_the_middle()), lambda _: in_the_middle().count())


class Growth:
    """How much topics grow from one look to the next."""

    def __init__(self, side: Side, topics: list[str]) -> None:
        self._side, self._topics = side, topics
        self._seen = self._stored()

    def rows(self, _: str) -> int:
        """So many more than at the last look."""
        earlier, self._seen = self._seen, self._stored()
        return self._seen - earlier

    def _stored(self) -> int:
        with AdminClient(self._side.address) as admin:
            return sum(admin.topic(topic).message_count for topic in self._topics)


_KINDS = {"queues": _by_queues, "topics": _by_topics, "store": _by_store}


def _rows(given: Given) -> int:
    return min(given.rows, MOST_ROWS)


def _write(spark: SparkSession, side: Side, topic: str, rows: int) -> None:
    side.write(spark.range(rows).selectExpr(BODY.format(SMALL)), topic)


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _middle(side: Side, rows: int) -> dict[str, str]:
    """The options that read so many rows around the middle of the topic."""
    with AdminClient(side.address) as admin:
        stored = {each.queue.queue_id: each.max_offset for each in admin.topic(TOPIC).queues}
    ranges = middle(stored, rows)
    return {
        option: json.dumps({TOPIC: {"broker-a": {queue: ends[at] for queue, ends in ranges.items()}}})
        for at, option in enumerate(("startingOffsets", "endingOffsets"))
    }


def middle(stored: dict[int, int], rows: int) -> dict[int, tuple[int, int]]:
    """Of each queue a range of offsets around its middle, as long as its share of all that is stored."""
    ranges, before, total = {}, 0, sum(stored.values())
    for queue, size in stored.items():
        wanted = (before + size) * rows // total - before * rows // total
        start = (size - wanted) // 2
        ranges[queue] = (start, start + wanted)
        before += size
    return ranges


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number > 1 else ''}"


def _line(kind: str, figure: Figure) -> dict[str, Any]:
    return {"kind": kind} | result(figure)


def table(measured: list[dict[str, Any]]) -> str:
    titles = ("processor time a row, µs", "Spark's JVM", "Python", "broker", "in all", "rows/s")
    rows = []
    for line in measured:
        us = line["us_a_row"]
        cells = [f"{us[of]:.2f}" for of in Usage._fields]
        rows.append([line["path"], *cells, f"{sum(us.values()):.2f}", rate(line)])
    return markdown(titles, rows)

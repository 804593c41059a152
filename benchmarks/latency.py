"""How old a row is when its micro-batch is committed, at a steady rate: ours, Kafka's connector, and Spark alone.

A query copies topic → topic with each side's defaults (ours exactly-once, Kafka's at-least-once), micro-batch after
micro-batch with no pause. A row's latency is from the moment a producer in another process was about to send it to the
end of the batch that it was in, Spark's own logs included, by Spark's progress report. "Spark alone" is the same with
a Python source that makes its rows up at that rate and a Python sink that forgets them: what is above is the side's
share.
"""

from __future__ import annotations

import bisect
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from empty_edge import EmptyEdge
from figures import markdown
from sides import settings, started
from spark_paths import session
from topic_to_topic import MANY_PROGRESSES
from turns import limited, progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from given import Given
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
    from sides import Side

RATES = (1_000, 10_000)
EMPTY = "empty"
NAMES = ("rmqspark", "kafka", EMPTY)
PERCENTILES = (50, 95, 99)
WARM_S = 5  # of a query, whose rows do not count: its first batches pay for what is made once, and each side's first
# query for what Spark makes once in a session, which can take longer: it does not count at all
ASKED_RATIO, ASKED_SHARE_MS = 1.3, 30  # of p50: against Kafka, or above Spark alone


class Batch(NamedTuple):
    """A micro-batch that is committed."""

    ended_s: float  # since the epoch
    rows: int


def measure(given: Given) -> list[dict[str, Any]]:
    """All sides take turns at each rate; percentiles are over the rows of all turns."""
    spark = session({**settings("kafka"), **MANY_PROGRESSES})
    spark.dataSource.register(EmptyEdge)
    with started("rmqspark") as ours, started("kafka") as theirs:
        runs = Runs(spark, given, {side.name: side for side in (ours, theirs)})
        for name in NAMES:
            runs.warm_up(name, RATES[0])
        return [_at(rate, runs, given.repeat) for rate in RATES]


def _at(rate: int, runs: Runs, repeat: int) -> dict[str, Any]:
    found: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    for turn in range(1, repeat + 1):
        for name in found if turn % 2 else reversed(found):
            found[name].append(runs.latencies_ms(name, rate))
            progress(f"turn {turn} of {repeat}: {rate:,} a second, {name} p50 {percentiles(found[name][-1])[0]:.0f} ms")
    told: dict[str, Any] = {"rate": rate}
    for name, each in found.items():
        turns = [percentiles(latencies)[0] for latencies in each]
        told[name] = dict(zip(("p50", "p95", "p99"), percentiles(itertools.chain(*each)), strict=True))
        told[name] |= {"p50_lowest": min(turns), "p50_highest": max(turns)}
    pairs = list(zip(*(map(percentiles, found[name]) for name in found), strict=True))
    told["p50_ratio"] = round(statistics.median(ours[0] / kafka[0] for ours, kafka, _ in pairs), 3)
    told["p50_share_ms"] = round(statistics.median(ours[0] - empty[0] for ours, _, empty in pairs), 1)
    return told


def percentiles(latencies: Iterable[float]) -> list[float]:
    """p50, p95 and p99, each the smallest value that so many of a hundred rows do not exceed."""
    ordered = sorted(latencies)
    return [round(ordered[-(-len(ordered) * percent // 100) - 1], 1) for percent in PERCENTILES]


def latencies_ms(ticks: Sequence[tuple[float, int]], batches: Sequence[Batch], from_s: float) -> list[float]:
    """Of every row sent at `from_s` or later; `ticks` are (when, rows so far), and batches take rows in their order.

    Rows of a tick count as sent when it was.
    """
    so_far = [rows for _, rows in ticks]
    found, row = [], 0
    for batch in batches:
        for number in range(row, row + batch.rows):
            sent_s = ticks[bisect.bisect_right(so_far, number)][0]
            if sent_s >= from_s:
                found.append((batch.ended_s - sent_s) * 1000)
        row += batch.rows
    return found


class Runs:
    """One query after the other, each with topics of its own."""

    def __init__(self, spark: SparkSession, given: Given, sides: dict[str, Side]) -> None:
        self._spark, self._given, self._sides = spark, given, sides
        self._numbers = itertools.count(1)

    def warm_up(self, name: str, rate: int) -> None:
        """A short query that is not measured."""
        self._run(name, rate, WARM_S)

    def latencies_ms(self, name: str, rate: int) -> list[float]:
        """Of the rows of one query, after its first seconds."""
        ticks, batches = self._run(name, rate, WARM_S + self._given.seconds)
        if (came := sum(batch.rows for batch in batches)) != ticks[-1][1]:
            raise SystemExit(f"{name} at {rate} a second: {came:,} rows came of {ticks[-1][1]:,}.")
        found = latencies_ms(ticks, batches, ticks[0][0] + WARM_S)
        if not found:
            raise SystemExit(f"{name} at {rate} a second: nothing was sent after {WARM_S} s. The machine is too busy.")
        return found

    def _run(self, name: str, rate: int, seconds: int) -> tuple[list[tuple[float, int]], list[Batch]]:
        run = self._made_up if name == EMPTY else self._copied
        with limited(self._given.timeout, f"{name} at {rate} a second"):
            return run(name, rate, seconds)

    def _copied(self, name: str, rate: int, seconds: int) -> tuple[list[tuple[float, int]], list[Batch]]:
        side, number = self._sides[name], next(self._numbers)
        for topic in (f"in-{number}", f"out-{number}"):
            side.create_topic(self._spark, topic, self._given.latency_queues)
        rows = side.stream(self._spark, f"in-{number}", None)
        with ExitStack() as stack:
            query = _start(stack, side.writing(rows, f"out-{number}"))
            told = self._feed(side, f"in-{number}", rate, seconds)
            query.processAllAvailable()
            batches = batches_of(query)
        written = side.read(self._spark, f"out-{number}").count()
        if written != told[-1][1]:
            raise SystemExit(f"{name}: {written:,} rows were written of {told[-1][1]:,}.")
        return told, batches

    def _made_up(self, name: str, rate: int, seconds: int) -> tuple[list[tuple[float, int]], list[Batch]]:
        del name
        options = {"partitions": self._given.latency_queues, "rate": rate, "seconds": seconds}
        rows = self._spark.readStream.format("empty").options(**options).load()
        with ExitStack() as stack:
            query = _start(stack, rows.writeStream.format("empty"))
            query.processAllAvailable()  # there is more all the while, until there is no more
            batches = batches_of(query)
        first = next(told for told in query.recentProgress if told.numInputRows)  # one without rows may come before
        first_end_s = json.loads(first.sources[0].endOffset)["at_ms"] / 1000
        begun_s = first_end_s - batches[0].rows / rate
        so_far = sum(batch.rows for batch in batches)
        return [(begun_s + row / rate, row) for row in range(1, so_far + 1)], batches

    def _feed(self, side: Side, topic: str, rate: int, seconds: int) -> list[tuple[float, int]]:
        """Ends when the feed does; the ticks that it tells of."""
        words = [side.name, side.address, topic, *map(str, (rate, seconds, self._given.latency_queues))]
        command = [sys.executable, str(Path(__file__).with_name("feed.py")), *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=dict(os.environ))
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return [(when, rows) for when, rows in told["ticks"]]


def _start(stack: ExitStack, writer: DataStreamWriter) -> StreamingQuery:
    checkpoint = stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-", ignore_cleanup_errors=True))
    query = writer.option("checkpointLocation", checkpoint).start()
    stack.callback(query.stop)
    return query


def batches_of(query: StreamingQuery) -> list[Batch]:
    """The micro-batches that had rows, in their order."""
    return [
        Batch(datetime.fromisoformat(told.timestamp).timestamp() + told.durationMs["triggerExecution"] / 1000, rows)
        for told in query.recentProgress
        if (rows := told.numInputRows)
    ]


def table(measured: list[dict[str, Any]]) -> str:
    """Markdown: ms at p50 / p95 / p99."""
    titles = ("latency, p50 / p95 / p99 in ms", "ours", "Kafka", "Spark alone", "p50: ours / Kafka", "our share of p50")
    rows = []
    for line in measured:
        cells = [" / ".join(f"{line[name][p]:.0f}" for p in ("p50", "p95", "p99")) for name in NAMES]
        asked = f"{line['p50_ratio']:.2f} (≤ {ASKED_RATIO})", f"{line['p50_share_ms']:.0f} ms (or ≤ {ASKED_SHARE_MS})"
        rows.append([f"{line['rate']:,} a second", *cells, *asked])
    return markdown(titles, rows)

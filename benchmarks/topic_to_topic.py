"""What exactly-once costs, and a topic → topic pipeline with it beside Kafka's connector without it.

    python benchmarks/topic_to_topic.py --rows 3000000 --repeat 3
    python benchmarks/topic_to_topic.py --only memory --memory-rows 20000000

- `writes`: a batch job of --rows rows, at-least-once and exactly-once (transactionalId and transactionVersion).
- `pipelines`: a streaming query with Trigger.AvailableNow from a topic of --rows rows to another, from start() to its
  end; ours exactly-once and at-least-once, Kafka's connector at-least-once (it has nothing else), defaults everywhere;
  ours exactly-once with readMode=direct, whose tasks read the broker's files themselves, in large sends (what
  docs/spark.md advises for rows of a kilobyte), and with both; and Python on both ends that does nothing, which is as
  fast as a Python source and sink can be.
- `commits`: what a micro-batch of 10,000 rows takes in a stream, exactly-once and at-least-once, from its progress:
  `triggerExecution` is the whole batch, `addBatch` its tasks and the sink's commit.
- `memory`: peak memory of broker and Python workers while one exactly-once batch is written, and read again with all
  columns, a small and a large one.

Figures of one part are paired: its paths take turns (turns.py). Every copy is counted afterwards, outside the time.
Fills the page cache first, as spark_paths.py does, which says why.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from figures import Figure, ratio, result
from processes import below, peak_bytes, reset_peak, running
from sides import FEW, FEW_ROWS, LARGE_SENDS, Nothing, Side, arrow_batches, settings, started
from spark_paths import filled_page_cache, session
from turns import Way, in_turns, limited

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SOURCE = "source"
AT_LEAST_ONCE = {"deliveryGuarantee": "at-least-once"}
DIRECT = {"readMode": "direct"}
SMALL_BATCH = 10_000
FIRST_BATCHES = 2  # of a query, which pay for what is made once
QUERIES = 4  # that the small batches of a guarantee are spread over, in turns with the other's
MANY_PROGRESSES = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
MEASURED = {"broker": ("rmqspark", "up"), "worker": ("pyspark.daemon",)}  # by consecutive words of their command lines


@dataclass(frozen=True)
class Path:
    """One way of a topic's rows: what it is called, and the options of its sink and of its source."""

    name: str
    side: Side | Nothing
    options: dict[str, str]
    reading: dict[str, str] = field(default_factory=dict)


class Bench:
    """The four parts, each on servers of its own."""

    def __init__(self, spark: SparkSession, given: argparse.Namespace) -> None:
        self._spark, self._given = spark, given
        self._runs = 0

    def writes(self) -> dict[str, Any]:
        with started("rmqspark") as ours:
            plain = Path("write, at-least-once", ours, {})
            exact = Path("write, exactly-once", ours, {"transactionalId": "bench"})
            figures = self._paired([plain, exact], self._write)
        cost = 1 - ratio(figures[1], to=figures[0]).median
        print(f"  exactly-once costs {cost:.0%} of the throughput", flush=True)
        return {"results": [result(figure) for figure in figures], "cost": round(cost, 3)}

    def pipelines(self) -> dict[str, Any]:
        peer, *ours = figures = self.pipeline_figures()
        ratios = {figure.path: round(ratio(figure, to=peer).median, 2) for figure in ours}
        print(f"  in times the rate of Kafka's connector: {ratios}", flush=True)
        return {"results": [result(figure) for figure in figures], "ratios": ratios}

    def pipeline_figures(self) -> list[Figure]:
        """Kafka's connector, then ours and the bridge."""
        with started("rmqspark") as ours, started("kafka") as theirs:
            for side in (ours, theirs):
                self._fill(side, self._given.rows)
                self._fill(side, FEW_ROWS, FEW)
            exact = Path("topic to topic, exactly-once", ours, {})
            connector = Path("topic to topic, Kafka's connector", theirs, {})
            plain = Path("topic to topic, at-least-once", ours, AT_LEAST_ONCE)
            direct = Path("topic to topic, exactly-once, direct", ours, {}, DIRECT)
            large = Path("topic to topic, exactly-once, in large sends", ours, LARGE_SENDS)
            both = Path("topic to topic, exactly-once, direct, in large sends", ours, LARGE_SENDS, DIRECT)
            bridge = Path("topic to topic, the bridge alone", self._nothing(), {})
            return self._paired([connector, exact, plain, direct, large, both, bridge], self._copy, self._copy_few)

    def _nothing(self) -> Nothing:
        return Nothing(self._spark, self._given.rows, self._given.queues, self._given.body_bytes)

    def commits(self) -> dict[str, Any]:
        took: dict[str, list[dict[str, int]]] = {"at-least-once": [], "exactly-once": []}
        with started("rmqspark") as ours:
            self._fill(ours, SMALL_BATCH * (-(-self._given.batches // QUERIES) + FIRST_BATCHES))
            paths = [Path("at-least-once", ours, AT_LEAST_ONCE), Path("exactly-once", ours, {})]
            for turn in range(QUERIES):
                for path in paths if turn % 2 else reversed(paths):
                    took[path.name] += self._batches(path)
        shown: dict[str, Any] = {"rows_a_batch": SMALL_BATCH}
        for step in ("triggerExecution", "addBatch"):
            medians = {name: statistics.median(batch[step] for batch in batches) for name, batches in took.items()}
            added = medians["exactly-once"] - medians["at-least-once"]
            told = ", ".join(f"{name} {median:.0f} ms" for name, median in medians.items())
            print(f"  {step}: {told}: {added:+.0f} ms", flush=True)
            shown[step] = medians | {"added": added}
        return shown | {"batches": {name: len(batches) for name, batches in took.items()}}

    def memory(self) -> dict[str, Any]:
        shown = []
        with started("rmqspark") as ours:
            self._write(Path("", ours, {"transactionalId": "warm-up"}), self._target(ours), SMALL_BATCH)
            for rows in (self._given.memory_rows // 10, self._given.memory_rows):
                topic = self._target(ours)
                batch = Path("", ours, {"transactionalId": f"batch-of-{rows}"})
                ways: dict[str, Callable[[], None]] = {
                    "write": lambda batch=batch, topic=topic, rows=rows: self._write(batch, topic, rows),
                    "read": lambda topic=topic: self._read_all_columns(ours, topic),
                }
                peaks = {name: self._peaks(name, way) for name, way in ways.items()}
                for name, peak in peaks.items():
                    told = ", ".join(f"{of} {size >> 20} MiB" for of, size in peak.items())
                    print(f"  {name} {rows:,} rows: {told}", flush=True)
                shown.append({"rows": rows, "peak_bytes": peaks["write"], "peak_bytes_read": peaks["read"]})
        return {"results": shown}

    def _peaks(self, name: str, way: Callable[[], None]) -> dict[str, int]:
        """The highest peak among the processes of each kind while it runs, in bytes."""
        for words in MEASURED.values():
            for pid in running(below(os.getpid()), *words):
                reset_peak(pid)
        with limited(self._given.timeout, f"the {name}"):
            way()
        return {of: max(map(peak_bytes, running(below(os.getpid()), *words))) for of, words in MEASURED.items()}

    def _read_all_columns(self, side: Side, topic: str) -> None:
        frame = self._spark.read.format("rmq").option("namesrv", side.address).load(topic)
        frame.write.format("noop").mode("overwrite").save()

    def _paired(
        self,
        paths: list[Path],
        way: Callable[[Path, str, int], object],
        ahead: Callable[[Path], object] = lambda _path: None,
    ) -> list[Figure]:
        rows = self._given.rows
        ways = [
            Way(
                path.name,
                rows,
                run=lambda topic, path=path: way(path, topic, rows),
                count=lambda topic, path=path: path.side.read(self._spark, topic).count(),
                target=lambda path=path: self._target(path.side),
                tries=path.side.tries,
                ahead=lambda path=path: ahead(path),
            )
            for path in paths
        ]
        figures = in_turns(ways, self._given.repeat, self._given.timeout)
        for figure in figures:
            rates = [rate / 1e6 for rate in (figure.rows_per_second, figure.lowest, figure.highest)]
            print("  {:36}{:6.2f} M rows/s ({:.2f}–{:.2f})".format(figure.path, *rates), flush=True)
        return figures

    def _target(self, side: Side | Nothing) -> str:
        self._runs += 1
        side.create_topic(self._spark, f"target-{self._runs}", self._given.queues)
        return f"target-{self._runs}"

    def _fill(self, side: Side, rows: int, topic: str = SOURCE) -> None:
        side.create_topic(self._spark, topic, self._given.queues)
        with limited(self._given.timeout, "filling the source"):
            side.write(self._bodies(rows), topic, **side.filling)

    def _write(self, path: Path, topic: str, rows: int) -> None:
        """A batch job; with a transactional id its version is the number of the run."""
        version = {"transactionVersion": self._runs} if path.options else {}
        path.side.write(self._bodies(rows), topic, **path.options, **version)

    def _bodies(self, rows: int) -> DataFrame:
        return self._spark.range(rows).selectExpr(f"cast(repeat('x', {self._given.body_bytes}) AS binary) AS body")

    def _copy_few(self, path: Path) -> None:
        """The same path over few rows."""
        self._copy(path, self._target(path.side), FEW_ROWS, source=FEW)

    def _copy(
        self, path: Path, topic: str, rows: int, rows_a_batch: int | None = None, source: str = SOURCE
    ) -> StreamingQuery:
        """A streaming query over all rows of the source, to its end."""
        del rows
        with (
            tempfile.TemporaryDirectory(prefix="rmq-bench-") as checkpoint,
            arrow_batches(self._spark, path.options.get("batchBytes")),
        ):
            rows_read = path.side.stream(self._spark, source, rows_a_batch, **path.reading)
            writing = path.side.writing(rows_read, topic, **path.options).option("checkpointLocation", checkpoint)
            query = writing.trigger(availableNow=True).start()
            try:
                query.awaitTermination()
            finally:
                query.stop()
        return query

    def _batches(self, path: Path) -> list[dict[str, int]]:
        """What the steps of each small batch took, in ms."""
        topic = self._target(path.side)
        with limited(self._given.timeout, path.name):
            query = self._copy(path, topic, 0, SMALL_BATCH)
        steps = [progress.durationMs for progress in query.recentProgress]
        return [step for step in steps if "addBatch" in step][FIRST_BATCHES:]


PARTS = ("writes", "pipelines", "commits", "memory")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--body-bytes", type=int, default=100)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batches", type=int, default=50, help="of 10,000 rows, of each guarantee")
    parser.add_argument("--memory-rows", type=int, default=20_000_000, help="the large batch; the small one is a tenth")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--timeout", type=int, default=600, help="seconds, of each run")
    parser.add_argument("--fresh-memory", action="store_true", help="do not fill the page cache first")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Terminated."))  # so that everything is ended and removed
    measured: dict[str, Any] = {"rows": given.rows, "body_bytes": given.body_bytes, "queues": given.queues}
    with contextlib.ExitStack() as stack:
        if not given.fresh_memory:
            stack.enter_context(filled_page_cache())
        bench = Bench(session({**settings("kafka"), **MANY_PROGRESSES}), given)
        for part in given.only:
            print(f"{part}:", flush=True)
            measured[part] = getattr(bench, part)()
            print(json.dumps({part: measured[part]}), flush=True)  # whatever becomes of the next part
    print(json.dumps(measured))


if __name__ == "__main__":
    main()

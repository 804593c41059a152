"""How long a cold query takes to its first rows, and how much of that is ours.

    python benchmarks/first_batch.py --runs 5 [--json FILE]

Each run is a driver of its own that starts Spark and runs one query, up to the end of its first micro-batch: from topic
to topic (exactly once), or from a Python source that makes its rows up to a Python sink that forgets them. The two take
turns. Shown are the time from `load()` to the end of that batch, and the time on a processor that Python took in it
(driver and workers; not the JVM, not the broker). "Ours" is the difference of the medians. Modules are compiled before
the first run, as those of an installed package are, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from empty_edge import EmptyEdge
from processes import usage
from spark_paths import servers

from rmqspark import AdminClient, Message, Producer
from rmqspark.testing.spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

SIDES = ("rmq", "empty")
QUEUES = 2
ROWS_A_QUEUE = 50


def measure(runs: int) -> dict[str, list[dict[str, float]]]:
    """The figures of every run of each side, after one round that only compiles, and fills the page cache."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    with servers(None) as namesrv, tempfile.TemporaryDirectory() as compiled:
        for number in range(runs + 1):
            for side in SIDES:
                if side == "rmq":
                    _prepare(namesrv, f"in-{number}", f"out-{number}")
                figures = _in_a_process(side, namesrv, number, compiled)
                if number:
                    found[side].append(figures)
    return found


def _prepare(namesrv: str, source: str, target: str) -> None:
    with AdminClient(namesrv) as admin, Producer(namesrv, group="benchmark") as producer:
        for topic in (source, target):
            admin.create_topic(topic, QUEUES)
        for queue in range(QUEUES):
            producer.send_batch([Message(source, b"x" * 100) for _ in range(ROWS_A_QUEUE)], queue=queue)


def _in_a_process(side: str, namesrv: str, number: int, compiled: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--side", side, "--namesrv", namesrv, "--number", str(number)]
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": compiled}  # workers import empty_edge
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


# --- one driver ------------------------------------------------------------------------------------------------------


def first_batch(side: str, namesrv: str, number: int) -> dict[str, float]:
    """Runs the query in this process."""
    spark = local_session(2, name="first batch")
    spark.dataSource.register(EmptyEdge)
    spark.range(10).count()  # Spark's own first job is nobody's share
    with tempfile.TemporaryDirectory() as checkpoint:
        cpu_began, began = python_cpu_s(), time.perf_counter()
        query = _start(spark, side, namesrv, number, checkpoint)
        query.processAllAvailable()
        figures = {"seconds": time.perf_counter() - began, "python_cpu_s": python_cpu_s() - cpu_began}
        rows = sum(progress["numInputRows"] for progress in query.recentProgress)
        query.stop()
    spark.stop()
    if rows != QUEUES * ROWS_A_QUEUE:
        sys.exit(f"{side}: {rows} rows came")
    return figures


def _start(spark: SparkSession, side: str, namesrv: str, number: int, checkpoint: str) -> StreamingQuery:
    if side == "rmq":
        reader = spark.readStream.format("rmq").option("namesrv", namesrv).option("startingOffsets", "earliest")
        rows = reader.schema("body binary").load(f"in-{number}")
        writer = rows.writeStream.format("rmq").option("namesrv", namesrv).option("topic", f"out-{number}")
    else:
        rows = spark.readStream.format("empty").option("partitions", QUEUES).option("rows", ROWS_A_QUEUE).load()
        writer = rows.writeStream.format("empty")
    return writer.option("checkpointLocation", checkpoint).start()


def python_cpu_s() -> float:
    """Seconds on a processor of this process and all Python below it, those included that have ended."""
    return usage().python


# --- what is shown ---------------------------------------------------------------------------------------------------


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """Markdown: medians, and the lowest and highest run."""
    lines = ["| | first batch | Python on a processor |", "| --- | ---: | ---: |"]
    for side, runs in found.items():
        lines.append(f"| {side} | {_spread(runs, 'seconds')} | {_spread(runs, 'python_cpu_s')} |")
    ours = [f"{_median(found['rmq'], kind) - _median(found['empty'], kind):.2f} s" for kind in _KINDS]
    return "\n".join([*lines, f"| ours | {' | '.join(ours)} |"])


_KINDS = ("seconds", "python_cpu_s")


def _median(runs: list[dict[str, float]], kind: str) -> float:
    return statistics.median(run[kind] for run in runs)


def _spread(runs: list[dict[str, Any]], kind: str) -> str:
    values = [run[kind] for run in runs]
    return f"{statistics.median(values):.2f} s ({min(values):.2f}–{max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--namesrv", help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(first_batch(arguments.side, arguments.namesrv, arguments.number)))
        return
    found = measure(arguments.runs)
    print(table(found))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

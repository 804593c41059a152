"""Brokers and executors that may use a share of a core each, and more of them: what does a cluster twice as large do?

N brokers, and N Spark processes with one task each, every process capped by a control group (cgroup). A topic has N
queues on every broker; each Spark process reads one queue of each broker, so that everybody talks with everybody, and
writes to all of them. As long as all shares together are less than the machine has, rows a second should be N times
those of one. Needs the right to make control groups (root, mostly).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from control_group import control_group
from figures import markdown
from processes import below
from share_driver import TOPIC, WRITTEN_FIRST
from spark_paths import endpoint
from turns import limited, progress

from rmqspark.client.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from given import Given

BROKER_SHARE, EXECUTOR_SHARE = 0.15, 0.25  # of a core
COUNTS = (1, 2, 4)
ROWS = 400_000  # that each Spark process moves in a run, at most
WAYS = ("write", "read")


def measure(given: Given) -> list[dict[str, Any]]:
    """Rows a second of the whole, for each number of brokers and executors."""
    rows = min(given.rows // 4, ROWS) // max(COUNTS) * max(COUNTS)  # so that each number of brokers divides it
    return [_cluster(count, rows, given) for count in COUNTS if count * _both() < len(os.sched_getaffinity(0))]


def _both() -> float:
    return BROKER_SHARE + EXECUTOR_SHARE


def _cluster(count: int, rows: int, given: Given) -> dict[str, Any]:
    with ExitStack() as stack:
        namesrv, brokers = stack.enter_context(_brokers(count))
        with AdminClient(namesrv) as admin:
            admin.create_topic(TOPIC, count)
        words = [namesrv, str(rows)]
        executors = [stack.enter_context(_executor([str(number), *words])) for number in range(count)]
        with limited(given.timeout, f"the start of {count} Spark processes"):
            for executor in executors:
                _told(executor)  # ready: it has moved a few rows
        for pid in brokers:
            stack.enter_context(control_group(BROKER_SHARE, [pid]))
        for executor in executors:
            stack.enter_context(control_group(EXECUTOR_SHARE, [executor.pid, *below(executor.pid)]))
        rates: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(1, given.repeat + 1):
            for way in WAYS:
                with limited(given.timeout, f"{way} with {count} brokers"):
                    rates[way].append(_moved(executors, way))
                progress(f"turn {turn} of {given.repeat}: {count} of each {way} {rates[way][-1]:,.0f} rows/s")
        _check(namesrv, count * rows * (WRITTEN_FIRST + given.repeat))
    return {"count": count, "rows": count * rows} | {way: [round(rate) for rate in each] for way, each in rates.items()}


def _moved(executors: list[subprocess.Popen[str]], way: str) -> float:
    """Rows a second of all together; all begin at once, and the last one ends it."""
    for executor in executors:
        assert executor.stdin is not None
        executor.stdin.write(f"{way}\n")
        executor.stdin.flush()
    seconds, rows = zip(*(json.loads(_told(executor)) for executor in executors), strict=True)
    return sum(rows) / max(seconds)


def _check(namesrv: str, rows: int) -> None:
    with AdminClient(namesrv) as admin:
        if (stored := admin.topic(TOPIC).message_count) != rows:
            raise SystemExit(f"{stored:,} rows were stored of {rows:,}.")


@contextmanager
def _brokers(count: int) -> Iterator[tuple[str, list[int]]]:
    """The name server's address, and the processes of the brokers."""
    with tempfile.TemporaryDirectory(prefix="rmq-bench-") as store:
        words = ["up", "--store", store, "--brokers", str(count), "--namesrv-port", "0", "--broker-port", "0"]
        command = [sys.executable, "-m", "rmqspark", *words, "--no-admin"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            namesrv = endpoint(Path(store) / "endpoints.json", process)
            yield namesrv, json.loads((Path(store) / "endpoints.json").read_text())["pids"]["brokers"]
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def _executor(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(Path(__file__).with_name("share_driver.py")), *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.communicate()  # the end of its input ends it


def _told(executor: subprocess.Popen[str]) -> str:
    assert executor.stdout is not None
    line = executor.stdout.readline().strip()
    if not line:
        raise SystemExit("A Spark process ended early; what it printed tells more.")
    return line


def table(measured: list[dict[str, Any]]) -> str:
    titles = ("brokers and executors", "write, rows/s", "times one", "read, rows/s", "times one")
    one = {way: statistics.median(measured[0][way]) for way in WAYS}
    rows = []
    for line in measured:
        cells = []
        for way in WAYS:
            median = statistics.median(line[way])
            cells += [f"{median:,.0f} ({min(line[way]):,}–{max(line[way]):,})", f"{median / one[way]:.2f}"]
        rows.append([f"{line['count']} of each", *cells])
    caps = f"A broker may use {BROKER_SHARE} of a core, a Spark process with its Python workers {EXECUTOR_SHARE}."
    return f"{markdown(titles, rows)}\n\n{caps}"

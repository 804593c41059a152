"""RocketMQ's own benchmark clients against our broker and against RocketMQ's, in turn.

    python benchmarks/stock_clients.py --seconds 20 --repeat 2

The clients are `org.apache.rocketmq.example.benchmark.Producer` and `.Consumer` of RocketMQ 5.5.0, with 128-byte
messages and synchronous sends: the producer alone, and then both at once. The stock broker and name server run with the
JVM's defaults and their own, with a heap of 2 GB. A figure is the mean that the client itself prints of its last ten
seconds. Everything shares the cores of this machine. Fetches RocketMQ's jars the first time.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "java"))

from figures import markdown
from ours import up
from rocketmq import OPENED, PACKAGE, RocketMQ, fetch_jars, java
from turns import progress

from rmqspark.client.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from given import Given

TOPIC = "benchmark"
BODY_BYTES = 128
QUEUES = 8
THREADS = 64
WINDOW_S = 10  # what the clients' figures are means of
MOST_TURNS = 3  # each has servers and clients to start four times
STARTING_S = 6  # of a JVM, before its first window


class Stock(RocketMQ):
    """RocketMQ's programs as its own scripts start them, but for the size of the heap."""

    def options(self, heap: str) -> list[str]:
        heap = "2g" if heap == "1g" else heap
        return [f"-Xms{heap}", f"-Xmx{heap}", f"-Duser.home={self.home}", *OPENED]


@dataclass(frozen=True)
class Program:
    """A benchmark client: its class, its options, and what it calls its rate."""

    name: str
    options: tuple[str, ...]
    printed: re.Pattern[str]


PRODUCER = Program("Producer", ("-w", str(THREADS), "-s", str(BODY_BYTES)), re.compile(r"Send TPS: *(\d+)"))
CONSUMER = Program("Consumer", ("-g", "benchmark_consumer"), re.compile(r"Consume TPS: *(\d+)"))
PATHS = {"sends alone": (PRODUCER,), "sends and reads at once": (PRODUCER, CONSUMER)}


@contextmanager
def ours(directory: Path, _: Stock) -> Iterator[str]:
    with up(directory) as running:
        yield running.namesrv


@contextmanager
def theirs(directory: Path, stock: Stock) -> Iterator[str]:
    with stock.name_server() as namesrv, stock.broker(directory / "store", namesrv) as broker:
        yield namesrv
        broker.kill()


SIDES = {"rmqspark": ours, "rocketmq": theirs}


def measure(given: Given) -> list[dict[str, Any]]:
    """Messages a second of each client, on each side."""
    return turns(min(given.repeat, MOST_TURNS), STARTING_S + max(given.seconds, WINDOW_S + 1))


def turns(repeat: int, seconds: int) -> list[dict[str, Any]]:
    """Fresh servers for each side and turn. The rates of each client by path and side."""
    found: dict[tuple[str, str], dict[str, list[int]]] = {}
    for turn in range(1, repeat + 1):
        for side in SIDES if turn % 2 else reversed(SIDES):
            for path, client, rate in _side(side, seconds):
                found.setdefault((path, client), {name: [] for name in SIDES})[side].append(rate)
                progress(f"turn {turn} of {repeat}: {side}, {path}: {client} {rate:,} a second")
    return [{"path": path, "client": client, **rates} for (path, client), rates in found.items()]


def _side(side: str, seconds: int) -> Iterator[tuple[str, str, int]]:
    for path, programs in PATHS.items():
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-")))
            (directory / "home").mkdir()
            stock = Stock(fetch_jars(), directory / "home")
            namesrv = stack.enter_context(SIDES[side](directory, stock))
            with AdminClient(namesrv) as admin:
                admin.create_topic(TOPIC, QUEUES)
            for program, rate in zip(programs, _run(stock, namesrv, programs, seconds), strict=True):
                yield path, program.name, rate


def _run(stock: Stock, namesrv: str, programs: tuple[Program, ...], seconds: int) -> list[int]:
    """The last rate that each printed in that time."""
    running = []
    try:
        for program in programs:
            main = f"{PACKAGE}.example.benchmark.{program.name}"
            words = [java(), *stock.options("512m"), "-cp", stock.class_path, main]
            words += ["-t", TOPIC, "-n", namesrv, "-ri", "1000", *program.options]
            output = (stock.home / f"{program.name}.log").open("w+")
            running.append((subprocess.Popen(words, stdout=output, stderr=output, cwd=stock.home), output))
        time.sleep(seconds)
    finally:
        for process, _ in running:
            process.kill()
            process.wait()
    rates = []
    for program, (_, output) in zip(programs, running, strict=True):
        with output:
            output.seek(0)
            rates.append(last_rate(program, output.read()))
    return rates


def last_rate(program: Program, printed: str) -> int:
    """SystemExit if it printed none."""
    rates = program.printed.findall(printed)
    if not rates:
        raise SystemExit(f"RocketMQ's benchmark {program.name} printed no rate:\n{printed}")
    return int(rates[-1])


def table(measured: list[dict[str, Any]]) -> str:
    rows = []
    for line in measured:
        pairs = [ours / theirs for ours, theirs in zip(line["rmqspark"], line["rocketmq"], strict=True)]
        times = f"**{statistics.median(pairs):.2f}**", f"{min(pairs):.2f}–{max(pairs):.2f}"
        rows.append([f"{line['path']}: {line['client']}", *(_rates(line[side]) for side in SIDES), *times])
    titles = (
        "RocketMQ's own clients, 128 B",
        "ours, messages/s",
        "RocketMQ 5.5.0",
        "ours / RocketMQ",
        "lowest–highest",
    )
    return markdown(titles, rows)


def _rates(rates: list[int]) -> str:
    return f"{statistics.median(rates):,.0f} ({min(rates):,}–{max(rates):,})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="of each run, its start included")
    parser.add_argument("--repeat", type=int, default=2)
    arguments = parser.parse_args()
    measured = turns(arguments.repeat, arguments.seconds)
    print(table(measured))
    print(json.dumps(measured))


if __name__ == "__main__":
    main()

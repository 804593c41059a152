"""RocketMQ's own benchmark clients against our broker and against RocketMQ's, in turn.

    python benchmarks/stock_clients.py --seconds 10 --repeat 2

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
from turns import limited, progress

from rmqspark.client.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from given import Given

TOPIC = "benchmark"
BODY_BYTES = 128
QUEUES = 8
THREADS = 64
MOST_TURNS = 3  # each has servers and clients to start four times
WARM_S = 5  # of a client that compiles itself
LOOK_S = 0.2


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
    return turns(min(given.repeat, MOST_TURNS), given.seconds, given.timeout)


def turns(repeat: int, seconds: int, timeout_s: int) -> list[dict[str, Any]]:
    """Fresh servers for each side and turn. The rates of each client by path and side."""
    found: dict[tuple[str, str], dict[str, list[int]]] = {}
    for turn in range(1, repeat + 1):
        for side in SIDES if turn % 2 else reversed(SIDES):
            for path, client, rate in _side(side, seconds, timeout_s):
                found.setdefault((path, client), {name: [] for name in SIDES})[side].append(rate)
                progress(f"turn {turn} of {repeat}: {side}, {path}: {client} {rate:,} a second")
    return [{"path": path, "client": client, **rates} for (path, client), rates in found.items()]


def _side(side: str, seconds: int, timeout_s: int) -> Iterator[tuple[str, str, int]]:
    for path, programs in PATHS.items():
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-")))
            (directory / "home").mkdir()
            stock = Stock(fetch_jars(), directory / "home")
            namesrv = stack.enter_context(SIDES[side](directory, stock))
            with AdminClient(namesrv) as admin:
                admin.create_topic(TOPIC, QUEUES)
            with limited(timeout_s, f"{side}, {path}"):
                rates = _run(stock, namesrv, programs, seconds)
            for program, rate in zip(programs, rates, strict=True):
                yield path, program.name, rate


def _run(stock: Stock, namesrv: str, programs: tuple[Program, ...], seconds: int) -> list[int]:
    """The last rate of each, when all are warm and have printed one every second for that long."""
    running: list[subprocess.Popen[bytes]] = []
    outputs = [stock.home / f"{program.name}.log" for program in programs]
    try:
        for program, output in zip(programs, outputs, strict=True):
            main = f"{PACKAGE}.example.benchmark.{program.name}"
            words = [java(), *stock.options("512m"), "-cp", stock.class_path, main]
            words += ["-t", TOPIC, "-n", namesrv, "-ri", "1000", *program.options]
            with output.open("wb") as log:
                running.append(subprocess.Popen(words, stdout=log, stderr=log, cwd=stock.home))
        while not all(_warm(rates_of(*pair), seconds) for pair in zip(programs, outputs, strict=True)):
            if any(process.poll() is not None for process in running):
                raise SystemExit("A client ended early:\n" + "\n".join(output.read_text() for output in outputs))
            time.sleep(LOOK_S)
    finally:
        for process in running:
            process.kill()
            process.wait()
    return [rates_of(program, output)[-1] for program, output in zip(programs, outputs, strict=True)]


def _warm(rates: list[int], seconds: int) -> bool:
    return len(rates) >= WARM_S + seconds and rates[-1] > 0


def rates_of(program: Program, output: Path) -> list[int]:
    """What it printed so far, each the mean of ten seconds; the first ones are of a JVM that still compiles."""
    return [int(rate) for rate in program.printed.findall(output.read_text())]


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
    parser.add_argument("--seconds", type=int, default=10, help="that each prints rates for")
    parser.add_argument("--repeat", type=int, default=2)
    arguments = parser.parse_args()
    measured = turns(arguments.repeat, arguments.seconds, timeout_s=600)
    print(table(measured))
    print(json.dumps(measured))


if __name__ == "__main__":
    main()

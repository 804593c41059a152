"""RocketMQ's own benchmark producer against our broker and against RocketMQ's, in turn.

    python benchmarks/stock_producer.py --threads 64 --seconds 30 --rounds 2

The client is `org.apache.rocketmq.example.benchmark.Producer` of RocketMQ 5.5.0, 128-byte messages, synchronous sends;
the stock broker and name server run with the JVM's defaults and their own, with a heap of 2 GB. Each figure is the mean
of the sends a second that the client prints every ten seconds, the first of each run left out. Everything shares the
cores of this machine. Fetches RocketMQ's jars the first time.
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
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "java"))

from ours import up
from rocketmq import OPENED, PACKAGE, RocketMQ, fetch_jars, java

from rmqspark.client.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "producer-benchmark"
_TPS = re.compile(r"Send TPS: *(\d+)")


class Stock(RocketMQ):
    """RocketMQ's programs as its own scripts start them, but for the size of the heap."""

    def options(self, heap: str) -> list[str]:
        heap = "2g" if heap == "1g" else heap
        return [f"-Xms{heap}", f"-Xmx{heap}", f"-Duser.home={self.home}", *OPENED]


@contextmanager
def ours(directory: Path, _: Stock) -> Iterator[str]:
    with up(directory) as running:
        yield running.namesrv


@contextmanager
def theirs(directory: Path, stock: Stock) -> Iterator[str]:
    with stock.name_server() as namesrv, stock.broker(directory / "store", namesrv) as broker:
        yield namesrv
        broker.kill()


def measure(stock: Stock, namesrv: str, threads: int, size_bytes: int, seconds: int) -> float:
    """Mean sends a second of one run of the benchmark producer."""
    arguments = ["-t", TOPIC, "-w", str(threads), "-s", str(size_bytes), "-n", namesrv]
    command = [java(), *stock.options("512m"), "-cp", stock.class_path, f"{PACKAGE}.example.benchmark.Producer"]
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=stock.home
    )
    try:
        time.sleep(seconds)
    finally:
        process.kill()
    printed = process.communicate()[0]
    rates = [int(rate) for rate in _TPS.findall(printed)]
    if len(rates) < 2:
        raise SystemExit(f"The benchmark producer printed too little in {seconds} s:\n{printed}")
    return statistics.mean(rates[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--body-bytes", type=int, default=128)
    parser.add_argument("--seconds", type=int, default=45, help="of each run")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    rates: dict[str, list[float]] = {"rmqspark": [], "RocketMQ 5.5.0": []}
    for number in range(arguments.rounds):
        for name, servers in (("rmqspark", ours), ("RocketMQ 5.5.0", theirs)):
            with ExitStack() as stack:
                directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-")))
                (directory / "home").mkdir()
                stock = Stock(fetch_jars(), directory / "home")
                namesrv = stack.enter_context(servers(directory, stock))
                with AdminClient(namesrv) as admin:
                    admin.create_topic(TOPIC, 8)
                rate = measure(stock, namesrv, arguments.threads, arguments.body_bytes, arguments.seconds)
            rates[name].append(rate)
            print(f"round {number + 1}  {name:15} {rate:10,.0f} sends/s", flush=True)
    means = {name: statistics.mean(values) for name, values in rates.items()}
    ratio = means["rmqspark"] / means["RocketMQ 5.5.0"]
    print(f"rmqspark is {ratio:.2f} times as fast")
    print(json.dumps({"threads": arguments.threads, "rates": rates, "ratio": round(ratio, 2)}))


if __name__ == "__main__":
    main()

"""What a killed driver costs: rows lost, doubled and out of order, with our sink and with Spark's connector for Kafka.

    python benchmarks/exactly_once_kills.py --kills 25 --seed 1

Numbered rows go topic → Spark → topic in many small micro-batches, with a Spark driver in processes of its own, which
are killed with SIGKILL at random moments of a batch and started again on the same checkpoint. A kill counts only if it
left a batch open: planned in the checkpoint's offset log, and not in its commit log. At the end a driver that nobody
kills copies what is left, and the target is read. Both sides do it in the same way, with the defaults of each: ours is
exactly-once, Kafka's connector at-least-once, which is all it has. The seed decides the moments, as shares of a batch's
time.

`out of order`: rows (first copies alone) behind a later one of their key, or in another partition than its first one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from copy_driver import KEY, KEYS
from sides import SIDES, settings, started
from spark_paths import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from pyspark.sql import SparkSession
    from sides import Side

PATIENCE_S = 300  # for a driver to come to its next batch
LONGEST_LIFE = 8  # batches that a driver may finish before the one it is killed in


@dataclass(frozen=True)
class Verdict:
    """What became of the rows, in numbers of rows."""

    lost: int
    doubled: int
    out_of_order: int


def verdict(rows: Iterable[tuple[int, int, int]], sent: int) -> Verdict:
    """Of a target's (partition, offset, number), where numbers 0 to `sent` - 1 were sent."""
    copies: Counter[int] = Counter()
    places: dict[int, int] = {}
    newest: dict[int, int] = {}
    out_of_order = 0
    for partition, _, number in sorted(rows):
        copies[number] += 1
        if copies[number] == 1:
            key = number % KEYS
            stray = places.setdefault(key, partition) != partition
            out_of_order += stray or number < newest.get(key, -1)
            newest[key] = max(number, newest.get(key, -1))
    lost = sum(number not in copies for number in range(sent))
    return Verdict(lost, copies.total() - len(copies), out_of_order)


class Driver:
    """`copy_driver.py` on a checkpoint that stays, again and again."""

    def __init__(self, directory: Path, topics: Side, rows_a_batch: int) -> None:
        self._checkpoint = directory / "checkpoint"
        self._log = directory / "driver.txt"
        self._words = [sys.executable, str(Path(__file__).with_name("copy_driver.py")), topics.name, topics.address]
        self._words += [str(self._checkpoint), str(rows_a_batch)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def planned(self) -> int:
        """Number of the newest batch that was begun; -1 if none was."""
        return _newest(self._checkpoint / "offsets")

    @property
    def done(self) -> int:
        return _newest(self._checkpoint / "commits")

    @property
    def is_in_a_batch(self) -> bool:
        done = self.done  # first: a batch that ends in between must not look open
        return self.planned > done

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *words: str) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*self._words, *words], stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """SIGKILL to Python and JVM at once; Spark's Python workers end when they notice."""
        if self._process is not None:
            if self.alive:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait_until(self, met: Callable[[], bool], what: str) -> bool:
        """False if the driver ended by itself before."""
        deadline = time.monotonic() + PATIENCE_S
        while not met():
            if not self.alive:
                return False
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"In {PATIENCE_S} s it did not happen that {what}. The driver's last words:\n{self.output}"
                )
            time.sleep(0.005)
        return True

    def run_to_the_end(self, timeout_s: float) -> None:
        self.start("to-the-end")
        assert self._process is not None
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"The last driver did not end in {timeout_s} s:\n{self.output}") from None
        if code:
            raise SystemExit(f"The last driver ended with {code}:\n{self.output}")

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


def _newest(log: Path) -> int:
    try:
        return max((int(name) for name in os.listdir(log) if name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1


class Campaign:
    """One side: its rows, its driver, its kills."""

    def __init__(self, spark: SparkSession, topics: Side, directory: Path, given: argparse.Namespace) -> None:
        self.kills = self.missed = self.ended = self.sent = 0
        self._spark, self._topics, self._given = spark, topics, given
        self._rng = Random(given.seed)
        self._batch_seconds: deque[float] = deque([0.3], maxlen=5)
        self.driver = Driver(directory, topics, given.rows_a_batch)
        for topic in ("source", "target"):
            topics.create_topic(spark, topic, given.queues)

    def run(self) -> None:
        while self.kills < self._given.kills:
            self._feed(2 * LONGEST_LIFE * self._given.rows_a_batch)
            self.driver.start()
            if self._live():
                self._kill()
            else:
                self._note_its_end()
        self.driver.run_to_the_end(PATIENCE_S)

    def verdict(self) -> Verdict:
        rows = self._topics.read(self._spark, "target").selectExpr(
            "partition", "offset", "cast(cast(body AS string) AS bigint) AS number"
        )
        columns = rows.toArrow().to_pydict()
        return verdict(zip(columns["partition"], columns["offset"], columns["number"], strict=True), self.sent)

    def _feed(self, backlog: int) -> None:
        """Sees to it that so many rows are there beyond the batches that were planned; one task, so in order."""
        missing = max(0, (self.driver.planned + 1) * self._given.rows_a_batch + backlog - self.sent)
        if missing:
            numbers = self._spark.range(self.sent, self.sent + missing, numPartitions=1)
            self._topics.write(
                numbers.selectExpr("cast(cast(id AS string) AS binary) AS body").selectExpr("body", KEY), "source"
            )
            self.sent += missing

    def _live(self) -> bool:
        """Until a random moment of a batch; False if the driver ended by itself before."""
        driver, last = self.driver, self.driver.done + self._rng.randint(1, LONGEST_LIFE)
        share = self._rng.random()
        while driver.done < last:
            if not driver.wait_until(lambda: driver.is_in_a_batch, "a batch began"):
                return False
            begun = time.monotonic()
            if not driver.wait_until(lambda: not driver.is_in_a_batch, "a batch ended"):
                return False
            self._batch_seconds.append(time.monotonic() - begun)
        if not driver.wait_until(lambda: driver.is_in_a_batch, "a batch began"):
            return False
        time.sleep(share * statistics.median(self._batch_seconds))
        return True

    def _kill(self) -> None:
        self.driver.kill()
        if self.driver.is_in_a_batch:
            self.kills += 1
            print(f"  {self._topics.name}: kill {self.kills} in batch {self.driver.planned}", flush=True)
        else:
            self.missed += 1
            print(f"  {self._topics.name}: a kill between batches, which does not count", flush=True)

    def _note_its_end(self) -> None:
        self.ended += 1
        print(f"  {self._topics.name}: the driver ended by itself:\n{self.driver.output}", file=sys.stderr)
        if self.ended > self._given.kills:
            raise SystemExit("Drivers end by themselves again and again.")


def campaign(spark: SparkSession, name: str, given: argparse.Namespace) -> dict[str, Any]:
    """A whole run of one side."""
    begun = time.monotonic()
    with started(name) as topics, tempfile.TemporaryDirectory(prefix="rmq-bench-") as directory:
        running = Campaign(spark, topics, Path(directory), given)
        try:
            running.run()
            found, batches = running.verdict(), running.driver.done + 1
        finally:
            running.driver.kill()
    counted = {"rows": running.sent, "batches": batches, "kills": running.kills}
    counted |= {"kills_between_batches": running.missed, "ended_by_itself": running.ended} | asdict(found)
    return {"side": name} | counted | {"seconds": round(time.monotonic() - begun)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=25, help="that left a batch open, of each side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows-a-batch", type=int, default=1_000)
    parser.add_argument("--queues", type=int, default=4)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Terminated."))  # so that everything is ended and removed
    spark = session(settings("kafka") if "kafka" in given.sides else None)
    results = [campaign(spark, name, given) for name in given.sides]
    print("| | kills in an open batch | between batches | rows | lost | doubled | out of order |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for one in results:
        cells = ("kills", "kills_between_batches", "rows", "lost", "doubled", "out_of_order")
        print(f"| {one['side']} | " + " | ".join(f"{one[cell]:,}" for cell in cells) + " |")
    print(
        json.dumps({"seed": given.seed, "rows_a_batch": given.rows_a_batch, "queues": given.queues, "results": results})
    )


if __name__ == "__main__":
    main()

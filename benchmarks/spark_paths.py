"""How fast Spark reads and writes topics, beside what the bridge between Spark and Python allows at all.

    python benchmarks/spark_paths.py --rows 5000000 --body-bytes 100 --queues 8

Starts a name server and a broker in a process of their own (or takes those at --namesrv), writes a topic from Spark and
reads it back into Spark's noop sink. Each path stands beside its ceiling: the same rows through the same bridge, with a
Python side that does nothing. Every figure is the median of --repeat runs, after one run that only warms up.

The page cache is filled first, as it is on a machine that has worked for a while. Where a virtual machine gets its
memory from the host page by page, and free pages go back to the host, a page that nobody used for a while costs ten
times what another does: writes would measure the host. --cold-page-cache leaves memory as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figures import Figure, result
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from turns import timed

from rmqspark.client.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql.types import StructType

    from rmqspark.protocol.records.record_builder import EncodedRecords

NARROW = "body binary, queueId int, queueOffset bigint"


class Bridge(DataSource):
    """The ceiling: hands out one Arrow batch again and again, and drops what is written."""

    @classmethod
    def name(cls) -> str:
        return "bridge"

    def reader(self, schema: StructType) -> DataSourceReader:
        return BridgeReader(schema, {name: int(value) for name, value in self.options.items()})

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return BridgeWriter()


class BridgeReader(DataSourceReader):
    def __init__(self, schema: StructType, sizes: dict[str, int]) -> None:
        self._schema, self._sizes = schema, sizes

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._sizes["queues"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        batch = constant_batch(self._schema, self._sizes["bytes"])
        left = self._sizes["rows"] // self._sizes["queues"]
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


class BridgeWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def constant_batch(schema: StructType, body_bytes: int) -> Any:
    """An Arrow batch as the source makes them: real records of equal bodies, decoded."""
    from rmqspark.model import MessageQueue
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.source.values.arrow import ArrowColumns, rows_of_a_batch

    records = encoded_records(rows_of_a_batch(schema), body_bytes)
    return next(ArrowColumns(schema, MessageQueue("bench", "broker-a", 0)).batches(RecordBatch.from_sizes(*records)))


def encoded_records(rows: int, body_bytes: int) -> EncodedRecords:
    """Records as the broker has them, each with a unique id."""
    import numpy as np

    from rmqspark.protocol.buffers.columns import Column
    from rmqspark.protocol.records.property_builder import build_properties
    from rmqspark.protocol.records.record_builder import encode_records
    from rmqspark.protocol.records.unique_keys import unique_keys

    keys = unique_keys("0" * 20, np.arange(rows, dtype=np.int64))
    return encode_records(
        "bench",
        0,
        Column.constant(b"x" * body_bytes, rows),
        build_properties(rows, {"UNIQ_KEY": keys}),
        born_timestamp_ms=0,
        born_host=bytes(8),
    )


@contextlib.contextmanager
def servers(namesrv: str | None) -> Iterator[str]:
    """The name server to use; one of our own, with a broker, unless one is given."""
    if namesrv:
        yield namesrv
        return
    from subprocess import DEVNULL, Popen

    let_modules_be_compiled()
    with tempfile.TemporaryDirectory(prefix="rmq-bench-") as store:
        ports = ["--namesrv-port", "0", "--broker-port", "0", "--no-admin"]
        process = Popen([sys.executable, "-m", "rmqspark", "up", "--store", store, *ports], stdout=DEVNULL)
        try:
            yield endpoint(Path(store) / "endpoints.json", process)
        finally:
            process.terminate()
            process.wait(30)


@contextlib.contextmanager
def filled_page_cache() -> Iterator[None]:
    """All memory in use, by pages of a file without content, which the kernel gives to whoever writes next."""
    size_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    chunk = memoryview(bytearray(1 << 24))
    with tempfile.TemporaryFile(prefix="rmq-bench-", buffering=0) as file:
        file.truncate(size_bytes)
        while file.readinto(chunk):
            pass
        yield


def endpoint(file: Path, process: Any) -> str:
    """The name server's address, as soon as `rmq up` has written it."""
    deadline = time.monotonic() + 60
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("rmq up did not come up.")
        time.sleep(0.05)
    return str(json.loads(file.read_text())["namesrv"])


def let_modules_be_compiled() -> None:
    """An installed package is compiled, a working copy where Python may write what it compiled. If it may not, every
    process that Spark starts compiles all that it imports of ours, some 0.2 s of each query."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Spark with two cores, quiet, on loopback alone; `settings` are more of its own."""
    let_modules_be_compiled()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # workers import data sources of benchmarks
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "4g")
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(Bridge)
    return spark


class Bench:
    """The paths, each a function that moves all rows once."""

    def __init__(self, spark: SparkSession, namesrv: str, rows: int, body_bytes: int, queues: int) -> None:
        self._spark, self._namesrv = spark, namesrv
        self.rows = rows
        self._bytes, self._queues = body_bytes, queues
        self._topics = 0

    def paths(self) -> dict[str, Callable[[], None]]:
        return {
            "ceiling: spark range": lambda: self._noop(self._spark.range(self.rows)),
            "ceiling: write": lambda: self._rows_to_write().write.format("bridge").mode("append").save(),
            "write": self._write,
            "ceiling: read body, queueId, queueOffset": lambda: self._noop(self._bridge(NARROW)),
            "read body, queueId, queueOffset": lambda: self._noop(self._topic(NARROW)),
            "direct read body, queueId, queueOffset": lambda: self._noop(self._topic(NARROW, "direct")),
            "ceiling: read all columns": lambda: self._noop(self._bridge(self._topic(None).schema)),
            "read all columns": lambda: self._noop(self._topic(None)),
            "direct read all columns": lambda: self._noop(self._topic(None, "direct")),
        }

    def _noop(self, frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def _rows_to_write(self) -> DataFrame:
        return self._spark.range(self.rows).selectExpr(f"cast(repeat('x', {self._bytes}) as binary) as body")

    def _write(self) -> None:
        self._topics += 1
        writer = self._rows_to_write().write.format("rmq").option("namesrv", self._namesrv)
        writer.option("topic", f"bench-{self._topics}").mode("append").save()

    def create_topics(self, count: int) -> None:
        with AdminClient(self._namesrv) as admin:
            for number in range(1, count + 1):
                admin.create_topic(f"bench-{number}", self._queues)

    def fill(self) -> None:
        """Writes the topic that is read, and counts it."""
        self._write()
        if (rows := self.count_last()) != self.rows:
            raise SystemExit(f"{rows:,} rows arrived of {self.rows:,}.")

    def count_last(self) -> int:
        """Rows of the topic that was written last."""
        return self._topic(NARROW, topic=f"bench-{self._topics}").count()

    def _topic(self, schema: str | None, mode: str = "broker", topic: str = "bench-1") -> DataFrame:
        reader = self._spark.read.format("rmq").option("namesrv", self._namesrv).option("readMode", mode)
        return (reader.schema(schema) if schema else reader).load(topic)

    def _bridge(self, schema: str | StructType) -> DataFrame:
        sizes = {"rows": self.rows, "bytes": self._bytes, "queues": self._queues}
        return self._spark.read.format("bridge").schema(schema).options(**sizes).load()


def measure(paths: dict[str, Callable[[], None]], rows: int, repeat: int) -> Iterator[Figure]:
    for path, run in paths.items():
        seconds = [timed(run) for _ in range(repeat + 1)][1:]
        yield Figure(path, rows, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--body-bytes", type=int, default=100)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--namesrv", help="servers that run already; topics bench-1, bench-2 … must not exist there")
    parser.add_argument("--cold-page-cache", action="store_true", help="do not fill the page cache first")
    parser.add_argument("--json", action="store_true", help="JSON alone instead of a table and JSON")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if not arguments.cold_page_cache:
            stack.enter_context(filled_page_cache())
        namesrv = stack.enter_context(servers(arguments.namesrv))
        bench = Bench(session(), namesrv, arguments.rows, arguments.body_bytes, arguments.queues)
        bench.create_topics(arguments.repeat + 1)
        figures = []
        for figure in measure(bench.paths(), arguments.rows, arguments.repeat):
            figures.append(figure)
            if not arguments.json:
                print(
                    f"{figure.path:45} {figure.rows_per_second / 1e6:8.2f} M rows/s"
                    f" ({figure.lowest / 1e6:.2f}–{figure.highest / 1e6:.2f})",
                    flush=True,
                )
    results = [result(figure) for figure in figures]
    print(json.dumps({"body_bytes": arguments.body_bytes, "queues": arguments.queues, "results": results}))


if __name__ == "__main__":
    main()

"""The two that are compared, behind one face: our topics and Kafka's, each with its source and its sink for Spark; and
beside them what Spark's bridge to Python allows at all.

A frame to be written has the column `body`; `key`, where rows of a key have to stay in order; and it may have `tags`
and `keys`, for which Kafka has two headers. Everything else is as each connector does it by default.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from empty_edge import EmptyEdge
from kafka import connector_jars, kafka
from pyspark.sql import functions as sf
from spark_paths import servers

from rmqspark.client.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming import DataStreamReader, DataStreamWriter

SIDES = ("rmqspark", "kafka")
FEW = "few"
FEW_ROWS = 1_000
"""A topic of so many rows: what a path is warmed with before it is timed."""
_HEADERS = ("tags", "keys")

_ARROW_BATCHES = "spark.sql.execution.arrow.maxBytesPerBatch"


class Side(Protocol):
    """Topics at an address."""

    name: str
    address: str
    tries: int  # of a run
    filling: ClassVar[Mapping[str, str]]  # options of writes that nobody times, so that they come through at once

    def create_topic(self, spark: SparkSession, topic: str, partitions: int) -> None: ...

    def write(self, frame: DataFrame, topic: str, **options: object) -> None:
        """A batch job."""

    def read(self, spark: SparkSession, topic: str) -> DataFrame:
        """All there is: `partition`, `offset`, `body`."""

    def read_bodies(self, spark: SparkSession, topic: str, **options: object) -> DataFrame:
        """All there is: `body` alone."""

    def read_all_columns(self, spark: SparkSession, topic: str, **options: object) -> DataFrame:
        """All there is, with the columns that `load()` gives."""

    def stream(self, spark: SparkSession, topic: str, rows_a_batch: int | None, **options: object) -> DataFrame:
        """From the first row on: `body`."""

    def stream_all_columns(self, spark: SparkSession, topic: str, rows_a_batch: int, **options: object) -> DataFrame:
        """From the first row on, with the columns that `load()` gives."""

    def writing(self, frame: DataFrame, topic: str, **options: object) -> DataStreamWriter:
        """A streaming query into a topic, not started yet."""


class Rmqspark:
    """Ours. A stream is exactly-once unless an option says otherwise, a batch job at-least-once."""

    name = "rmqspark"
    tries = 1
    filling: ClassVar[Mapping[str, str]] = {}

    def __init__(self, address: str) -> None:
        self.address = address

    def create_topic(self, spark: SparkSession, topic: str, partitions: int) -> None:
        del spark
        with AdminClient(self.address) as admin:
            admin.create_topic(topic, partitions)

    def write(self, frame: DataFrame, topic: str, **options: object) -> None:
        writer = self._named(frame).write.format("rmq").options(**self._where(topic), **options)
        writer.mode("append").save()

    def read(self, spark: SparkSession, topic: str) -> DataFrame:
        rows = self._reader(spark, {}).schema("queueId int, queueOffset bigint, body binary").load(topic)
        return rows.toDF("partition", "offset", "body")

    def read_bodies(self, spark: SparkSession, topic: str, **options: object) -> DataFrame:
        return self._reader(spark, options).schema("body binary").load(topic)

    def read_all_columns(self, spark: SparkSession, topic: str, **options: object) -> DataFrame:
        return self._reader(spark, options).load(topic)

    def stream(self, spark: SparkSession, topic: str, rows_a_batch: int | None, **options: object) -> DataFrame:
        return self._streamer(spark, {**_limit(rows_a_batch), **options}).schema("body binary").load(topic)

    def stream_all_columns(self, spark: SparkSession, topic: str, rows_a_batch: int, **options: object) -> DataFrame:
        return self._streamer(spark, {**_limit(rows_a_batch), **options}).load(topic)

    def writing(self, frame: DataFrame, topic: str, **options: object) -> DataStreamWriter:
        return self._named(frame).writeStream.format("rmq").options(**self._where(topic), **options)

    def _reader(self, spark: SparkSession, options: Mapping[str, object]) -> DataFrameReader:
        return spark.read.format("rmq").option("namesrv", self.address).options(**options)

    def _streamer(self, spark: SparkSession, options: Mapping[str, object]) -> DataStreamReader:
        reader = spark.readStream.format("rmq").option("namesrv", self.address)
        return reader.option("startingOffsets", "earliest").options(**options)

    def _where(self, topic: str) -> dict[str, str]:
        return {"namesrv": self.address, "topic": topic}

    def _named(self, frame: DataFrame) -> DataFrame:
        return frame.withColumnRenamed("key", "shardingKey")


class Kafka:
    """Apache Kafka with Spark's own connector: at-least-once, the only thing that it offers."""

    name = "kafka"
    tries = 3
    filling: ClassVar[Mapping[str, str]] = {"kafka.enable.idempotence": "false"}

    def __init__(self, address: str) -> None:
        self.address = address

    def create_topic(self, spark: SparkSession, topic: str, partitions: int) -> None:
        clients: Any = spark._jvm.org.apache.kafka.clients.admin  # type: ignore[union-attr]
        admin = clients.AdminClient.create({"bootstrap.servers": self.address})
        try:
            admin.createTopics([clients.NewTopic(topic, partitions, 1)]).all().get()
        finally:
            admin.close()

    def write(self, frame: DataFrame, topic: str, **options: object) -> None:
        writer = self._named(frame).write.format("kafka").options(**self._where(), **options)
        writer.option("topic", topic).save()

    def read(self, spark: SparkSession, topic: str) -> DataFrame:
        return self.read_all_columns(spark, topic).select("partition", "offset", sf.col("value").alias("body"))

    def read_bodies(self, spark: SparkSession, topic: str, **options: object) -> DataFrame:
        return self.read_all_columns(spark, topic, **options).select(sf.col("value").alias("body"))

    def read_all_columns(self, spark: SparkSession, topic: str, **options: object) -> DataFrame:
        return spark.read.format("kafka").options(**self._where()).option("subscribe", topic).options(**options).load()

    def stream(self, spark: SparkSession, topic: str, rows_a_batch: int | None, **options: object) -> DataFrame:
        return self._stream(spark, topic, {**_limit(rows_a_batch), **options}).select(sf.col("value").alias("body"))

    def stream_all_columns(self, spark: SparkSession, topic: str, rows_a_batch: int, **options: object) -> DataFrame:
        return self._stream(spark, topic, {**_limit(rows_a_batch), **options})

    def _stream(self, spark: SparkSession, topic: str, options: Mapping[str, object]) -> DataFrame:
        reader = spark.readStream.format("kafka").options(**self._where()).option("subscribe", topic)
        return reader.option("startingOffsets", "earliest").options(**options).load()

    def writing(self, frame: DataFrame, topic: str, **options: object) -> DataStreamWriter:
        writer = self._named(frame).writeStream.format("kafka").options(**self._where(), **options)
        return writer.option("topic", topic)

    def _where(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.address}

    def _named(self, frame: DataFrame) -> DataFrame:
        named = frame.withColumnRenamed("body", "value")
        headers = [name for name in _HEADERS if name in frame.columns]
        pairs = [sf.struct(sf.lit(name).alias("key"), sf.col(name).cast("binary").alias("value")) for name in headers]
        return named.withColumn("headers", sf.array(*pairs)).drop(*headers) if headers else named


class Nothing:
    """No topics: Python that hands out the same rows again and again, and forgets what is written. Nothing that is in
    Python on both ends could be faster."""

    name = "nothing"
    address = ""
    tries = 1

    def __init__(self, spark: SparkSession, rows: int, partitions: int, body_bytes: int) -> None:
        spark.dataSource.register(EmptyEdge)
        self._rows = rows
        self._partitions = partitions
        self._body_bytes = body_bytes

    def create_topic(self, spark: SparkSession, topic: str, partitions: int) -> None:
        """Needs none."""

    def write(self, frame: DataFrame, topic: str, **options: object) -> None:
        del topic, options
        frame.write.format("empty").option("settled", True).mode("append").save()

    def read(self, spark: SparkSession, topic: str) -> DataFrame:
        """As many rows as were forgotten."""
        del topic
        return spark.range(self._rows).toDF("offset")

    def stream(self, spark: SparkSession, topic: str, rows_a_batch: int | None, **options: object) -> DataFrame:
        del rows_a_batch, options
        rows = (FEW_ROWS if topic == FEW else self._rows) // self._partitions
        made = {"partitions": self._partitions, "rows": rows, "bytes": self._body_bytes, "settled": True}
        return spark.readStream.format("empty").options(**made).load()

    def writing(self, frame: DataFrame, topic: str, **options: object) -> DataStreamWriter:
        del topic, options
        return frame.writeStream.format("empty").option("settled", True)


LARGE_SENDS = {"batchBytes": "4m"}
"""What docs/spark.md advises for rows of a kilobyte, together with `arrow_batches` of the same size."""


@contextmanager
def arrow_batches(spark: SparkSession, at_most: str | None) -> Iterator[None]:
    """Spark hands rows to Python in batches of so many bytes; None: as it does without being told (64m)."""
    if at_most is not None:
        spark.conf.set(_ARROW_BATCHES, at_most)
    try:
        yield
    finally:
        spark.conf.unset(_ARROW_BATCHES)


def side(name: str, address: str) -> Side:
    return Rmqspark(address) if name == "rmqspark" else Kafka(address)


def settings(name: str) -> dict[str, str]:
    """What a Spark session needs for a side."""
    return {"spark.jars": connector_jars()} if name == "kafka" else {}


@contextmanager
def started(name: str) -> Iterator[Side]:
    """A side on fresh servers, gone afterwards with all that they stored."""
    with ExitStack() as stack:
        if name == "rmqspark":
            yield Rmqspark(stack.enter_context(servers(None)))
            return
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-bench-"))
        yield Kafka(stack.enter_context(kafka(Path(directory))).address)


def _limit(rows_a_batch: int | None) -> dict[str, str]:
    return {} if rows_a_batch is None else {"maxOffsetsPerTrigger": str(rows_a_batch)}

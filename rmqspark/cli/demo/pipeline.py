"""The demo's Spark side: topic `flights` → event-time aggregate → topic `delays`, and back to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FLIGHT = "carrier string, flight int, origin string, dest string, time timestamp, dep_delay int, distance int"
DELAY = "day string, carrier string, flights long, departed long, delay_minutes long"


def start_query(
    spark: SparkSession, namesrv: str, source: str, target: str, checkpoint: Path, rows_per_batch: int
) -> StreamingQuery:
    """Delays per day and carrier, one row each, written when the watermark says that a day is complete."""
    from pyspark.sql import functions as sf

    read = spark.readStream.format("rmq").option("namesrv", namesrv).option("subscribe", source)
    read = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", rows_per_batch)
    flights = read.schema("body binary").load().select(sf.from_json(sf.col("body").cast("string"), FLIGHT).alias("f"))
    delays = (
        flights.select("f.*")
        .withWatermark("time", "2 days")
        .groupBy(sf.window("time", "1 day"), "carrier")
        .agg(
            sf.count(sf.lit(1)).alias("flights"),
            sf.count("dep_delay").alias("departed"),
            sf.coalesce(sf.sum("dep_delay"), sf.lit(0)).alias("delay_minutes"),
        )
        .select(
            sf.date_format("window.start", "yyyy-MM-dd").alias("day"), "carrier", "flights", "departed", "delay_minutes"
        )
    )
    out = delays.select(
        sf.to_json(sf.struct("*")).alias("body"), sf.col("carrier").alias("tags"), sf.col("day").alias("keys")
    )
    write = out.writeStream.format("rmq").option("namesrv", namesrv).option("topic", target).outputMode("append")
    return write.option("checkpointLocation", str(checkpoint)).queryName("delays").start()


def follow(query: StreamingQuery, total: int, report: Callable[[int], None]) -> None:
    """Waits until the query has read `total` rows and has nothing left to do; reports rows read so far.

    Raises the query's own error if it ends.
    """
    while not _has_read(query, total, report):
        if query.awaitTermination(1):
            break
    query.processAllAvailable()
    _has_read(query, total, report)


def _has_read(query: StreamingQuery, total: int, report: Callable[[int], None]) -> bool:
    done = rows_read(query)
    report(done)
    return done >= total


def rows_read(query: StreamingQuery) -> int:
    """Rows that the query's batches have read so far."""
    return sum(progress.numInputRows for progress in query.recentProgress)


def rows_too_late(query: StreamingQuery) -> int:
    """Rows that the watermark refused: the comparison would not add up, so the demo looks."""
    return sum(
        state.numRowsDroppedByWatermark for progress in query.recentProgress for state in progress.stateOperators
    )


def read_delays(spark: SparkSession, namesrv: str, topic: str) -> pd.DataFrame:
    """What stands in the topic now, by a batch read."""
    from pyspark.sql import functions as sf

    rows: DataFrame = spark.read.format("rmq").option("namesrv", namesrv).option("subscribe", topic).load()
    parsed = rows.select(sf.from_json(sf.col("body").cast("string"), DELAY).alias("d")).select("d.*")
    return parsed.toPandas()

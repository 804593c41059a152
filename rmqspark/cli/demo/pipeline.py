"""The demo's Spark side: topic `flights` → event-time aggregate → topic `delays` and a Delta table, both exactly once.

Run as `python -m rmqspark.cli.demo.pipeline PLAN`, a driver of its own that can be killed. What it has to say it
prints, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.cli.demo.delta import delta_session
from rmqspark.cli.processes.ending import tie

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FLIGHT = "carrier string, flight int, origin string, dest string, time timestamp, dep_delay int, distance int"
APPLICATION = "demo-delays"  # the one id under which both sinks keep count of what they have


class Plan(NamedTuple):
    """What the driver is to do. `dies_after_batch`: it kills itself there, when the batch is written."""

    namesrv: str
    source: str
    target: str
    table: str
    checkpoint: str
    rows_per_batch: int
    messages: int
    dies_after_batch: int | None = None

    def to_json(self) -> str:
        return json.dumps(self._asdict())


def main() -> None:
    tie()
    plan = Plan(**json.loads(sys.argv[1]))
    spark = delta_session("rmq demo")
    tell(started=True)
    query = start_query(spark, plan)
    while messages_read(query) < plan.messages and not query.awaitTermination(1):
        tell(read=messages_read(query))
    query.processAllAvailable()
    tell(read=messages_read(query))
    query.stop()
    rows = spark.read.format("delta").load(plan.table).collect()
    tell(late=rows_too_late(query), table=[row.asDict() for row in rows])


def tell(**facts: Any) -> None:
    print(json.dumps({"demo": facts}), flush=True)


def start_query(spark: SparkSession, plan: Plan) -> StreamingQuery:
    """Delays per day and carrier, one row each, written when the watermark says that a day is complete."""
    from pyspark.sql import functions as sf

    read = spark.readStream.format("rmq").option("namesrv", plan.namesrv).option("subscribe", plan.source)
    read = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", plan.rows_per_batch)
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
    write = delays.writeStream.foreachBatch(_to_both(plan)).outputMode("append").queryName("delays")
    return write.option("checkpointLocation", plan.checkpoint).start()


def _to_both(plan: Plan) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        from pyspark.sql import functions as sf

        once: dict[str, Any] = {"txnAppId": APPLICATION, "txnVersion": number}  # Delta's names, and ours too
        batch.persist()
        batch.write.format("delta").options(**once).mode("append").save(plan.table)
        out = batch.select(
            sf.to_json(sf.struct("*")).alias("body"), sf.col("carrier").alias("tags"), sf.col("day").alias("keys")
        )
        out.write.format("rmq").options(**once, namesrv=plan.namesrv, topic=plan.target).mode("append").save()
        batch.unpersist()
        if number == plan.dies_after_batch:
            os.kill(os.getpid(), signal.SIGKILL)

    return write


def messages_read(query: StreamingQuery) -> int:
    """How far the query has come, over all its starts: messages before the end of its newest batch."""
    progress = query.lastProgress
    if progress is None or not progress.sources[0].endOffset:
        return 0
    given = progress.sources[0].endOffset
    offsets = json.loads(given) if isinstance(given, str) else given
    brokers = [broker for topic in offsets["topics"].values() for broker in topic["brokers"].values()]
    return sum(sum(broker["offsets"].values()) for broker in brokers)


def rows_too_late(query: StreamingQuery) -> int:
    """Rows that the watermark refused: the comparison would not add up, so the demo looks."""
    return sum(
        state.numRowsDroppedByWatermark for progress in query.recentProgress for state in progress.stateOperators
    )


def unfinished_batch(checkpoint: Path) -> int | None:
    """The batch that Spark has planned (`offsets/N`) and not recorded as done (`commits/N`), if there is one."""
    planned, done = (
        max((int(file.name) for file in (checkpoint / log).glob("[0-9]*")), default=-1)
        for log in ("offsets", "commits")
    )
    return planned if planned > done else None


if __name__ == "__main__":
    main()

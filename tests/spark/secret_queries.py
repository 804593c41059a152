"""Queries whose options have secrets, and all that Spark says of them. Run by test_spark_secrets.py as a script.

Reads from standard input what they are, as JSON; prints plans, progress and errors.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

import rmqspark.spark
from rmqspark import Access, Credentials
from rmqspark.source.lag import LagListener

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

PATIENCE_S = 200


def session(events: str, logging: str) -> SparkSession:
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events,
        "spark.eventLog.compress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file://{logging}",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Prints how it failed; it has to."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
        print(f"--- {what} failed: {error!r}\n{error}")
    else:
        raise AssertionError(f"{what} went well")


def explain(frame: DataFrame) -> None:
    for mode in ("extended", "formatted"):
        frame.explain(mode)


def main(given: dict[str, Any]) -> None:
    spark = session(given["events"], given["logging"])
    keys, namesrv, source, target = given["keys"], given["namesrv"], given["source"], given["target"]
    access = Access(Credentials(keys["accessKey"], keys["secretKey"], keys["securityToken"]))
    spark.streams.addListener(LagListener(namesrv, every_ms=0, access=access))

    # in batches
    rmqspark.spark.register(spark, "orders", source, namesrv=namesrv, **keys)
    selected = spark.sql("SELECT count(*) FROM orders")
    explain(selected)
    print("rows", selected.collect()[0][0])
    insert = "INSERT INTO orders (body) SELECT CAST(CAST(id AS STRING) AS BINARY) FROM range(3)"
    print(spark.sql(f"EXPLAIN EXTENDED {insert}").collect()[0][0])
    spark.sql(insert)
    print(spark.sql("DESCRIBE EXTENDED orders").collect())
    rows = spark.range(4).selectExpr("CAST(id AS STRING) body").write.format("rmq").options(namesrv=namesrv, **keys)
    rows.option("topic", target).mode("append").save()

    # in a stream
    stream = spark.readStream.format("rmq").options(namesrv=namesrv, startingOffsets="earliest", **keys).load(source)
    writer = stream.writeStream.format("rmq").options(namesrv=namesrv, **keys).option("topic", target)
    writer = writer.option("checkpointLocation", given["checkpoint"]).queryName("copy").trigger(availableNow=True)
    explain(stream)
    query = writer.start()
    print("ended", query.awaitTermination(PATIENCE_S), query.id)
    query.explain(extended=True)
    print(query, query.status, query.lastProgress, query.recentProgress)

    # and what goes wrong
    nulls = stream.selectExpr("IF(queueOffset >= 0, NULL, body) body")
    lost = nulls.writeStream.format("rmq").options(namesrv=namesrv, **keys).option("topic", target)
    with failing("a task of a stream"):
        lost.option("checkpointLocation", given["checkpoint"] + "-2").start().awaitTermination(PATIENCE_S)
    with failing("a slip of the pen"):
        spark.read.format("rmq").options(secretKeys=keys["secretKey"], namesrv=namesrv).load(source)
    # nobody is there, so whether that connection would be encrypted is never found out
    away = {"namesrv": "127.0.0.1:1", "fetchOffset.retryIntervalMs": "1", **keys, **given["tls"]}
    frame = spark.read.format("rmq").options(**away).load(source)
    with failing("a read from nowhere"):
        explain(frame)
        frame.count()
    del away["fetchOffset.retryIntervalMs"]
    with failing("a write to nowhere"):
        spark.range(1).selectExpr("'a' body").write.format("rmq").options(**away).mode("append").save(target)
    spark.stop()


if __name__ == "__main__":
    main(json.load(sys.stdin))

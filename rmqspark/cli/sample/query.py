"""A Spark query from topic to topic, exactly once: `python -m rmqspark.cli.sample.query NAMESRV CHECKPOINT`."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from rmqspark.cli.processes.ending import end_of_input
from rmqspark.cli.sample.names import LARGE, LARGE_AMOUNT, QUERY, QUERY_GROUP, TOPIC
from rmqspark.source.lag import LagListener


def main() -> None:
    """Copies large orders until standard input ends. Raises what ends the query."""
    namesrv, checkpoint = sys.argv[1:]
    ended = end_of_input()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run this Python
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("rmq up --demo")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    spark.streams.addListener(LagListener(namesrv=namesrv))
    orders = spark.readStream.format("rmq").option("namesrv", namesrv).option("startingOffsets", "earliest")
    query = (
        orders.option("group", QUERY_GROUP)
        .load(TOPIC)
        .where(f"get_json_object(cast(body as string), '$.amount') > {LARGE_AMOUNT}")
        .select("body", "tags", "keys")
        .writeStream.queryName(QUERY)
        .format("rmq")
        .option("namesrv", namesrv)
        .option("topic", LARGE)
        .option("autoCreateTopic", "true")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="5 seconds")
        .start()
    )
    while not ended.wait(1):
        if (failure := query.exception()) is not None:
            raise failure
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()

"""A Spark driver of its own: copies a topic, exactly-once, until it is killed. Run by `CopyDriver` as a script.

Arguments: name server, checkpoint, source topic, target topic, transactional id, messages a batch.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf


def main(namesrv: str, checkpoint: str, source: str, target: str, transactional_id: str, messages: str) -> None:
    session = SparkSession.builder.master("local[2,4]")  # a task may fail three times, as on a cluster
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.streaming.minBatchesToRetain": "1000",
        "spark.python.worker.faulthandler.enabled": "false",
    }.items():
        session = session.config(name, value)
    spark = session.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    read = spark.readStream.format("rmq").option("namesrv", namesrv).option("startingOffsets", "earliest")
    patient = {"fetchOffset.numRetries": "20", "fetchOffset.retryIntervalMs": "50", "maxOffsetsPerTrigger": messages}
    rows = read.options(**patient).schema("body binary, keys string").load(source)
    write = rows.select("body", sf.col("keys").alias("shardingKey")).writeStream.format("rmq")
    write = write.option("namesrv", namesrv).option("topic", target).option("transactionalId", transactional_id)
    write.option("checkpointLocation", checkpoint).queryName("copy").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

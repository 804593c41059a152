"""What a user does first, on a Spark that is not in one process. Run by test_spark_elsewhere.py as a script.

Arguments: kind of Spark, name server, source topic, target topic, checkpoint. Prints what it found, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from pyspark.sql import SparkSession

import rmqspark.spark
from rmqspark.source.lag import LagListener

PATIENCE_S = 200


class ToldListener(LagListener):
    """Says when it has told of a query's end."""

    def __init__(self, namesrv: str) -> None:
        super().__init__(namesrv, every_ms=0)
        self.of_the_end = threading.Event()

    def onQueryTerminated(self, event: Any) -> None:
        super().onQueryTerminated(event)
        self.of_the_end.set()


def session(kind: str) -> SparkSession:
    if kind == "connect":
        return SparkSession.builder.remote("local[2]").getOrCreate()
    quiet = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return SparkSession.builder.master("local-cluster[2,1,1024]").config(map=quiet).getOrCreate()


def main(kind: str, namesrv: str, source: str, target: str, checkpoint: str) -> None:
    spark = session(kind)
    listener = ToldListener(namesrv)
    spark.streams.addListener(listener)
    read = spark.read.format("rmq").option("namesrv", namesrv).load(source).count()
    stream = spark.readStream.format("rmq").option("namesrv", namesrv).option("startingOffsets", "earliest")
    writer = stream.load(source).writeStream.format("rmq").option("namesrv", namesrv).option("topic", target)
    writer = writer.queryName(f"copy on {kind}").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    ended = bool(query.awaitTermination(PATIENCE_S)) and listener.of_the_end.wait(PATIENCE_S)
    rmqspark.spark.register(spark, "view", source, namesrv=namesrv)
    selected = spark.sql("SELECT count(DISTINCT body) AS bodies FROM view").collect()[0].bodies
    print(json.dumps({"read": read, "ended": ended, "selected": selected}))
    spark.streams.removeListener(listener)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

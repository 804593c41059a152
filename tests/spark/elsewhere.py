"""What a user does first, on a Spark that is not in one process. Run by test_spark_elsewhere.py as a script.

Arguments: kind of Spark, name server, source topic, target topic, checkpoint, directory of event logs. Prints what it
found, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import rmqspark.spark
from rmqspark.source.lag import LagListener

PATIENCE_S = 200
SECRET = "5ecret-of-the-user"
KEYS = {"accessKey": "billing", "secretKey": SECRET}
# A server of Spark Connect tells requests as text, with their options; docs/spark.md has this.
REDACTION = r'(?i)"(secretKey|securityToken|tlsKeyPassword)"\s+value: "[^"]*"'


class ToldListener(LagListener):
    """Says when it has told of a query's end."""

    def __init__(self, namesrv: str) -> None:
        super().__init__(namesrv, every_ms=0)
        self.of_the_end = threading.Event()

    def onQueryTerminated(self, event: Any) -> None:
        super().onQueryTerminated(event)
        self.of_the_end.set()


def session(kind: str, events: str) -> SparkSession:
    small = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    small |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events, "spark.eventLog.compress": "false"}
    if kind == "connect":
        small["spark.sql.redaction.string.regex"] = REDACTION
        return SparkSession.builder.remote("local[2]").config(map=small).getOrCreate()
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return SparkSession.builder.master("local-cluster[1,2,1024]").config(map=small | local).getOrCreate()


def place_of_pyspark(_: int) -> str:
    """For a worker to say."""
    import pyspark

    return pyspark.__file__


def main(kind: str, namesrv: str, source: str, target: str, checkpoint: str, events: str) -> None:
    spark = session(kind, events)
    listener = ToldListener(namesrv)
    spark.streams.addListener(listener)
    stream = spark.readStream.format("rmq").options(namesrv=namesrv, startingOffsets="earliest", **KEYS)
    writer = stream.load(source).writeStream.format("rmq").options(namesrv=namesrv, topic=target, **KEYS)
    writer = writer.queryName(f"copy on {kind}").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    ended = bool(query.awaitTermination(PATIENCE_S)) and listener.of_the_end.wait(PATIENCE_S)
    rmqspark.spark.register(spark, "view", source, namesrv=namesrv, **KEYS)
    selected = sorted(row.body for row in spark.sql("SELECT cast(body AS string) AS body FROM view").collect())
    (pyspark_of_workers,) = spark.range(1).select(udf(place_of_pyspark)("id")).first() or ("",)
    print(json.dumps({"ended": ended, "selected": selected, "pyspark_of_workers": pyspark_of_workers}))
    spark.streams.removeListener(listener)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

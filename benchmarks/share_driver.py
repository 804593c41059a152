"""One Spark process of shares.py, with one task: does what its input says, and tells how many seconds it took.

python benchmarks/share_driver.py NUMBER NAMESRV COUNT ROWS
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from turns import timed
from writes import BODY

from rmqspark.client.admin import AdminClient
from rmqspark.testing.spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "shared"
BODY_BYTES = 100
WRITTEN_FIRST = 2  # times the rows of a run


def main(number: str, namesrv: str, count: str, rows: str) -> None:
    spark = local_session(1, name=f"share {number}")
    ways = {
        "write": lambda: write(spark, namesrv, int(rows)),
        "read": lambda: read(spark, namesrv, int(number), int(count), int(rows)),
    }
    write(spark, namesrv, WRITTEN_FIRST * int(rows))  # what is made once is made, and there is enough to read
    read(spark, namesrv, int(number), int(count), 1_000)
    print("ready", flush=True)
    for line in sys.stdin:
        print(timed(ways[line.strip()]), flush=True)
    spark.stop()


def write(spark: SparkSession, namesrv: str, rows: int) -> None:
    frame = spark.range(0, rows, numPartitions=1).selectExpr(BODY.format(BODY_BYTES))
    frame.write.format("rmq").option("namesrv", namesrv).option("topic", TOPIC).mode("append").save()


def read(spark: SparkSession, namesrv: str, number: int, count: int, rows: int) -> None:
    """Of queue `number` of every broker the first rows, together so many as it was asked for."""
    with AdminClient(namesrv) as admin:
        brokers = sorted({queue.broker_name for queue in admin.queues(TOPIC)})
    queues = {TOPIC: {broker: [number] for broker in brokers}}
    ends = {TOPIC: {broker: {str(number): rows // count} for broker in brokers}}
    reader = spark.read.format("rmq").option("namesrv", namesrv).option("assign", json.dumps(queues))
    rows_of_it = reader.option("endingOffsets", json.dumps(ends)).schema("body binary").load()
    rows_of_it.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""One Spark process of shares.py, with one task: does what its input says, and tells `[seconds, rows]` of it.

python benchmarks/share_driver.py NUMBER NAMESRV ROWS
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


def main(number: str, namesrv: str, rows: str) -> None:
    spark = local_session(1, name=f"share {number}")
    ways = {
        "write": lambda: write(spark, namesrv, int(rows)),
        "read": lambda: read(spark, namesrv, int(number), int(rows)),
    }
    write(spark, namesrv, WRITTEN_FIRST * int(rows))  # what is made once is made, and there is enough to read
    read(spark, namesrv, int(number), int(rows))
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(ways[line.strip()]()), flush=True)
    spark.stop()


def write(spark: SparkSession, namesrv: str, rows: int) -> tuple[float, int]:
    frame = spark.range(0, rows, numPartitions=1).selectExpr(BODY.format(BODY_BYTES))
    writer = frame.write.format("rmq").option("namesrv", namesrv).option("topic", TOPIC).mode("append")
    return timed(writer.save), rows


def read(spark: SparkSession, namesrv: str, number: int, rows: int) -> tuple[float, int]:
    """Of queue `number` of every broker the first rows: so many as it was asked for, as far as there are."""
    with AdminClient(namesrv) as admin:
        queues = [each for each in admin.topic(TOPIC).queues if each.queue.queue_id == number]
    ends = {each.queue.broker_name: {str(number): min(each.max_offset, rows // len(queues))} for each in queues}
    reader = spark.read.format("rmq").option("namesrv", namesrv).schema("body binary")
    reader = reader.option("assign", json.dumps({TOPIC: {broker: [number] for broker in ends}}))
    writer = reader.option("endingOffsets", json.dumps({TOPIC: ends})).load().write.format("noop").mode("overwrite")
    return timed(writer.save), sum(end for broker in ends.values() for end in broker.values())


if __name__ == "__main__":
    main(*sys.argv[1:])

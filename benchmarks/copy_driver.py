"""A Spark driver of its own: copies topic `source` to topic `target`, batch by batch, until it is killed.

    python benchmarks/copy_driver.py SIDE ADDRESS CHECKPOINT ROWS_A_BATCH [to-the-end]

Rows keep their key, so that those of one key stay in order. With `to-the-end` it ends when all that is there is copied.
"""

from __future__ import annotations

import sys

from sides import settings, side
from spark_paths import session

KEYS = 40
KEY = f"cast(cast(cast(body AS string) AS bigint) % {KEYS} AS string) AS key"


def main(name: str, address: str, checkpoint: str, rows_a_batch: str, until: str = "") -> None:
    spark, topics = session(settings(name)), side(name, address)
    rows = topics.stream(spark, "source", int(rows_a_batch)).selectExpr("body", KEY)
    writing = topics.writing(rows, "target").option("checkpointLocation", checkpoint)
    (writing.trigger(availableNow=True) if until else writing).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Topic → totals → topic, exactly once, with its driver killed on the way: `python examples/spark_exactly_once.py`.

The Spark driver is a process of its own, which is killed with SIGKILL in the middle of a batch, twice, and
started again on the same checkpoint. At the end every total is compared with the orders. Needs Spark and Java 17.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.testing import assert_exactly_once, cluster

ORDERS, CUSTOMERS, KILLS = 6_000, 20, 2


def run_query(namesrv: str, checkpoint: str) -> None:
    """The driver: each batch writes the new total of every customer it has orders of. Runs until it is killed."""
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as sf

    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run this Python
    spark = (
        SparkSession.builder.master("local[2, 4]")  # a task may fail three times, as on a cluster
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    orders = (
        spark.readStream.format("rmq")
        .option("namesrv", namesrv)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 600)
        .load("orders")
        .select(sf.from_json(sf.col("body").cast("string"), "customer string, amount long").alias("order"))
    )
    totals = orders.groupBy("order.customer").agg(sf.sum("order.amount").alias("total"))
    rows = totals.select(sf.to_json(sf.struct("*")).alias("body"), sf.col("customer").alias("shardingKey"))

    def write(batch: DataFrame, number: int) -> None:
        # What makes it exactly-once: a batch that is run again has the same number, and adds nothing.
        once = {"transactionalId": "totals", "transactionVersion": number}
        batch.write.format("rmq").options(**once, namesrv=namesrv, topic="totals").mode("append").save()

    query = rows.writeStream.foreachBatch(write).outputMode("update").option("checkpointLocation", checkpoint)
    query.start().awaitTermination()


@contextmanager
def driver_process(namesrv: str, checkpoint: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver, which is killed with all that belongs to it when the block ends."""
    driver = subprocess.Popen([sys.executable, __file__, namesrv, str(checkpoint)], start_new_session=True)  # noqa: S603 - this very file
    try:
        yield driver
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def wait_until(done: Callable[[], bool], driver: subprocess.Popen[bytes]) -> None:
    while not done():
        assert driver.poll() is None, "the driver ended by itself"
        time.sleep(0.001)


def newest(checkpoint: Path, log: str) -> int:
    return max((int(file.name) for file in (checkpoint / log).glob("[0-9]*")), default=-1)


def main() -> None:
    with cluster(brokers=2) as mq, tempfile.TemporaryDirectory() as directory:
        expected: Counter[str] = Counter()
        with AdminClient(mq.namesrv) as admin, Producer(mq.namesrv) as producer:
            admin.create_topic("orders", queues=2)
            admin.create_topic("totals", queues=2)
            for number in range(ORDERS):
                order = {"customer": f"customer {number % CUSTOMERS}", "amount": number}
                expected[order["customer"]] += number
                producer.send_async(Message("orders", json.dumps(order).encode()))

        checkpoint = Path(directory, "checkpoint")
        for kill in range(1, KILLS + 1):
            with driver_process(mq.namesrv, checkpoint) as driver:
                # In the middle of a batch: Spark has written offsets/N, and not commits/N.
                at_least = 2 * kill
                wait_until(
                    lambda n=at_least: newest(checkpoint, "offsets") > max(newest(checkpoint, "commits"), n), driver
                )
            print(f"kill {kill}: in batch {newest(checkpoint, 'offsets')}")
        with driver_process(mq.namesrv, checkpoint) as driver:
            wait_until(lambda: read_by(checkpoint, newest(checkpoint, "commits")) == ORDERS, driver)

        # Each batch that touches a customer writes the total so far, so the last one must be right ...
        totals: dict[str, int] = {}
        with AdminClient(mq.namesrv) as admin, PullConsumer(mq.namesrv) as consumer:
            for queue in admin.topic("totals").queues:
                consumer.assign([queue.queue])
                consumer.seek(queue.queue, 0)
                while consumer.position(queue.queue) < queue.max_offset:
                    for message in consumer.poll(timeout_ms=1_000):
                        total = json.loads(message.body)
                        totals[total["customer"]] = total["total"]
        assert totals == expected
        # ... and every batch must be there once, with what it read and what it wrote.
        assert_exactly_once("totals", namesrv=mq.namesrv)
        print(f"{ORDERS:,} orders, {len(totals)} totals, {KILLS} kills: nothing lost, nothing doubled")


def read_by(checkpoint: Path, batch: int) -> int:
    """How many orders the batches up to this one have read, as Spark's offset log says."""
    offsets = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])
    return sum(sum(broker["offsets"].values()) for broker in offsets["topics"]["orders"]["brokers"].values())


if __name__ == "__main__":
    run_query(*sys.argv[1:]) if sys.argv[1:] else main()

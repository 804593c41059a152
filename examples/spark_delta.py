"""Topic → Delta table → topic, each row once: `python examples/spark_delta.py`. Needs Spark, delta-spark and Java 17.

The way in uses Delta's own txnAppId and txnVersion; the way out is a stream, which is exactly-once by itself. Both ways
are run a second time as after a crash: the last entry of Spark's commit log is taken away, so the batch comes again.
"""

import os
import sys
import tempfile
from pathlib import Path

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from rmqspark import AdminClient
from rmqspark.testing import cluster

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run this Python
builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.databricks.delta.snapshotPartitions", "2")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

with cluster() as mq, tempfile.TemporaryDirectory() as directory:
    table = f"{directory}/table"
    rmq = {"namesrv": mq.namesrv}
    with AdminClient(mq.namesrv) as admin:
        admin.create_topic("in", queues=2)
        admin.create_topic("out", queues=2)
    numbers = spark.range(1_000).selectExpr("cast(id as string) body")
    numbers.write.format("rmq").options(**rmq, topic="in").mode("append").save()

    def to_delta(batch, number):
        once = {"txnAppId": "in-to-table", "txnVersion": number}
        batch.write.format("delta").options(**once).mode("append").save(table)

    def topic_to_table():
        rows = spark.readStream.format("rmq").options(**rmq, startingOffsets="earliest").load("in")
        write = rows.selectExpr("cast(body as string) body").writeStream.foreachBatch(to_delta)
        write.option("checkpointLocation", f"{directory}/way-in").trigger(availableNow=True).start().awaitTermination()

    def table_to_topic():
        write = spark.readStream.format("delta").load(table).writeStream.format("rmq").options(**rmq, topic="out")
        write.option("checkpointLocation", f"{directory}/way-out").trigger(availableNow=True).start().awaitTermination()

    for way, run in (("way-in", topic_to_table), ("way-out", table_to_topic)):
        run()
        newest = max(Path(directory, way, "commits").glob("[0-9]*"), key=lambda file: int(file.name))
        newest.unlink()  # as if the driver had died just before it wrote this
        newest.with_name(f".{newest.name}.crc").unlink()
        run()

    in_table = spark.read.format("delta").load(table)
    in_topic = spark.read.format("rmq").options(**rmq).load("out")
    for name, rows in (("table", in_table), ("topic", in_topic)):
        print(f"{name}: {rows.count():,} rows, {rows.select('body').distinct().count():,} of them different")

spark.stop()

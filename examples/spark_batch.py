"""Write a DataFrame to a topic and read it back: `python examples/spark_batch.py`. Needs Spark and Java 17."""

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from rmqspark import AdminClient
from rmqspark.testing import cluster

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run this Python
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

with cluster(brokers=1) as mq:
    with AdminClient(mq.namesrv) as admin:
        admin.create_topic("readings", queues=4)

    readings = spark.range(10_000).select(
        sf.to_json(sf.struct("id", (sf.col("id") % 100).alias("value"))).alias("body"),
        sf.when(sf.col("id") % 10 == 0, "alarm").otherwise("normal").alias("tags"),
    )
    readings.write.format("rmq").option("namesrv", mq.namesrv).option("topic", "readings").mode("append").save()

    alarms = spark.read.format("rmq").option("namesrv", mq.namesrv).option("tags", "alarm").load("readings")
    parsed = alarms.select(sf.from_json(sf.col("body").cast("string"), "id long, value long").alias("r")).select("r.*")
    total = parsed.agg(sf.count("*"), sf.sum("value")).first()
    print(f"alarms: {total[0]:,}, their sum: {total[1]:,}")

spark.stop()

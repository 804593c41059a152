"""From topic to topic through a stream: `python examples/spark_stream.py`. Needs Spark and Java 17."""

import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.testing import cluster

os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers run this Python
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

with cluster(brokers=1) as mq, tempfile.TemporaryDirectory() as checkpoint:
    with AdminClient(mq.namesrv) as admin:
        admin.create_topic("words", queues=4)
        admin.create_topic("lengths", queues=2)

    with Producer(mq.namesrv, group="writer") as producer:
        for word in ["to", "be", "or", "not", "to", "be"]:
            producer.send(Message("words", word.encode()))

    words = (
        spark.readStream.format("rmq").option("namesrv", mq.namesrv).option("startingOffsets", "earliest").load("words")
    )
    lengths = words.select(sf.col("body").cast("string").alias("word")).withColumn("length", sf.length("word"))
    query = (
        lengths.select(sf.to_json(sf.struct("word", "length")).alias("body"), sf.col("word").alias("keys"))
        .writeStream.format("rmq")
        .option("namesrv", mq.namesrv)
        .option("topic", "lengths")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    with PullConsumer(mq.namesrv) as consumer:
        consumer.assign(consumer.queues("lengths"))
        bodies = []
        while len(bodies) < 6:
            bodies += [message.body.decode() for message in consumer.poll(timeout_ms=1000)]

print("\n".join(sorted(bodies)))

spark.stop()

"""A Spark session that knows Delta tables. Its jars, 25 MB, are fetched the first time, as for any Spark package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import MissingExtra
from rmqspark.testing.spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What delta-spark asks for and Spark has already.
_THERE = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "com.fasterxml.jackson.core:*",
    "com.github.luben:zstd-jni",
    "org.apache.parquet:*",
    "org.apache.logging.log4j:*",
)
_SETTINGS = {
    "spark.jars.excludes": ",".join(_THERE),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",  # the table's own log is small
}


def delta_session(name: str) -> SparkSession:
    """A local session with Delta. Raises MissingExtra without delta-spark."""
    try:
        from delta import configure_spark_with_delta_pip
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("delta-spark", "demo") from None
    builder = configure_spark_with_delta_pip(SparkSession.builder)
    for setting, value in _SETTINGS.items():
        builder = builder.config(setting, value)
    return local_session(name=name, builder=builder)

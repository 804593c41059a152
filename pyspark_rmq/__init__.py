"""Spark imports every top-level pyspark_* module to find formats: this one brings format("rmq")."""

from rmqspark.datasource import RmqDataSource as DefaultSource

__all__ = ["DefaultSource"]

"""Spark imports every top-level pyspark_* module to find formats: this one brings format("rocketmq")."""

from rmqspark.datasource import RocketmqDataSource as DefaultSource

__all__ = ["DefaultSource"]

"""Spark's queries as brokers know them, and the transactions of their batches. Nothing here knows PySpark."""

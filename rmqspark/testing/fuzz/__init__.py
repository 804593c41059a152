"""Bytes that nobody in his right mind would send, made from a seed: `python -m rmqspark.testing.fuzz --help`."""

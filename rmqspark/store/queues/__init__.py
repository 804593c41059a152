"""Consume queues: for each message of a queue, where it lies in the log."""

"""Exactly-once: what an attempt of a task holds back in half batches, and how the driver decides a version."""

"""Queues of a group that several Spark queries read: leased to each, taken back, and how far they came."""

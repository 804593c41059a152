"""A query as a reader of its group: what it commits there, and how it shares the group's queues with other queries."""

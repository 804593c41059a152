"""What is drawn of a query; apart from it, for a run without one needs neither Spark nor Arrow."""

from __future__ import annotations

from typing import NamedTuple


class SparkPlan(NamedTuple):
    """How the query runs."""

    executors: int
    twins: float
    """How often a task runs twice at once."""
    dies: float
    """How often a process dies at a step."""
    most_rows: int
    """Of a batch."""
    longest_pause_s: float
    batch_bytes: int
    """Of what is sent in one piece, which has to find room in a file of the log."""
    fails_on_loss: bool = True
    """Whether the query ends where something has expired that it has not read."""

"""What Spark tells a task about the streaming query it works for, as local properties of its job.

They are there in the tasks of sources and sinks, and in those of everything done in `foreachBatch`; a batch query has
none of them. Tried with PySpark 4.1 and 4.2.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Properties(Protocol):
    """A TaskContext, as far as it matters here."""

    def getLocalProperty(self, key: str) -> str | None: ...


class StreamingBatch(NamedTuple):
    """A micro-batch. `query_id` is kept in the checkpoint; `run_id` is drawn anew at every start of the query."""

    query_id: str
    batch_id: int
    run_id: str


def streaming_batch(properties: Properties) -> StreamingBatch | None:
    """The micro-batch that a task works for; None in a batch query."""
    query_id = properties.getLocalProperty("sql.streaming.queryId")
    batch_id = properties.getLocalProperty("streaming.sql.batchId")
    if not query_id or not batch_id:
        return None
    return StreamingBatch(query_id, int(batch_id), properties.getLocalProperty("spark.jobGroup.id") or "")

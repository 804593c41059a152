"""What Spark tells a task about the streaming query it works for, as local properties of its job.

They are there in the tasks of sources and sinks, and in those of everything done in `foreachBatch`; a batch query has
none of them. Tried with PySpark 4.1 and 4.2.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol

_NAME: Final = re.compile(r"[a-zA-Z0-9_.:@/-]{1,255}")  # what brokers take for the name of a run


class Properties(Protocol):
    """A TaskContext, as far as it matters here."""

    def getLocalProperty(self, key: str) -> str | None: ...


class StreamingBatch(NamedTuple):
    """A micro-batch. `query_id` is kept in the checkpoint; `run_id` is drawn anew at every start of the query, unless
    its jobs are in a group of the user's."""

    query_id: str
    batch_id: int
    run_id: str


def streaming_batch(properties: Properties) -> StreamingBatch | None:
    """The micro-batch that a task works for; None in a batch query."""
    query_id = properties.getLocalProperty("sql.streaming.queryId")
    batch_id = properties.getLocalProperty("streaming.sql.batchId")
    if not query_id or not batch_id:
        return None
    return StreamingBatch(query_id, int(batch_id), _run_id(properties.getLocalProperty("spark.jobGroup.id") or ""))


def _run_id(job_group: str) -> str:
    """Spark calls the job group of a query as its run. A user who sets another has any words for it."""
    if not job_group or _NAME.fullmatch(job_group):
        return job_group
    from hashlib import blake2b  # few name their jobs

    return f"jobs-{blake2b(job_group.encode(errors='replace'), digest_size=16).hexdigest()}"

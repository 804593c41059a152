"""Bodies about Spark queries, in standard JSON: what a query's listener reports, and what a broker knows of queries.

Lag goes by Spark's field names. Times are milliseconds since the epoch, except where a name ends in `Ms` alone.
"""

from __future__ import annotations

import msgspec

from rmqspark.protocol.bodies.base import Body
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.protocol.headers.types import Int32, Int64


class QueryQueue(Body):
    """One queue of a query: its last batch read [fromOffset, toOffset), and the queue ended at latestOffset then.

    -1 where that was not to be known. `behindMs` is for how long the first message not read yet has been stored; absent
    where that is unknown.
    """

    group: str = ""
    topic: str = ""
    brokerName: str = ""
    queueId: Int32 = 0
    fromOffset: Int64 = 0
    toOffset: Int64 = 0
    latestOffset: Int64 = -1
    behindMs: Int64 | None = None

    @property
    def behind(self) -> int | None:
        """In messages."""
        return None if self.latestOffset < 0 else max(0, self.latestOffset - self.toOffset)


class QueryLag(Body):
    """How far a query is behind, over its queues. Absent is unknown."""

    minOffsetsBehindLatest: Int64 | None = None
    maxOffsetsBehindLatest: Int64 | None = None
    avgOffsetsBehindLatest: float | None = None
    estimatedTotalBytesBehindLatest: Int64 | None = None
    maxMsBehindLatest: Int64 | None = None


class QueryReport(Body):
    """RMQ_QUERY_REPORT: how a query stands after a batch. `state` is running, stopped or failed (`error` says why).

    `durationMs` is Spark's, by phase. `reportedAt` is set by the broker. `cores` are those Spark has in all.
    `groups` are all that it reads for, also where others have all queues of one just now.
    """

    queryId: str = ""
    runId: str = ""
    name: str = ""
    state: str = "running"
    error: str = ""
    batchId: Int64 = -1
    batchAt: Int64 = 0
    reportedAt: Int64 = 0
    durationMs: dict[str, Int64] = {}
    inputRows: Int64 = 0
    inputRowsPerSecond: float = 0.0
    processedRowsPerSecond: float = 0.0
    uiUrl: str = ""
    cores: Int32 = 0
    lag: QueryLag = msgspec.field(default_factory=QueryLag)
    queues: list[QueryQueue] = []
    groups: list[str] = []

    @property
    def behind(self) -> int | None:
        """In messages; None where it is unknown of any queue."""
        each = [queue.behind for queue in self.queues]
        return None if None in each else sum(filter(None, each))

    @property
    def messages(self) -> int:
        """What the last batch got through of what waited: rows, and what a filter passed over."""
        return sum(queue.toOffset - queue.fromOffset for queue in self.queues)


class BatchFigures(Body):
    """A report before the last one, in short."""

    batchId: Int64 = -1
    batchAt: Int64 = 0
    triggerExecutionMs: Int64 = 0
    inputRows: Int64 = 0
    offsetsBehind: Int64 | None = None


class KnownQuery(Body):
    """What a broker knows of a query: its listener's last report, the ones before it, and what its tasks said to read.

    `report` is absent where no listener reports; `batchId`, `heardAt` and `inputs` where no task has (`heardAt` is 0).
    """

    queryId: str = ""
    report: QueryReport | None = None
    history: list[BatchFigures] = []
    batchId: Int64 = -1
    heardAt: Int64 = 0
    inputs: list[InputRange] = []


class QueryTable(Body):
    """Answers RMQ_QUERY_LIST; `now` is the broker's time."""

    queries: list[KnownQuery] = []
    now: Int64 = 0

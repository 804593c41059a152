"""How far running queries are behind, told to the broker and to Prometheus by a listener of Spark's.

    spark.streams.addListener(LagListener(namesrv="127.0.0.1:9876"))

It looks at the queues itself, after a batch and while a query is idle: what Spark says of the latest offset is what the
source saw before the batch. Nothing of the query rests on it: what goes wrong here is a warning.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.client.cluster.access import resolve_access
from rmqspark.client.cluster.addresses import resolve_namesrv
from rmqspark.client.cluster.shared import shared_client
from rmqspark.client.spark.lag import figures, look
from rmqspark.client.spark.lag_metrics import exposition
from rmqspark.client.spark.queries import report_query, seen_queries
from rmqspark.errors import InvalidArgument, MissingExtra, RmqError
from rmqspark.message_queue import MessageQueue
from rmqspark.options import moment
from rmqspark.protocol.bodies.queries import QueryLag, QueryQueue, QueryReport
from rmqspark.source.failures import MAX_TEXT, early_failure, error_of
from rmqspark.source.offsets import Offsets

try:
    from pyspark.sql.streaming.listener import StreamingQueryListener
except ImportError:
    raise MissingExtra("PySpark", "spark") from None

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.spark.lag import QueueLag
    from rmqspark.remoting.access import Access

EVERY_MS = 1_000

_log = logging.getLogger(__name__)


class Spark(NamedTuple):
    """What the session adds to a report: Spark's web address ("" without one) and its cores."""

    ui_url: str = ""
    cores: int = 0


class LagListener(StreamingQueryListener):
    """Tells the brokers behind `namesrv` how every query of the session stands that reads from them.

    At most every `every_ms` a query. `metrics_file`: the figures of all of them in Prometheus' text format too, for
    the text file collector of its node exporter. `access` as in `Producer`. Raises InvalidArgument for a `namesrv` that
    is no address: Spark only logs what a listener raises later.
    """

    def __init__(
        self,
        namesrv: str | None = None,
        *,
        every_ms: int = EVERY_MS,
        metrics_file: str | os.PathLike[str] | None = None,
        access: Access | None = None,
    ) -> None:
        self._namesrv = resolve_namesrv(namesrv)
        self._access = resolve_access(access)
        self._every_ms = every_ms
        self._metrics_file = Path(metrics_file) if metrics_file is not None else None
        self._reports: dict[str, QueryReport] = {}  # by run id; Spark calls from one thread
        self._told: dict[str, QueryReport] = {}  # the last ones that have their lag
        self._told_ms: dict[str, int] = {}
        self._names: dict[str, str] = {}  # by run id too, as long as that is all that is known

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing else is known yet, and may never be."""
        self._names[str(event.runId)] = (event.name or "")[:MAX_TEXT]

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._names.pop(str(event.progress.runId), None)
        report = report_of(event.progress, _this_spark())
        if report is not None:
            self._tell(report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        known = self._reports.get(str(event.runId))
        if known is not None:
            self._tell(known)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        run_id = str(event.runId)
        self._told_ms.pop(run_id, None)
        self._told.pop(run_id, None)
        name, report = self._names.pop(run_id, None), self._reports.pop(run_id, None)
        if report is not None:
            report.state = "failed" if event.exception else "stopped"
            report.error = error_of(event.exception or "")
            self._send(report)
        elif name is not None and event.exception:
            self._tell_of_failure(str(event.id), run_id, name, event.exception)

    def metrics(self) -> str:
        """The figures of all running queries, in Prometheus' text format."""
        return exposition(self._told.values())

    @property
    def _client(self) -> ClusterClient:
        return shared_client(self._namesrv, self._access)

    def _tell(self, report: QueryReport) -> None:
        self._reports[report.runId] = report
        now_ms = self._client.clock.monotonic_ms()
        if now_ms - self._told_ms.get(report.runId, now_ms - self._every_ms) >= self._every_ms:
            self._told_ms[report.runId] = now_ms
            self._told[report.runId] = report
            self._send(report)

    def _tell_of_failure(self, query_id: str, run_id: str, name: str, exception: str) -> None:
        """Tells of a run that ended before there was anything to report of it, if it was to read from here."""
        try:
            seen = seen_queries(self._client, query_id)
        except RmqError as error:  # some broker is away, and perhaps this query failed because of that
            _log.warning("What the brokers know of query %s, which failed, is not known: %s", name or query_id, error)
            seen = []
        report = early_failure(seen[0].known if seen else None, exception, query_id, run_id, name)
        if report is not None:
            self._send(report)

    def _send(self, report: QueryReport) -> None:
        client = self._client
        try:
            measure_lag(client, report)
            report_query(client, report)
        except RmqError as error:
            _log.warning("How query %s stands could not be told: %s", report.name or report.queryId, error)
        try:
            self._write_metrics()  # also that nothing is known: else the file says what was, as if it were
        except OSError as error:
            _log.warning("How query %s stands could not be written: %s", report.name or report.queryId, error)

    def _write_metrics(self) -> None:
        """Whole or not at all: a scraper may look at any time."""
        if self._metrics_file is not None:
            fresh = self._metrics_file.with_name(f".{self._metrics_file.name}.{os.getpid()}")
            fresh.write_text(self.metrics(), encoding="utf-8")
            fresh.replace(self._metrics_file)


def _this_spark() -> Spark:
    """Of this process; a client of Spark Connect has none, and knows neither."""
    try:
        from pyspark import SparkContext
    except ImportError:  # pyspark-client, of which such a client needs no more
        return Spark()
    context = SparkContext._active_spark_context
    return Spark() if context is None else Spark(context.uiWebUrl or "", context.defaultParallelism)


def report_of(progress: StreamingQueryProgress, spark: Spark) -> QueryReport | None:
    """What an event says, without lag; None for a query that reads nothing of ours. One of a shared group may have no
    queue just now: what it had is others' then, and how far they are is not for it to tell."""
    read = [(source.startOffset, end) for source in progress.sources if (end := _offsets(source.endOffset)) is not None]
    if not read:
        return None
    page = f"{spark.ui_url}/StreamingQuery/statistics/?id={progress.runId}" if spark.ui_url else ""
    return QueryReport(
        str(progress.id),
        str(progress.runId),
        (progress.name or "")[:MAX_TEXT],
        batchId=progress.batchId,
        batchAt=moment(progress.timestamp).at_ms or 0,
        durationMs=dict(progress.durationMs),
        inputRows=progress.numInputRows,
        inputRowsPerSecond=_finite(progress.inputRowsPerSecond),
        processedRowsPerSecond=_finite(progress.processedRowsPerSecond),
        uiUrl=page,
        cores=spark.cores,
        queues=[queue for start_text, end in read for queue in _queues(start_text, end)],
        groups=sorted({end.group for _, end in read if end.group}),
    )


def positions_of(report: QueryReport) -> dict[MessageQueue, int]:
    """How far its queues were read; one that two sources read counts where the slower is."""
    found: dict[MessageQueue, int] = {}
    for queue in report.queues:
        place = _place(queue)
        found[place] = min(queue.toOffset, found.get(place, queue.toOffset))
    return found


def measure_lag(client: ClusterClient, report: QueryReport) -> None:
    """Looks how far the query is behind. Where a broker does not answer, the total is not known, and the rest is told
    all the same: it may be what the query waits for, or has failed of."""
    positions = positions_of(report)
    brokers = {queue.broker_name for queue in positions}
    silent = client.outages.among(brokers)
    try:
        lags = look(client, {queue: at for queue, at in positions.items() if queue.broker_name not in silent})
    except RmqError as error:
        _log.warning("How far query %s is behind is not known: %s", report.name or report.queryId, error)
        client.outages.look(brokers)
        lags, silent = [], frozenset(brokers)
    add_lag(report, lags, client.clock.now_ms(), silent)


def add_lag(report: QueryReport, lags: Sequence[QueueLag], now_ms: int, silent: Collection[str] = ()) -> None:
    """Puts into `report` how far it is behind, in the queues that are still there. Of brokers that are `silent` it is
    unknown, and with that the total."""
    by_queue = {lag.queue: lag for lag in lags}
    for queue in report.queues:
        lag = by_queue.get(_place(queue))
        if lag is not None:
            queue.latestOffset, queue.behindMs = lag.end, lag.behind_ms(now_ms)
        else:
            queue.latestOffset, queue.behindMs = -1 if queue.brokerName in silent else queue.toOffset, None
    total = figures([] if silent else lags, now_ms)
    report.lag = QueryLag(
        total.min_offsets, total.max_offsets, total.avg_offsets, total.estimated_total_bytes, total.max_ms
    )


def _queues(start_text: str | None, end: Offsets) -> Iterable[QueryQueue]:
    """The queues of one source of ours. One that has just entered was read from where it entered: also where its group
    was set to another place, or its topic made anew."""
    start = _offsets(start_text)
    before: Mapping[MessageQueue, int] = {}
    if start is not None:
        start = start.reading(end.positions.__contains__)
        before = {q: at for q, at in start.positions.items() if start.identity(q) == end.identity(q)}
    return [
        QueryQueue(end.group, *queue, fromOffset=min(before.get(queue, at), at), toOffset=at)
        for queue, at in sorted(end.positions.items())
    ]


def _offsets(text: Any) -> Offsets | None:
    """An offset of ours; None for whatever other sources have."""
    try:
        return Offsets.from_json(json.loads(text)) if text else None
    except (ValueError, InvalidArgument):
        return None


def _place(queue: QueryQueue) -> MessageQueue:
    return MessageQueue(queue.topic, queue.brokerName, queue.queueId)


def _finite(rate: float) -> float:
    """Spark gives NaN and infinity for rates of batches that took no time."""
    return rate if rate - rate == 0 else 0.0

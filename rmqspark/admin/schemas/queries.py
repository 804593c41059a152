"""Spark queries as they are shown."""

from __future__ import annotations

from rmqspark.admin.values import Document, Offset
from rmqspark.client.spark.diagnosis import Advice
from rmqspark.client.spark.query_view import OwnedQueue, QueryView


class QuerySummary(Document):
    """A query in a list. `state` is running, stopped, failed, silent or unknown (no listener tells). `silent` are
    brokers that were asked how far it is and do not answer, and why: what is there is in no figure."""

    query_id: str
    name: str | None
    state: str
    heard_seconds_ago: int
    groups: list[str]
    batch_id: Offset | None
    batch_ms: int | None
    input_rows: int | None
    lag: int | None
    bytes_behind: int | None
    seconds_behind: int | None
    caught_up_in_seconds: int | None
    min_offsets_behind_latest: int | None
    max_offsets_behind_latest: int | None
    avg_offsets_behind_latest: float | None
    estimated_total_bytes_behind_latest: int | None
    max_ms_behind_latest: int | None
    ui_url: str | None
    queues: int
    silent: dict[str, str]

    @classmethod
    def of(cls, view: QueryView) -> QuerySummary:
        report = view.report
        lag = view.figures
        return cls(
            query_id=view.query_id,
            name=view.name or None,
            state=view.state,
            heard_seconds_ago=view.heard_ms // 1000,
            groups=view.groups,
            batch_id=view.last_batch,
            batch_ms=report.durationMs.get("triggerExecution") if report else None,
            input_rows=report.inputRows if report else None,
            lag=view.lag,
            bytes_behind=view.bytes_behind,
            seconds_behind=None if view.behind_ms is None else view.behind_ms // 1000,
            caught_up_in_seconds=view.caught_up_in_s,
            min_offsets_behind_latest=lag.minOffsetsBehindLatest,
            max_offsets_behind_latest=lag.maxOffsetsBehindLatest,
            avg_offsets_behind_latest=lag.avgOffsetsBehindLatest,
            estimated_total_bytes_behind_latest=lag.estimatedTotalBytesBehindLatest,
            max_ms_behind_latest=lag.maxMsBehindLatest,
            ui_url=(report.uiUrl or None) if report else None,
            queues=len(view.queues),
            silent=view.silent,
        )


class OwnedQueueView(Document):
    """Where a query is in a queue, and where that ends."""

    group: str | None
    topic: str
    broker_name: str
    queue_id: int
    position: Offset | None
    latest_offset: Offset | None
    lag: int | None
    seconds_behind: int | None

    @classmethod
    def of(cls, owned: OwnedQueue) -> OwnedQueueView:
        return cls(
            group=owned.group or None,
            topic=owned.queue.topic,
            broker_name=owned.queue.broker_name,
            queue_id=owned.queue.queue_id,
            position=owned.position,
            latest_offset=owned.end,
            lag=owned.lag,
            seconds_behind=None if owned.behind_ms is None else owned.behind_ms // 1000,
        )


class AdviceView(Document):
    """What a diagnosis found, and what to do."""

    kind: str
    story: str
    advice: str

    @classmethod
    def of(cls, advice: Advice) -> AdviceView:
        return cls(kind=advice.kind, story=advice.story, advice=advice.advice)


class QueryDetail(QuerySummary):
    """One query in full; `durationMs` is Spark's, by phase."""

    duration_ms: dict[str, int] | None
    error: str | None
    owned: list[OwnedQueueView]
    advice: list[AdviceView]

    @classmethod
    def of_all(cls, view: QueryView, advice: list[Advice]) -> QueryDetail:
        report = view.report
        return cls(
            **dict(QuerySummary.of(view)),
            duration_ms=dict(report.durationMs) if report else None,
            error=(report.error or None) if report else None,
            owned=[OwnedQueueView.of(each) for each in view.queues],
            advice=[AdviceView.of(each) for each in advice],
        )


class RewindRequest(Document):
    """As a reset of the query's group."""

    to: str
    dry_run: bool = False

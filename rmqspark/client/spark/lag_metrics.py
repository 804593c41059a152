"""Figures of Spark queries for Prometheus: their names, and the text format.

The names are ours (`rmqspark_`), after Spark's field names. Labels are the query's id and name and its group; for a
queue topic, broker and queue besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rmqspark.protocol.bodies.queries import QueryQueue, QueryReport

_Value = float | None


class Gauge(NamedTuple):
    """One metric of a query: its name, its HELP, and where its value is (None: unknown, left out)."""

    name: str
    meaning: str
    value: Callable[[QueryReport], _Value]


class QueueGauge(NamedTuple):
    """The same of each of its queues."""

    name: str
    meaning: str
    value: Callable[[QueryQueue], _Value]


GAUGES = (
    Gauge("min_offsets_behind_latest", "Messages behind, fewest of a queue", lambda r: r.lag.minOffsetsBehindLatest),
    Gauge("max_offsets_behind_latest", "Messages behind, most of a queue", lambda r: r.lag.maxOffsetsBehindLatest),
    Gauge("avg_offsets_behind_latest", "Messages behind, mean of the queues", lambda r: r.lag.avgOffsetsBehindLatest),
    Gauge(
        "estimated_total_bytes_behind_latest",
        "Bytes behind in all queues, estimated",
        lambda r: r.lag.estimatedTotalBytesBehindLatest,
    ),
    Gauge("max_ms_behind_latest", "Age of the oldest message not read yet, ms", lambda r: r.lag.maxMsBehindLatest),
    Gauge("batch_id", "The last micro-batch", lambda r: r.batchId),
    Gauge("batch_duration_ms", "How long it took, ms", lambda r: r.durationMs.get("triggerExecution")),
    Gauge("batch_input_rows", "Rows it read", lambda r: r.inputRows),
)
QUEUE_GAUGES = (
    QueueGauge("queue_offsets_behind_latest", "Messages behind", lambda q: q.behind),
    QueueGauge("queue_ms_behind_latest", "Age of its oldest message not read yet, ms", lambda q: q.behindMs),
)
PREFIX = "rmqspark_query_"


def exposition(reports: Iterable[QueryReport]) -> str:
    """The reports in Prometheus' text format (version 0.0.4)."""
    known = sorted(reports, key=lambda report: report.queryId)
    lines: list[str] = []
    for gauge in GAUGES:
        lines += _metric(gauge.name, gauge.meaning, ((_labels(report), gauge.value(report)) for report in known))
    for each in QUEUE_GAUGES:
        samples = ((_queue_labels(report, queue), each.value(queue)) for report in known for queue in report.queues)
        lines += _metric(each.name, each.meaning, samples)
    return "\n".join(lines) + "\n" if lines else ""


def _metric(name: str, meaning: str, samples: Iterable[tuple[Mapping[str, str], _Value]]) -> Iterator[str]:
    """A scraper takes no labels twice: of a queue that two sources of a query read, the one that is further behind."""
    values: dict[str, float] = {}
    for labels, value in samples:
        if value is not None:
            text = _text(labels)
            values[text] = max(value, values.get(text, value))
    if values:
        yield f"# HELP {PREFIX}{name} {meaning}."
        yield f"# TYPE {PREFIX}{name} gauge"
        yield from (f"{PREFIX}{name}{text} {_number(value)}" for text, value in values.items())


def _labels(report: QueryReport) -> dict[str, str]:
    groups = sorted({queue.group for queue in report.queues} | {*report.groups})
    return {"query_id": report.queryId, "query": report.name, "group": ",".join(groups)}


def _queue_labels(report: QueryReport, queue: QueryQueue) -> dict[str, str]:
    place = {"topic": queue.topic, "broker": queue.brokerName, "queue": str(queue.queueId)}
    return {"query_id": report.queryId, "query": report.name, "group": queue.group, **place}


def _text(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)

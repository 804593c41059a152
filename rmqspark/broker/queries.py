"""What a broker knows of Spark queries: the last report of each query's listener, and who reads without one.

Pure, in memory, and bounded. It is for operators to look at: nothing rests on it, and a restart forgets it, until the
next micro-batch of each query. Beyond the bounds the queries silent for longest go.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.queries import BatchFigures, KnownQuery, QueryReport
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.protocol.names import check_transactional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_QUERIES: Final = 1_000
MAX_QUEUES: Final = 50_000  # of all reports together: an answer has to fit a frame
MAX_BYTES: Final = 12 << 20  # of all reports together as they are told, for the same reason
MAX_HISTORY: Final = 20
BELIEVED_FOR_MS: Final = 10 * 60_000  # of figures: in a batch that takes so long they say nothing either
FORGOTTEN_AFTER_MS: Final = 24 * 3_600_000
_MAX_TEXT: Final = 1_000
_MAX_PHASES: Final = 50
_STATES: Final = ("running", "stopped", "failed")


@dataclass
class _Query:
    heard_ms: int
    report: QueryReport | None = None
    report_bytes: int = 0
    history: deque[BatchFigures] = field(default_factory=lambda: deque(maxlen=MAX_HISTORY))
    batch_id: int = -1
    read_ms: int = 0


class SparkQueries:
    """The queries of this broker, those heard of longest ago first. Told what time it is."""

    def __init__(self) -> None:
        self._queries: dict[str, _Query] = {}
        self._queues = 0
        self._bytes = 0

    def report(self, report: QueryReport, now_ms: int) -> None:
        """Takes a listener's report in. Raises InvalidArgument for what no listener says."""
        check_report(report)
        query = self._heard(report.queryId, now_ms)
        before = query.report
        if before is not None and before.batchId != report.batchId:
            query.history.append(_in_short(before))
        report.reportedAt = now_ms
        self._keep(query, report)
        self._make_room()

    def note_batch(self, query_id: str, batch_id: int, now_ms: int) -> None:
        """A task of this batch has said what it reads."""
        query = self._heard(query_id, now_ms)
        query.batch_id, query.read_ms = batch_id, now_ms
        self._make_room()

    def known(self, inputs_of: Callable[[str, int], list[InputRange]], query_id: str | None = None) -> list[KnownQuery]:
        """What is known of every query, or of one. `inputs_of(query_id, batch_id)` gives what tasks said to read.

        Of queries with a report that is not told, nor of more than MAX_QUEUES queues: an answer has to fit a frame.
        """
        found, room = [], MAX_QUEUES - self._queues
        for name in self._queries if query_id is None else {query_id} & self._queries.keys():
            query = self._queries[name]
            inputs: list[InputRange] = []
            if query.report is None:
                inputs = _by_queue(inputs_of(name, query.batch_id))[:room]
                room -= len(inputs)
            found.append(KnownQuery(name, query.report, list(query.history), query.batch_id, query.read_ms, inputs))
        return found

    def running(self, now_ms: int) -> list[QueryReport]:
        """The last report of each query whose listener said then that it runs, and that was heard of lately: a driver
        that was killed says nothing any more, and what it said last is not so for a day."""
        return [
            query.report
            for query in self._queries.values()
            if query.report is not None
            and query.report.state == "running"
            and now_ms - query.heard_ms <= BELIEVED_FOR_MS
        ]

    def expire(self, now_ms: int) -> None:
        """Forgets queries that have been silent for a day."""
        for name in list(self._silent_since(now_ms - FORGOTTEN_AFTER_MS)):
            self._forget(name)

    def _silent_since(self, heard_ms: int) -> Iterator[str]:
        for name, query in self._queries.items():
            if query.heard_ms > heard_ms:
                return
            yield name

    def _heard(self, query_id: str, now_ms: int) -> _Query:
        query = self._queries.pop(query_id, None) or _Query(now_ms)
        query.heard_ms = now_ms
        self._queries[query_id] = query  # last: heard of most recently
        return query

    def _make_room(self) -> None:
        while len(self._queries) > 1 and self._is_too_large():
            self._forget(next(iter(self._queries)))

    def _is_too_large(self) -> bool:
        return len(self._queries) > MAX_QUERIES or self._queues > MAX_QUEUES or self._bytes > MAX_BYTES

    def _forget(self, query_id: str) -> None:
        self._keep(self._queries.pop(query_id), None)

    def _keep(self, query: _Query, report: QueryReport | None) -> None:
        """Puts a report, or none, in the place of the query's last one."""
        size_bytes = 0 if report is None else _size_bytes(report)
        self._queues += _queues(report) - _queues(query.report)
        self._bytes += size_bytes - query.report_bytes
        query.report, query.report_bytes = report, size_bytes


def check_report(report: QueryReport) -> None:
    """Raises InvalidArgument, or InvalidName for the query's id, if a report says what cannot be or is too long."""
    check_transactional("query id", report.queryId)
    if report.state not in _STATES:
        raise InvalidArgument(f"state is {', '.join(_STATES[:-1])} or {_STATES[-1]}, not {report.state[:20]!r}.")
    if len(report.queues) > MAX_QUEUES or len(report.durationMs) > _MAX_PHASES:
        raise InvalidArgument(f"A report has at most {MAX_QUEUES} queues and {_MAX_PHASES} phases.")
    texts = [report.runId, report.name, report.error, report.uiUrl, *report.durationMs, *report.groups]
    texts += [text for queue in report.queues for text in (queue.group, queue.topic, queue.brokerName)]
    if max(map(len, texts)) > _MAX_TEXT:
        raise InvalidArgument(f"A text of a report has at most {_MAX_TEXT} characters.")
    if _size_bytes(report) > MAX_BYTES:
        raise InvalidArgument(f"A report has at most {MAX_BYTES} bytes, its defaults written out.")


def _size_bytes(report: QueryReport) -> int:
    return len(report.encode(standard=True))


def _queues(report: QueryReport | None) -> int:
    return 0 if report is None else len(report.queues)


def _by_queue(ranges: list[InputRange]) -> list[InputRange]:
    """One range for each queue, though several tasks may have read it."""
    merged: dict[tuple[str, str, str, int], InputRange] = {}
    for each in ranges:
        place = each.group, each.topic, each.brokerName, each.queueId
        whole = merged.get(place, each)
        first, end = min(whole.fromOffset, each.fromOffset), max(whole.toOffset, each.toOffset)
        merged[place] = InputRange(*place, first, end)
    return list(merged.values())


def _in_short(report: QueryReport) -> BatchFigures:
    return BatchFigures(
        report.batchId,
        report.batchAt,
        report.durationMs.get("triggerExecution", 0),
        report.inputRows,
        report.behind,
    )

"""What a query has failed of, as its listener tells it.

Spark gives a listener the whole exception as text, a Java one with Python tracebacks in it. And of a query that fails
before its first progress event it gives nothing else: whether that query reads from here is seen by where the exception
comes from, or is known to the brokers, for their tasks or an earlier run have told them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rmqspark.protocol.bodies.queries import QueryQueue, QueryReport

if TYPE_CHECKING:
    from rmqspark.protocol.bodies.queries import KnownQuery

MAX_TEXT: Final = 1_000  # characters of an exception that are told

_TRACEBACK = "Traceback (most recent call last):"
_OF_THE_SOURCE = re.compile(r"rmqspark[/\\]source[/\\]")
_OURS = "rmqspark.errors."


def error_of(exception: str) -> str:
    """What went wrong, on the first line; behind it the exception as it begins."""
    return f"{_reason(exception)}\n{exception}"[:MAX_TEXT] if _TRACEBACK in exception else exception[:MAX_TEXT]


def early_failure(
    known: KnownQuery | None, exception: str, query_id: str, run_id: str, name: str
) -> QueryReport | None:
    """The report of a run that failed before it had one, from what the brokers know of its query; None where nothing
    says that it reads from here. A run before may have come far: batch and queues are where that one has left them."""
    if known is None and not _OF_THE_SOURCE.search(exception):
        return None
    report = QueryReport(query_id)
    if known is not None:
        report = known.report or QueryReport(query_id, queues=_before(known))
    report.runId, report.name, report.uiUrl = run_id, name, ""  # whose page is that of the run before
    report.state, report.error = "failed", error_of(exception)
    return report


def _before(known: KnownQuery) -> list[QueryQueue]:
    """Where its tasks began to read: nothing of that batch is done."""
    return [
        QueryQueue(each.group, each.topic, each.brokerName, each.queueId, each.fromOffset, each.fromOffset)
        for each in known.inputs
    ]


def _reason(exception: str) -> str:
    """The line behind the frames of the last traceback, which is the innermost: "InvalidName: The topic name …"."""
    behind = exception.rpartition(_TRACEBACK)[2].splitlines()[1:]
    line = next((line for line in behind if line.strip() and not line[0].isspace()), "")
    return line.removeprefix(_OURS)

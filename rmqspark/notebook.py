"""For notebooks: `rmqspark.peek`, and streaming queries that display themselves.

Receipts, topics and groups do so by themselves; a query is an object of Spark's, and IPython has to be told how. Any
import of the package in a notebook does that; where there is none, `%load_ext rmqspark`.
"""

from __future__ import annotations

import heapq
import json
import re
from typing import TYPE_CHECKING, Any

from rmqspark.client.arguments import takes_what_its_signature_says
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.display import facts_html
from rmqspark.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.model import MessageQueue, ReceivedMessage
    from rmqspark.remoting.access import Access

_POLL_MS = 1_000
_SHOWN = 5  # topics of a source
_ERROR_LINE = re.compile(r"^\s*((?:\w+\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception)): \S.*$", re.MULTILINE)
_COLUMNS = (
    *("topic", "brokerName", "queueId", "queueOffset", "msgId", "tags", "keys", "body", "properties"),
    *("bornTimestamp", "storeTimestamp", "reconsumeTimes", "flag"),
)


@takes_what_its_signature_says
def peek(topic: str, count: int = 5, *, namesrv: str | None = None, access: Access | None = None) -> Any:
    """The newest `count` messages of a topic as a pandas frame, oldest first, with the names of the Spark columns.

    Bodies that are UTF-8 are strings, others bytes; times are in UTC, NaT where pandas has no such time.
    `access` as in `Producer`. MissingExtra without pandas, TopicNotFound.
    """
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("pandas", "spark") from None
    if count < 1:
        raise InvalidArgument(f"count is 1 or more, not {count}.")
    with PullConsumer(namesrv, access=access) as consumer:
        newest = heapq.nlargest(count, _tails(consumer, topic, count), key=_age)
    frame = pd.DataFrame([_row(message) for message in reversed(newest)], columns=list(_COLUMNS))
    for name in ("bornTimestamp", "storeTimestamp"):  # when a message was born its sender says as he likes
        frame[name] = pd.to_datetime(frame[name], unit="ms", utc=True, errors="coerce")
    return frame


def load_ipython_extension(shell: Any) -> None:
    """What any import in a notebook calls, and `%load_ext rmqspark`: Spark's streaming queries show where they stand,
    also those started before."""
    html = shell.display_formatter.formatters["text/html"]
    for module in ("pyspark.sql.streaming.query", "pyspark.sql.connect.streaming.query"):
        html.for_type_by_name(module, "StreamingQuery", query_html)


def query_html(query: Any) -> str:
    """A streaming query: who it is, whether it runs, and its last micro-batch."""
    progress = query.lastProgress
    error = query.exception() if not query.isActive else None
    status = query.status["message"] if error is None else "Failed"
    facts: dict[str, Any] = {"id": query.id, "run": query.runId, "status": status}
    if progress is not None:
        facts |= {
            "batch": progress["batchId"],
            "at": progress["timestamp"],
            "rows": progress["numInputRows"],
            "rows a second": round(progress["processedRowsPerSecond"] or 0),
            "ms": progress["durationMs"].get("triggerExecution"),
            **{f"source {number}": _read_from(source) for number, source in enumerate(progress["sources"], 1)},
            "sink": _described(progress["sink"]),
        }
        facts = {name: fact for name, fact in facts.items() if fact != ""}
    return facts_html(
        f"Query {query.name or query.id}", facts | ({"error": _reason(error)} if error is not None else {})
    )


def _read_from(source: Any) -> str:
    """The topics of a source of ours, else what Spark calls it."""
    try:
        offset = json.loads(source["endOffset"])
        topics = [*offset["topics"]] if "group" in offset else []
    except (ValueError, TypeError, KeyError):
        topics = []
    if not topics:
        return _described(source)
    return ", ".join(topics[:_SHOWN]) + (f" and {len(topics) - _SHOWN} more" if len(topics) > _SHOWN else "")


def _described(end: Any) -> str:
    """What Spark calls a source or sink; "" for one in Python, of which it tells a class of its own and an address."""
    description = str(end["description"])
    return "" if description.startswith("org.apache.spark.sql.execution.datasources.v2.python.") else description


def _reason(error: Exception) -> str:
    """What went wrong, without the tracebacks around it: the last line that begins with the name of an error."""
    lines = list(_ERROR_LINE.finditer(str(error)))
    return lines[-1][0].strip() if lines else str(error)


def _tails(consumer: PullConsumer, topic: str, count: int) -> Iterator[ReceivedMessage]:
    """The last messages of each queue, `count` of each and what came since."""
    ends: dict[MessageQueue, int] = {queue: consumer.max_offset(queue) for queue in consumer.queues(topic)}
    consumer.assign(ends)
    for queue, end in ends.items():
        consumer.seek(queue, max(consumer.min_offset(queue), end - count))
    behind = list(ends)
    while behind := [queue for queue in behind if consumer.position(queue) < ends[queue]]:
        consumer.assign(behind)  # so one whose broker is away is an error, when the others are read
        yield from consumer.poll(_POLL_MS)


def _age(message: ReceivedMessage) -> tuple[int, MessageQueue, int]:
    return message.store_timestamp_ms, message.queue, message.queue_offset


def _row(message: ReceivedMessage) -> tuple[Any, ...]:
    return (
        *(message.topic, message.queue.broker_name, message.queue.queue_id, message.queue_offset, message.msg_id),
        *(message.tags, " ".join(message.keys) or None, _text(message.body), message.properties),
        *(message.born_timestamp_ms, message.store_timestamp_ms, message.reconsume_times, message.flag),
    )


def _text(body: bytes) -> str | bytes:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body

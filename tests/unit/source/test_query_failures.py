"""What a listener tells of a query that failed."""

from __future__ import annotations

import pytest

from rmqspark.protocol.bodies.queries import KnownQuery, QueryQueue, QueryReport
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.source.failures import MAX_TEXT, early_failure, error_of

AT_START = """\
org.apache.spark.SparkException: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source \
perform initialOffset: Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/rmqspark/source/reader.py", line 89, in initialOffset
    return self._progress.initial().to_json()
           ^^^^^^^^^^^^^^^^^^^^^^^^
rmqspark.errors.TopicNotFound: Topic 'nowhere' does not exist. Create it with: rmq topic create nowhere

\tat org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner.initialOffset(Runner.scala:197)
"""
IN_FOREACH_BATCH = """\
py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/pyspark/sql/utils.py", line 163, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "job.py", line 16, in <lambda>
ZeroDivisionError: division by zero

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""


@pytest.mark.parametrize(
    ("exception", "first_line"),
    [
        (AT_START, "TopicNotFound: Topic 'nowhere' does not exist. Create it with: rmq topic create nowhere"),
        (IN_FOREACH_BATCH, "ZeroDivisionError: division by zero"),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat x", "java.lang.OutOfMemoryError: Java heap space"),
        ("cut off: Traceback (most recent call last):", ""),
        ("", ""),
    ],
)
def test_the_first_line_says_what_went_wrong(exception: str, first_line: str) -> None:
    """Of tracebacks within an exception of Java's the innermost counts, whose error is Python's last line."""
    error = error_of(exception)
    assert error.partition("\n")[0] == first_line
    assert len(error_of(exception + 2_000 * "x")) == MAX_TEXT


def test_a_failure_before_the_first_batch() -> None:
    """A query is known to read from here by where its exception comes from, or because its tasks have begun to read."""
    named = ("query", "run", "billing")
    at_start = early_failure(None, AT_START, *named)
    assert at_start is not None
    assert (at_start.name, at_start.state, at_start.batchId, at_start.queues) == ("billing", "failed", -1, [])
    assert at_start.error.startswith("TopicNotFound")
    begun = KnownQuery("query", batchId=0, inputs=[InputRange("g", "orders", "broker-a", 1, 5, 9)])
    reading = early_failure(begun, IN_FOREACH_BATCH, *named)
    assert reading is not None
    assert [(queue.group, queue.topic, queue.queueId, queue.toOffset) for queue in reading.queues] == [
        ("g", "orders", 1, 5)
    ]
    assert early_failure(None, IN_FOREACH_BATCH, *named) is None


def test_a_run_after_others_that_went_well() -> None:
    """Batch and queues stay where the run before left them; the page of that run is not this one's."""
    queues = [QueryQueue("g", "orders", "broker-a", 1, 5, 9)]
    before = QueryReport(
        "query", "earlier", "old name", "stopped", batchId=7, uiUrl="http://driver:4040", queues=queues
    )
    report = early_failure(KnownQuery("query", before), IN_FOREACH_BATCH, "query", "run", "billing")
    assert report is not None
    assert (report.runId, report.name, report.state, report.batchId, report.uiUrl) == (
        "run",
        "billing",
        "failed",
        7,
        "",
    )
    assert report.queues == queues

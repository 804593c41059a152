"""What notebooks show."""

from __future__ import annotations

import builtins
import importlib
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import rmqspark
from rmqspark.client.administration.descriptions import GroupDescription, GroupQueue, QueueDescription, TopicDescription
from rmqspark.display import MAX_ROWS, table_html
from rmqspark.model import MessageQueue, SendReceipt, TransactionReceipt, TransactionState
from rmqspark.notebook import load_ipython_extension, query_html

if TYPE_CHECKING:
    from collections.abc import Callable

EVIL = "<script>alert('x')</script>"
QUEUE = MessageQueue(EVIL, "broker-a", 3)
RECEIPT = SendReceipt("U" * 32, QUEUE, 1_234)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (RECEIPT, ["U" * 32, "/broker-a/3", "1,234", "SEND_OK"]),
        (TransactionReceipt(TransactionState.COMMIT, RECEIPT), ["Transaction: COMMIT", "1,234"]),
        (
            TopicDescription(EVIL, [], [QueueDescription(QUEUE, 5, 1_005, 1_700_000_000_000)]),
            ["1,000 messages", "broker-a", "1,005", "2023-11-14 22:13:20Z"],
        ),
        (
            GroupDescription(EVIL, [], [GroupQueue(QUEUE, None, 9), GroupQueue(QUEUE, 7, 9)]),
            ["0 members, lag 2 messages", "unknown"],
        ),
    ],
)
def test_our_objects_display_themselves(shown: Any, words: list[str]) -> None:
    """Receipts, topics and groups are tables, in which names from outside are text and nothing else."""
    html = shown._repr_html_()
    assert [word for word in words if word not in html] == []
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_long_tables_are_cut() -> None:
    """A topic of thousands of queues does not fill a notebook; how many are left out is said."""
    html = table_html("", ["n"], ((number,) for number in range(MAX_ROWS + 1_500)))
    assert html.count("<tr>") == MAX_ROWS + 1
    assert "and 1,500 more" in html


class Query:
    """As much of a streaming query as is shown."""

    id, runId, name, isActive = "an-id", "a-run", EVIL, True
    status = {"message": "Waiting for data to arrive"}  # noqa: RUF012 as Spark has it
    lastProgress: Any = None

    def exception(self) -> Exception | None:
        return ValueError("why")


def test_a_query_that_has_done_nothing_yet_or_has_failed() -> None:
    """Before the first batch there is nothing to say of one; of a query that has ended, why."""
    query = Query()
    html = query_html(query)
    assert "Waiting for data" in html
    assert "<script" not in html
    assert "batch" not in html
    query.isActive = False
    assert "why" in query_html(query)


PYTHON_END = "org.apache.spark.sql.execution.datasources.v2.python.PythonTable@44cd73a6"


def progress(sink: str, *sources: dict[str, Any]) -> dict[str, Any]:
    """As much of a progress event as is shown."""
    figures = {"batchId": 7, "timestamp": "now", "numInputRows": 3, "processedRowsPerSecond": 0.0, "durationMs": {}}
    return figures | {"sources": sources, "sink": {"description": sink}}


def test_a_query_shows_its_topics_and_no_addresses_in_memory() -> None:
    """Of our sources the topics; of a sink in Python Spark tells nothing that is worth a line."""
    query = Query()
    ours = {"description": PYTHON_END, "endOffset": '{"group": "g", "topics": {"orders": {}, "returns": {}}, "v": 1}'}
    many = {
        "description": PYTHON_END,
        "endOffset": json.dumps({"group": "", "topics": {f"t{number}": {} for number in range(9)}}),
    }
    files = {"description": "FileStreamSource[x]", "endOffset": '{"logOffset": 3}'}
    query.lastProgress = progress(PYTHON_END, ours, many, files, {"description": PYTHON_END, "endOffset": None})
    html = query_html(query)
    for words in ("orders, returns", "t0, t1, t2, t3, t4 and 4 more", "FileStreamSource[x]"):
        assert words in html
    assert "org.apache" not in html
    assert "source 4" not in html
    assert "sink" not in html
    query.lastProgress = progress("MemorySink")
    assert "MemorySink" in query_html(query)


def test_a_query_that_has_failed_shows_the_error_and_no_traceback() -> None:
    """The last line with an error's name says why; the lines of Python and of the JVM around it are left out."""
    query = Query()
    query.isActive, query.status = False, {"message": "Terminated with exception: [X] Traceback of it all"}
    story = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed when something: Traceback (most recent call last):\n"
        '  File "/somewhere/reader.py", line 89, in initialOffset\n    return self.x\n'
        "rmqspark.errors.TopicNotFound: Topic 'orders' does not exist.\n"
        "SQLSTATE: 38000\n\tat org.apache.spark.X.y(Z.scala:1)"
    )
    query.exception = lambda: RuntimeError(story)  # type: ignore[method-assign]
    html = query_html(query)
    assert "rmqspark.errors.TopicNotFound: Topic &#x27;orders&#x27; does not exist.<" in html
    assert "Traceback" not in html
    assert "SQLSTATE" not in html


class Shell:
    """As much of IPython's as is told how something is displayed."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str], Callable[[Any], str]] = {}
        html = SimpleNamespace(for_type_by_name=lambda module, name, show: self.told.update({(module, name): show}))
        self.display_formatter = SimpleNamespace(formatters={"text/html": html})


QUERY = "pyspark.sql.streaming.query", "StreamingQuery"


def test_the_extension_tells_notebooks_how_to_show_queries() -> None:
    """`%load_ext rmqspark` works, without a look at Spark."""
    shell = Shell()
    load_ipython_extension(shell)
    assert shell.told[QUERY] is query_html
    assert rmqspark.load_ipython_extension is load_ipython_extension


def test_whatever_a_notebook_imports_of_ours_queries_display_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython, which has a builtin by which it is known, needs no further line."""
    shell = Shell()
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    importlib.reload(rmqspark)
    assert shell.told[QUERY] is query_html


@pytest.mark.parametrize("shell", [None, SimpleNamespace()])
def test_a_shell_that_displays_nothing_keeps_nobody_from_importing(monkeypatch: pytest.MonkeyPatch, shell: Any) -> None:
    """One that is just starting, or is not IPython's."""
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    importlib.reload(rmqspark)
    assert rmqspark.load_ipython_extension is load_ipython_extension

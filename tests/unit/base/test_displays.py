"""What notebooks show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import rmqspark
from rmqspark.client.descriptions import GroupDescription, GroupQueue, QueueDescription, TopicDescription
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


def test_the_extension_tells_notebooks_how_to_show_queries() -> None:
    """`%load_ext rmqspark` works, without a look at Spark."""
    told: dict[tuple[str, str], Callable[[Any], str]] = {}

    class Shell:
        class display_formatter:
            class Html:
                @staticmethod
                def for_type_by_name(module: str, name: str, show: Callable[[Any], str]) -> None:
                    told[module, name] = show

            formatters = {"text/html": Html}  # noqa: RUF012 as IPython has it

    load_ipython_extension(Shell)
    assert told["pyspark.sql.streaming.query", "StreamingQuery"] is query_html
    assert rmqspark.load_ipython_extension is load_ipython_extension

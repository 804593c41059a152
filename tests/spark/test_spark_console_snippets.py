"""What the console says gives the rows of a page in Spark gives them, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.admin.console.message_filters import Asked
from rmqspark.admin.console.message_snippets import message_snippets
from rmqspark.admin.console.snippets import Whereabouts
from rmqspark.admin.reads import messages
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from .conftest import Topic

pytestmark = pytest.mark.spark

ON_A_PAGE = 7


@pytest.fixture
def filled(topic: Topic) -> Iterator[ClusterClient]:
    """Thirty messages in three queues, tags and keys in turn."""
    with Producer(topic.namesrv) as producer:
        for number in range(30):
            tag, key = ("paid", "shipped")[number % 2], f"customer-{number % 4}"
            producer.send(Message(topic.name, b"%d" % number, tags=tag, keys=[key, "all"]))
    with ClusterClient(topic.namesrv) as client:
        yield client


def rows_of(code: str, spark: SparkSession) -> list[tuple[str, int, int]]:
    """Runs a snippet as it stands; where the rows are that it has shown."""
    made: dict[str, Any] = {"spark": spark}
    exec(code, made)
    return [(row.brokerName, row.queueId, row.queueOffset) for row in made["rows"].collect()]


@pytest.mark.parametrize(
    "given",
    [{}, {"tags": "paid", "order": "oldest"}, {"queue": "2", "offset": "-5"}, {"body": "2"}],
    ids=["newest", "oldest with tags", "last five of a queue", "with a text in the body"],
)
def test_each_page_of_the_console_is_the_same_in_spark(
    given: dict[str, str], filled: ClusterClient, topic: Topic
) -> None:
    """The first page and the one behind it."""
    asked, cursor = Asked.of(topic.name, given), None
    for _ in range(2):
        page = messages.page(filled, asked.wanted, ON_A_PAGE, cursor)
        code = message_snippets(Whereabouts(topic.namesrv, "http://h", False), asked, page.items, ON_A_PAGE, cursor)
        shown = [(each.broker_name, each.queue_id, each.queue_offset) for each in page.items]
        assert shown
        assert sorted(rows_of(code.spark, topic.spark)) == sorted(shown)
        cursor = page.next
        if cursor is None:
            return


def test_messages_with_a_key_are_the_same_in_spark(filled: ClusterClient, topic: Topic) -> None:
    """A key is one of those that a message has, not a part of its text."""
    found = messages.with_key(filled, topic.name, "customer-1", None, None, ON_A_PAGE).items
    asked = Asked.of(topic.name, {"key": "customer-1"})
    code = message_snippets(Whereabouts(topic.namesrv, "http://h", False), asked, found, ON_A_PAGE)
    assert sorted(rows_of(code.spark, topic.spark)) == sorted(
        (m.broker_name, m.queue_id, m.queue_offset) for m in found
    )
    assert len(found) == ON_A_PAGE

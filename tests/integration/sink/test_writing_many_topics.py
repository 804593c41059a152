"""Rows that a column divides among many topics, on two brokers, without Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.protocol.names import MAX_BODY_BYTES
from rmqspark.sink.options import SinkOptions
from rmqspark.sink.sends import targets, task
from rmqspark.sink.sends.delivery import AtLeastOnce
from rmqspark.sink.sends.task import WriteTask
from rmqspark.testing import cluster
from rmqspark.testing.rmq import Rmq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.sink.rows.rows import Rows
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration

TOPICS = 7
ROWS = 1_000


class Older(ClusterClient):
    """A client whose brokers take bulks, but none for many queues."""

    def broker(self, broker_name: str) -> BrokerClient:
        found = super().broker(broker_name)
        able = found.capabilities()
        found.capabilities = lambda: able._replace(topics_send=0)  # type: ignore[method-assign]
        return found


class Stock(ClusterClient):
    """A client whose brokers know nothing but RocketMQ's own requests."""

    def broker(self, broker_name: str) -> BrokerClient:
        found = super().broker(broker_name)
        found.capabilities = Capabilities  # type: ignore[method-assign]
        return found


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    with cluster(brokers=2) as running:
        yield running


@pytest.mark.parametrize(
    ("kind", "batch_bytes"), [(ClusterClient, 64 << 10), (ClusterClient, 1 << 20), (Older, 1 << 20), (Stock, 1 << 20)]
)
def test_each_topic_gets_its_rows(mq: LocalCluster, kind: type[ClusterClient], batch_bytes: int) -> None:
    """Whatever the brokers know: every row is in its topic, once, with an id of its own, spread over the queues."""
    topics = [f"{kind.__name__}-{batch_bytes}-{number}" for number in range(TOPICS)]
    rows = [(b"%06d" % row * (row % 40 + 1), topics[row * row % TOPICS]) for row in range(ROWS)]
    columns = {"body": pa.array([body for body, _ in rows]), "topic": pa.array([topic for _, topic in rows])}
    with AdminClient(mq.namesrv) as admin:
        for number, topic in enumerate(topics):
            admin.create_topic(topic, queues=1 + number % 2)
    with Rmq(mq) as rmq, kind(mq.namesrv) as client:
        options = SinkOptions(batch_bytes=batch_bytes)
        written = WriteTask(client, options, AtLeastOnce(client)).write([pa.record_batch(columns)])
        assert (written.rows, sum(written.queues.values())) == (ROWS, ROWS)
        ids = set()
        for topic in {topic for _, topic in rows}:
            messages = rmq.messages(topic)
            assert sorted(message.body for message in messages) == sorted(body for body, mine in rows if mine == topic)
            assert {message.topic for message in messages} == {topic}
            assert {message.queue for message in messages} == {*client.publish_queues(topic)}
            ids |= {message.msg_id for message in messages}
        assert len(ids) == ROWS


def test_names_of_any_length_that_topics_have(mq: LocalCluster) -> None:
    """Those of dead letters may be twice as long as others; a column that names some writes to them all the same."""
    topics = [f"%DLQ%{'d' * 250}", "t" * 127, f"%DLQ%{'e' * 123}"]
    rows = pa.record_batch({"body": pa.array([b"1", b"2", b"3"]), "topic": pa.array(topics)})
    with Rmq(mq) as rmq, ClusterClient(mq.namesrv) as client:
        for topic in topics:
            rmq.create_topic(topic, queues=1)
        assert WriteTask(client, SinkOptions(), AtLeastOnce(client)).write([rows]).rows == len(topics)
        assert [message.body for topic in topics for message in rmq.messages(topic)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("more", [{}, {"batch_bytes": 4 << 20}])
def test_many_small_rows_for_stock_brokers(mq: LocalCluster, more: dict[str, Any]) -> None:
    """As elements of a batch they are larger than as rows; a batch may be as large as one message."""
    rows = pa.record_batch({"body": pa.array([b"x" * 10] * 10_000)})
    with Stock(mq.namesrv) as client:
        options = SinkOptions(topic=f"small-{len(more)}", auto_create_topic=True, queues=1, **more)
        assert WriteTask(client, options, AtLeastOnce(client)).write([rows] * 20).rows == 200_000


class Noting(AtLeastOnce):
    """Notes each time at which rows of a topic are handled."""

    def __init__(self, client: ClusterClient, *, joins_topics: bool) -> None:
        super().__init__(client)
        self.joins_topics = joins_topics
        self.noted: list[str] = []

    def note(self, batch: Any, rows: Rows) -> None:
        self.noted.append(rows.topic)


@pytest.mark.parametrize("joined", [False, True])
def test_where_topics_are_many_each_goes_to_few_queues(
    mq: LocalCluster, monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    """A task has its sends for all topics together: spread over all queues of each they would be nothing but sends."""
    monkeypatch.setattr(targets, "_SPREAD_SENDS", 8)
    topics = [f"few-queues-{joined}-{number}" for number in range(4)]
    rows = pa.record_batch({"body": pa.array([b"x"] * 64), "topic": pa.array(topics * 16)})
    with ClusterClient(mq.namesrv) as client:
        options = SinkOptions(auto_create_topic=True, queues=4)
        written = WriteTask(client, options, Noting(client, joins_topics=joined)).write([rows])
    assert [sum(name.startswith(f"{topic}/") for name in written.queues) for topic in topics] == [2] * 4


@pytest.mark.parametrize(("for_each", "times"), [(1, 3), (128 << 10, 1)])
def test_more_rows_are_handled_at_once_where_topics_are_many(
    mq: LocalCluster, monkeypatch: pytest.MonkeyPatch, for_each: int, times: int
) -> None:
    """Where each topic has sends of its own, so that these have some rows."""
    monkeypatch.setattr(task, "_BYTES_FOR_EACH_TOPIC", for_each)
    topics = [f"at-once-{times}-{number}" for number in range(10)]
    rows = pa.record_batch({"body": pa.array([b"x" * 1_000] * 100), "topic": pa.array(topics * 10)})
    with ClusterClient(mq.namesrv) as client:
        options = SinkOptions(auto_create_topic=True, queues=1, batch_bytes=64 << 10)
        noting = Noting(client, joins_topics=False)
        assert WriteTask(client, options, noting).write([rows] * 12).rows == 1_200
    assert Counter(noting.noted) == dict.fromkeys(topics, times)


def test_a_batch_without_rows(mq: LocalCluster) -> None:
    """Names no topic, and is no error."""
    nothing = pa.record_batch({"body": pa.array([], pa.string()), "topic": pa.array([], pa.string())})
    with ClusterClient(mq.namesrv) as client:
        assert WriteTask(client, SinkOptions(), AtLeastOnce(client)).write([nothing]).rows == 0


@pytest.mark.parametrize("kind", [ClusterClient, Stock])
@pytest.mark.parametrize(
    "more", [{}, {"tags": pa.array(["a", "ü"]), "shardingKey": pa.array(["k", None])}], ids=["body", "all"]
)
def test_rows_of_the_largest_size(mq: LocalCluster, kind: type[ClusterClient], more: dict[str, Any]) -> None:
    """Four mebibytes are one row's to have, whatever brokers there are: the batches of stock ones are no larger."""
    bodies = [bytes(MAX_BODY_BYTES), bytes(MAX_BODY_BYTES - 1)]
    topic = f"large-{kind.__name__}-{len(more)}"
    with Rmq(mq) as rmq, kind(mq.namesrv) as client:
        rmq.create_topic(topic, queues=1)
        rows = pa.record_batch({"body": pa.array(bodies), **more})
        WriteTask(client, SinkOptions(topic=topic), AtLeastOnce(client)).write([rows])
        found = sorted(rmq.messages(topic), key=lambda message: -len(message.body))
        assert [message.body == body for message, body in zip(found, bodies, strict=True)] == [True, True]
        assert [message.tags for message in found] == (more["tags"].to_pylist() if more else [None, None])
        assert found[0].properties.get("__SHARDINGKEY") == ("k" if more else None)
        assert len({message.msg_id for message in found}) == 2

"""What a listener tells real brokers, one of which is away."""

from __future__ import annotations

import json
import uuid

import pytest
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.spark.queries import SeenQuery, seen_query
from rmqspark.client.spark.query_view import view_of
from rmqspark.client.spark.txn import input_keeper
from rmqspark.model import Message, MessageQueue
from rmqspark.protocol.bodies.queries import KnownQuery
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.source.lag import LagListener
from rmqspark.source.offsets import Offsets
from rmqspark.testing import cluster

from ..silent_broker import silent_broker

pytestmark = pytest.mark.integration


def progress(query_id: str, positions: dict[MessageQueue, int]) -> QueryProgressEvent:
    offset = Offsets("g", positions).to_json()
    source = {
        "description": "rmq", "startOffset": offset, "endOffset": offset, "latestOffset": None, "numInputRows": 0,
        "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0, "metrics": {},
    }  # fmt: skip
    document = {
        "id": query_id, "runId": query_id, "name": "billing", "timestamp": "2026-01-02T03:04:05.678Z", "batchId": 7,
        "batchDuration": 300, "durationMs": {}, "eventTime": {}, "stateOperators": [], "sources": [source],
        "sink": {"description": "rmq", "numOutputRows": -1, "metrics": {}}, "observedMetrics": {},
    }  # fmt: skip
    return QueryProgressEvent(StreamingQueryProgress.fromJson(json.loads(json.dumps(document))))


def test_a_query_that_fails_because_a_broker_is_away() -> None:
    """It is told as failed, although nobody can say how far behind it is."""
    with cluster(brokers=2) as mq, ClusterClient(mq.namesrv) as client, AdminClient(mq.namesrv) as admin:
        admin.create_topic("orders", queues=1)
        ids = (str(uuid.UUID(int=number)) for number in range(1_000))
        query_id = next(each for each in ids if input_keeper(client, each).name == "broker-a")
        listener = LagListener(mq.namesrv, every_ms=0)
        listener.onQueryProgress(progress(query_id, dict.fromkeys(admin.queues("orders"), 0)))
        assert view_of(client, seen_query(client, query_id)).lag == 0
        mq.stop_broker("broker-b")
        listener.onQueryTerminated(QueryTerminatedEvent(uuid.UUID(query_id), uuid.UUID(query_id), "no broker-b", None))
        mq.start_broker("broker-b")
        view = view_of(client, seen_query(client, query_id))
        assert (view.state, view.batch_id, view.lag, len(view.queues)) == ("failed", 7, None, 2)


def test_a_query_beside_a_broker_that_does_not_answer() -> None:
    """It is told as it runs, by a broker that answers, though how far it is behind in all is not known."""
    with cluster() as mq, ClusterClient(mq.namesrv) as client, AdminClient(mq.namesrv) as admin:
        admin.create_topic("orders", queues=1)
        positions = {MessageQueue("orders", name, 0): 0 for name in ("broker-a", "broker-x")}
        listener = LagListener(mq.namesrv, every_ms=0)
        with silent_broker(mq.namesrv, "broker-x", "orders", "others"):
            ids = (str(uuid.UUID(int=number)) for number in range(1_000))
            query_id = next(each for each in ids if input_keeper(client, each).name == "broker-x")
            for _ in range(2):  # what it finds out with the first one
                listener.onQueryProgress(progress(query_id, positions))
            view = view_of(client, seen_query(client, query_id, on_silent=lambda name, error: None))
        assert (view.state, view.batch_id, view.lag, len(view.queues)) == ("running", 7, None, 2)


def test_a_query_without_a_listener_is_behind_in_topics_that_its_last_batch_did_not_read() -> None:
    """Nothing was in them then: that it has caught up with the others says nothing of them now."""
    busy, quiet = MessageQueue("orders", "broker-a", 0), MessageQueue("refunds", "broker-a", 0)
    with cluster() as mq, ClusterClient(mq.namesrv) as client, AdminClient(mq.namesrv) as admin:
        for topic in ("orders", "refunds"):
            admin.create_topic(topic, queues=1)
        with Producer(mq.namesrv) as producer, PullConsumer(mq.namesrv, group="g") as consumer:
            producer.send(Message("orders", b"paid"))
            consumer.commit({busy: 1, quiet: 0})
            producer.send(Message("refunds", b"sent back"))
        last = [InputRange("g", *busy, fromOffset=0, toOffset=1)]
        view = view_of(client, SeenQuery(KnownQuery("id", batchId=1, inputs=last), 0))
    assert {each.queue: each.lag for each in view.queues} == {busy: 0, quiet: 1}
    assert view.lag == 1

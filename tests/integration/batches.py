"""Exactly-once batches without Spark: what a task sends, and what a driver commits."""

from __future__ import annotations

from itertools import count

import pyarrow as pa

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.sink.options import SinkOptions
from rmqspark.sink.transaction_options import TransactionOptions
from rmqspark.sink.transactions.attempt import Attempt, AttemptWritten
from rmqspark.sink.transactions.attempt_write import write_attempt
from rmqspark.sink.transactions.commit import commit

_numbers = count()


def written(
    namesrv: str, topic: str, version: int, *bodies: str, transactional_id: str | None = None
) -> AttemptWritten:
    """What a task of query `q-<topic>` has sent under the topic's name, or another, as its transactional id."""
    attempt = Attempt(
        transactional_id or topic, "run-1", version, 0, f"{next(_numbers)}-x", query_id=f"q-{topic}", batch_id=version
    )
    batch = pa.record_batch({"body": pa.array(bodies)})
    with ClusterClient(namesrv) as client:
        return write_attempt(client, SinkOptions(topic=topic), attempt, [batch])


def committed(namesrv: str, topic: str, version: int, *bodies: str) -> None:
    message = written(namesrv, topic, version, *bodies)
    with ClusterClient(namesrv) as client:
        commit(client, TransactionOptions(), [message])

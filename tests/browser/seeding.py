"""A cluster with something of everything: what the pages of the console are looked at with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from rmqspark import Message, PullConsumer
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.queries import report_query
from rmqspark.client.spark.txn import input_keeper, report_input
from rmqspark.protocol.bodies.queries import QueryLag, QueryQueue, QueryReport
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.sink.options import SinkOptions
from rmqspark.sink.transaction_options import TransactionOptions
from rmqspark.sink.transactions.attempt import Attempt, AttemptWritten
from rmqspark.sink.transactions.attempt_write import write_attempt
from rmqspark.sink.transactions.commit import commit

if TYPE_CHECKING:
    from rmqspark.testing.rmq import Rmq

TOPIC: Final = "orders"
NASTY: Final = "nasty"
GROUP: Final = "billing"
NEVER: Final = "never-committed"
FAR: Final = "far-ahead"
BEYOND: Final = 2**53 + 1
QUERY: Final = "q-invoices"
TXN: Final = "spark-invoices"
CANARY: Final = "<img src=x onerror=\"document.title='owned'\">"
FORMULA: Final = '=HYPERLINK("http://evil.example")'
COUNT: Final = 150
KEY: Final = "shop-1"
"""Of all orders."""
_STATES: Final = ("paid", "shipped", "open")


def fill(rmq: Rmq) -> None:
    """Topics, messages, groups, a query with batches, transactions, dead letters."""
    for name in (TOPIC, "invoices", NASTY, "empty-topic"):
        rmq.create_topic(name, queues=4)
    rmq.send(TOPIC, *(_order(number) for number in range(COUNT)))
    rmq.send(NASTY, CANARY, FORMULA, b"\xff\xfe\x00binary", "x" * 20_000, "\u202egnp.exe")
    _groups(rmq)
    _dead_letters(rmq)
    _transactions(rmq)
    _queries(rmq)


def _order(number: int) -> Message:
    body = {
        "id": number,
        "customer": f"customer-{number % 17}",
        "total": round(9.99 + number * 1.25, 2),
        "items": [{"sku": f"A-{number % 5}", "count": 1 + number % 3}],
    }
    return Message(
        TOPIC, json.dumps(body).encode(), _STATES[number % 3], [f"order-{number}", KEY], {"price": str(number)}
    )


def _groups(rmq: Rmq) -> None:
    with PullConsumer(rmq.namesrv, group=GROUP) as consumer:
        queues = consumer.queues(TOPIC)
        consumer.assign(queues)
        consumer.commit({queue: 10 + 5 * queue.queue_id for queue in queues})
    with PullConsumer(rmq.namesrv, group=NEVER) as consumer:
        queues = consumer.queues(TOPIC)
        consumer.assign(queues)
        consumer.seek_to_beginning()
        consumer.poll(1_000)
        consumer.commit({queues[0]: 1})
    with PullConsumer(rmq.namesrv, group=FAR) as consumer:
        consumer.commit(dict.fromkeys(consumer.queues(TOPIC), BEYOND))


def _dead_letters(rmq: Rmq) -> None:
    rmq.give_up(GROUP, *rmq.messages(TOPIC)[:4])


def written(rmq: Rmq, version: int, *bodies: str) -> AttemptWritten:
    attempt = Attempt(TXN, "run-1", version, 0, f"{version}-x", query_id=QUERY, batch_id=version)
    with ClusterClient(rmq.namesrv) as client:
        return write_attempt(
            client, SinkOptions(topic="invoices"), attempt, [pa.record_batch({"body": pa.array(bodies)})]
        )


def _transactions(rmq: Rmq) -> None:
    for version in range(3):
        message = written(rmq, version, *(f"invoice {version}-{number}" for number in range(10)))
        with ClusterClient(rmq.namesrv) as client:
            commit(client, TransactionOptions(), [message])
    written(rmq, 3, "in doubt 1", "in doubt 2")


def _queries(rmq: Rmq) -> None:
    with ClusterClient(rmq.namesrv) as client:
        queues = [QueryQueue(GROUP, TOPIC, "broker-a", number, 0, 10, 38, 3_000 + number) for number in range(4)]
        report = QueryReport(
            QUERY,
            "run-1",
            "invoices",
            batchId=2,
            durationMs={"triggerExecution": 900, "latestOffset": 500, "addBatch": 310, "walCommit": 40},
            inputRows=10_000,
            processedRowsPerSecond=1_000.0,
            uiUrl="http://driver:4040/StreamingQuery",
            cores=2,
            lag=QueryLag(20, 40, 28.0, 20_000, 3_003),
            queues=queues,
        )
        report_query(client, report)
        pieces = [InputRange(GROUP, TOPIC, "broker-a", number, 0, 10) for number in range(4)]
        report_input(input_keeper(client, QUERY), QUERY, 2, pieces).result().raise_for_code()

"""`rmq spark` against a real cluster, told of queries as a listener and as read tasks tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message, Producer, PullConsumer
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.queries import report_query
from rmqspark.client.spark.txn import input_keeper, report_input
from rmqspark.protocol.bodies.queries import QueryLag, QueryQueue, QueryReport
from rmqspark.protocol.bodies.txn import InputRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.testing import LocalCluster
    from rmqspark.testing.rmq import Rmq

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration

LAG_NAMES = (  # Spark's
    "minOffsetsBehindLatest",
    "maxOffsetsBehindLatest",
    "avgOffsetsBehindLatest",
    "estimatedTotalBytesBehindLatest",
    "maxMsBehindLatest",
)


@pytest.fixture
def client(mq: LocalCluster) -> Iterator[ClusterClient]:
    with ClusterClient(mq.namesrv) as client:
        yield client


def test_a_reported_query(ok: Run, client: ClusterClient, topic: str) -> None:
    """Its last report is shown in full; the diagnosis goes by it."""
    group = f"billing-{topic}"
    queue = QueryQueue(group, topic, "broker-a", 0, 0, 10_000, 12_000, 3_000)
    empty = QueryQueue(group, topic, "broker-a", 1, 5, 5, 5, 0)
    lag = QueryLag(0, 2_000, 1_000.0, 200_000, 3_000)
    report = QueryReport(
        f"id-of-{topic}",
        "run",
        f"name of {topic}",
        batchId=7,
        durationMs={"triggerExecution": 10_000, "latestOffset": 5_000},
        inputRows=40,  # tags have passed over the rest
        processedRowsPerSecond=4.0,
        uiUrl="http://driver:4040/x",
        cores=2,
        lag=lag,
        queues=[queue, empty],
    )
    report_query(client, report)
    (listed,) = [each for each in ok("spark", "list", "--json").json if each["name"] == report.name]
    assert (listed["state"], listed["lag"], listed["bytesBehind"], listed["batchMs"]) == (
        "running",
        2_000,
        200_000,
        10_000,
    )
    assert {name: listed[name] for name in LAG_NAMES} == dict(
        zip(LAG_NAMES, (0, 2_000, 1_000, 200_000, 3_000), strict=True)
    )
    assert listed["caughtUpInSeconds"] == 6  # 667 a second come in, 1,000 go out
    assert report.name in ok("spark", "list").out
    shown = ok("spark", "describe", report.name).out
    assert "2,000 messages, 3 s, about 195.3 KiB; caught up in 6 s" in shown
    assert "http://driver:4040/x" in shown
    assert ok("spark", "describe", group, "--json").json["queryId"] == report.queryId
    found = ok("spark", "diagnose", report.queryId)
    with Producer(client.namesrv) as producer:
        producer.send(Message(topic, b"x"))
    ok("group", "reset", group, "--to", "earliest", "--topic", topic, "--create", "--yes")
    assert ok("group", "describe", group, "--json").json["queries"] == [report.name]
    last = ok("group", "describe", group).lines[-1]
    assert last == f"Read by the Spark query {report.name}: rmq spark describe '{report.name}'"
    assert [line.partition(":")[0] for line in found.lines[::2]] == ["skewed-queues", "slow-offsets"]
    assert "minPartitions" in found.out


def test_a_query_that_has_no_queue_just_now(ok: Run, client: ClusterClient, topic: str) -> None:
    """Others of its shared group have them all: it is seen, and its group with it, and why it reads nothing."""
    group = f"shared-{topic}"
    report_query(client, QueryReport(f"id-of-{topic}", "run", batchId=2, groups=[group]))
    (listed,) = [each for each in ok("spark", "list", "--json").json if each["groups"] == [group]]
    assert (listed["state"], listed["queues"], listed["lag"]) == ("running", 0, None)
    described = ok("spark", "describe", group).out
    assert "it reads no queue just now" in described
    assert "nothing yet" not in described
    assert ok("spark", "diagnose", group).out.startswith("no-queues: It reads no queue just now")


def test_a_query_that_nobody_reports(
    ok: Run, cli: Run, client: ClusterClient, mq: LocalCluster, rmq: Rmq, topic: str
) -> None:
    """What its tasks said and its group committed is shown; the rest is unknown."""
    query_id, group = f"silent-{topic}", f"g-{topic}"
    rmq.send(topic, *[b"x"] * 8)
    with PullConsumer(mq.namesrv, group=group) as consumer:
        queues = consumer.queues(topic)
        consumer.assign(queues)
        consumer.commit(dict.fromkeys(queues, 1))
    pieces = [InputRange(group, *queue, 0, 1) for queue in queues[:2]]
    report_input(input_keeper(client, query_id), query_id, 3, pieces).result().raise_for_code()
    described = ok("spark", "describe", query_id, "--json").json
    assert (described["state"], described["batchId"], described["batchMs"]) == ("unknown", 3, None)
    assert (described["groups"], described["lag"], len(described["queues"])) == ([group], 4, 4)
    assert [described[name] for name in LAG_NAMES[:4]] == [1, 1, 1, None]
    assert described["maxMsBehindLatest"] >= 0
    assert ok("spark", "describe", group, "--json").json["queryId"] == query_id
    assert "LagListener" in ok("spark", "describe", query_id).out
    assert "LagListener" in ok("spark", "diagnose", query_id).out

    planned = ok("spark", "rewind", query_id, "--to", "earliest", "--dry-run", "--json").json
    assert (planned["group"], planned["done"]) == (group, False)
    assert [queue["target"] for queue in planned["queues"]] == [0, 0, 0, 0]
    assert cli("spark", "rewind", query_id, "--to", "earliest").code == 2  # nobody can be asked
    ok("spark", "rewind", query_id, "--to", "earliest", "--yes")
    assert ok("spark", "describe", query_id, "--json").json["lag"] == 8

    report_input(input_keeper(client, "second"), "second", 0, pieces).result().raise_for_code()
    assert "may be any of 2 queries" in cli("spark", "describe", group).err

    alone = f"alone-{topic}"  # commitOffsets=false
    ranges = [InputRange("", *queues[0], 0, 1)]
    report_input(input_keeper(client, alone), alone, 0, ranges).result().raise_for_code()
    described = ok("spark", "describe", alone, "--json").json
    assert (described["groups"], described["lag"]) == ([], 1)
    assert "rmq group reset" in cli("spark", "rewind", alone, "--to", "earliest").err


def test_a_query_that_there_is_not(cli: Run) -> None:
    """It is an error that says where names come from."""
    refused = cli("spark", "describe", "nobody")
    assert refused.code == 1
    assert "rmq spark list" in refused.err

"""Bodies that did not parse, sent to a topic of a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import ServerFault, TopicNotFound
from rmqspark.model import MessageQueue
from rmqspark.source.options import RetryPolicy, SourceOptions
from rmqspark.source.reader import RmqReader
from rmqspark.source.values.bad_records import (
    BATCH_BYTES,
    MAX_SENT_BYTES,
    BadRecord,
    BadRecords,
    check_bad_records_topic,
)
from rmqspark.source.values.value_schema import check_read_schema
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from rmqspark.testing.rmq import Rmq

pytestmark = pytest.mark.integration

QUEUE = MessageQueue("orders", "broker-a", 3)
RETRY = RetryPolicy()


def test_they_are_stored_when_send_returns(rmq: Rmq) -> None:
    """Each arrives with its key, however many and however large they are; one sent again has the same key."""
    rmq.create_topic("bad", queues=2)
    bodies = [b"small", b"x" * (BATCH_BYTES - 10), b"y" * (MAX_SENT_BYTES + 5), b""]
    records = [BadRecord(QUEUE, offset, body, f"reason {offset}") for offset, body in enumerate(bodies)]
    with ClusterClient(rmq.namesrv) as client:
        bad_records = BadRecords(client, "bad", RETRY)
        bad_records.send(records)
        bad_records.send(records[:1])
    stored = rmq.messages("bad")
    assert sorted(message.keys[0] for message in stored) == [
        "orders/broker-a/3/0",
        "orders/broker-a/3/0",
        *(f"orders/broker-a/3/{offset}" for offset in (1, 2, 3)),
    ]
    assert {message.properties["reason"] for message in stored} == {f"reason {offset}" for offset in range(4)}
    assert len({message.msg_id for message in stored}) == 5
    assert rmq.admin.query("bad", "orders/broker-a/3/1")[0].body == bodies[1]


@pytest.mark.parametrize("read_mode", ["broker", "direct"])
def test_bodies_are_parsed_however_they_are_read(rmq: Rmq, read_mode: str) -> None:
    """From the broker or from its files, also by a task that reads several queues: the same rows, the same bad key."""
    rmq.create_topic("orders", queues=2)
    rmq.create_topic("bad", queues=1)
    receipts = rmq.send("orders", b'{"id":0}', b'{"id":1}', b"oops")
    given = {"subscribe": "orders", "namesrv": rmq.namesrv, "readMode": read_mode, "valueFormat": "json"}
    more = {"metadataColumns": "queueId", "badRecordsTopic": "bad"}
    options = SourceOptions.parse(given | more, streaming=False)
    schema = StructType([StructField("id", LongType()), StructField("queueId", IntegerType())])
    reader = RmqReader(options, check_read_schema(schema, options.values))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    rows = {(row["id"], row["queueId"]) for batch in batches for row in batch.to_pylist()}
    assert rows == {(number, receipt.queue.queue_id) for number, receipt in zip((0, 1, None), receipts, strict=True)}
    (bad,) = rmq.messages("bad")
    assert bad.keys == [f"{receipts[2].queue}/{receipts[2].queue_offset}"]


def test_a_topic_that_is_not_there(rmq: Rmq) -> None:
    """It is missed before anything is read, in words that say which option named it."""
    with ClusterClient(rmq.namesrv) as client, pytest.raises(TopicNotFound, match="'nowhere'.*badRecordsTopic must be"):
        check_bad_records_topic(client, "nowhere", RETRY)


def test_a_broker_that_is_busy_for_a_moment(rmq: Rmq, monkeypatch: pytest.MonkeyPatch) -> None:
    """A send that fails is made again after the pauses of fetchOffset, and what ends them is raised."""
    rmq.create_topic("bad")
    clock = ManualClock()
    with ClusterClient(rmq.namesrv, clock=clock) as client:
        bad_records = BadRecords(client, "bad", RETRY)
        failures = [ServerFault("busy")] * 2
        deliver = bad_records._delivery.deliver

        def failing(*args: object) -> object:
            if failures:
                raise failures.pop()
            return deliver(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(bad_records._delivery, "deliver", failing)
        bad_records.send([BadRecord(QUEUE, 1, b"x", "why")])
        assert len(rmq.messages("bad")) == 1
        failures += [ServerFault("gone")] * 9
        with pytest.raises(ServerFault, match="gone"):
            bad_records.send([BadRecord(QUEUE, 2, b"x", "why")])

"""Answers to bulk reads that go out as they lie in the log, and what their readers make of damage in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster import bulk, in_place, topics_read
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import DataLoss
from rmqspark.model import Message, MessageQueue
from rmqspark.protocol.bulk.topic_ranges import TopicRange
from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.record import PHYSICAL_OFFSET_AT, SIZE_AT
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.source.options import RetryPolicy
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.task_options import TaskOptions
from rmqspark.source.tasks.fetch import fetch
from rmqspark.store.reading.log_regions import LogRegion
from rmqspark.testing import cluster

from ..replication.test_replicas import QUICK, end_offset, has_topic, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration

QUEUE = MessageQueue("orders", "broker-a", 0)
COUNT, BODY_BYTES, DAMAGED = 60, 3 << 10, 30  # short enough to be sent as they are
DELETED_LATER = 1 << 50  # so that no deletion of the topic's name counts
UNHEARD_OF = 39_999  # a request code


@pytest.fixture
def one() -> Iterator[LocalCluster]:
    with cluster(broker_config=QUICK) as running:
        yield running


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What a reader has found when it looked into an answer."""
    seen: list[bool] = []
    look = in_place.are_in_place

    def noted(*given: Any) -> bool:
        seen.append(look(*given))
        return seen[-1]

    for module in (bulk, topics_read):
        monkeypatch.setattr(module, "are_in_place", noted)
    return seen


@pytest.fixture
def uncopied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes of the log brokers have sent at a time without reading them. Whoever has the answer may be here
    before that is noted."""
    taken: list[int] = []
    send = LogRegion.send

    def noted(region: LogRegion, descriptor: int) -> int:
        taken.append(send(region, descriptor))
        return taken[-1]

    monkeypatch.setattr(LogRegion, "send", noted)
    return taken


def fill(one: LocalCluster) -> list[int]:
    """Messages that lie side by side; returns where."""
    with AdminClient(one.namesrv) as admin, Producer(one.namesrv) as producer:
        admin.create_topic("orders", queues=1)
        receipts = [producer.send(Message("orders", bytes([number]) * BODY_BYTES)) for number in range(COUNT)]
    return [parse_offset_msg_id(receipt.offset_msg_id)[1] for receipt in receipts]


def damage(one: LocalCluster, physical_offset: int) -> None:
    with next(iter((one.store_dir() / "commitlog").iterdir())).open("r+b") as log:
        log.seek(physical_offset)
        (byte,) = log.read(1)
        log.seek(physical_offset)
        log.write(bytes([byte ^ 1]))


def read(one: LocalCluster, *, tolerant: bool) -> list[int]:
    """The offsets of the messages that a task reads, whose bodies are sound."""
    options = TaskOptions(retry=RetryPolicy(1, 0), fail_on_data_loss=not tolerant)
    with ClusterClient(one.namesrv) as client:
        found: list[int] = []
        for records in fetch(client, QueueRange(QUEUE, 0, COUNT, DELETED_LATER), options):
            assert [body[0] for body in records.checked_bodies()] == records.queue_offsets.tolist()
            found += records.queue_offsets.tolist()
        return found


def test_what_is_sound_is_looked_at_once(one: LocalCluster, looks: list[bool], uncopied: list[int]) -> None:
    """By its reader."""
    fill(one)
    assert read(one, tolerant=False) == [*range(COUNT)]
    assert looks == [True]
    wait_until(lambda: sum(uncopied) > COUNT * BODY_BYTES // 2, "most of it went uncopied")


@pytest.mark.faults
@pytest.mark.parametrize("field_at", [SIZE_AT + 3, PHYSICAL_OFFSET_AT + 7])
def test_a_damaged_head_is_stepped_over(one: LocalCluster, looks: list[bool], field_at: int) -> None:
    """As where brokers look into all they hand out: one message is lost, the others are read."""
    damage(one, fill(one)[DAMAGED] + field_at)
    with pytest.raises(DataLoss, match=f"1 message of queue orders/broker-a/0, among offsets 0 to {COUNT - 1}"):
        read(one, tolerant=False)
    assert read(one, tolerant=True) == [number for number in range(COUNT) if number != DAMAGED]
    assert looks == [False, False]


@pytest.mark.faults
@pytest.mark.parametrize("is_damaged", [False, True])
def test_ranges_that_are_read_together(
    one: LocalCluster, looks: list[bool], uncopied: list[int], is_damaged: bool
) -> None:
    """What a damaged message is among is read by the broker, and comes without it."""
    places = fill(one)
    if is_damaged:
        damage(one, places[DAMAGED] + SIZE_AT + 3)
    ranges = [TopicRange("orders", 0, *bounds) for bounds in [(0, 20), (20, 20), (20, COUNT)]]
    with ClusterClient(one.namesrv) as client:
        asked = topics_read.topics_read(client.broker("broker-a"), ranges, max_count=COUNT, max_bytes=4 << 20)
        found = asked.result(60)
    assert found.counts.tolist() == [20, 0, COUNT - 20 - is_damaged]
    assert RecordBatch.from_sizes(found.records, found.sizes).queue_offsets.tolist() == [
        number for number in range(COUNT) if not is_damaged or number != DAMAGED
    ]
    assert looks == [not is_damaged]
    wait_until(lambda: uncopied, "something went uncopied")


@pytest.mark.faults
def test_it_is_asked_again_while_others_send(one: LocalCluster) -> None:
    """By nobody whom the answers wait for: where both sides wait for room to send, one has to read."""
    damage(one, fill(one)[DAMAGED])
    with ClusterClient(one.namesrv) as client:
        broker = client.broker("broker-a")
        reads = [broker.bulk_read("orders", 0, 0, COUNT, max_count=COUNT, max_bytes=4 << 20) for _ in range(100)]
        large = broker.submit(UNHEARD_OF, None, bytes(15 << 20), timeout_ms=60_000)
        assert [len(chunk.result(60).sizes) for chunk in reads] == [COUNT - 1] * 100
        assert large.result(60).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.faults
def test_a_slave_reads_what_it_hands_out(one: LocalCluster, uncopied: list[int]) -> None:
    """Its log may be cut and written anew, and what a socket has not sent yet is what lies there when it does."""
    fill(one)
    address = one.start_slave()
    wait_until(lambda: end_offset(address) == end_offset(one.brokers["broker-a"]), "the slave has it all")
    wait_until(lambda: has_topic(address, "orders"), "the slave has the topic")
    one.stop_broker("broker-a")
    with ClusterClient(one.namesrv) as client:
        slave = client.broker("broker-a")
        wait_until(lambda: slave.capabilities().is_slave, "the slave is the one that is asked")
        found = slave.bulk_read("orders", 0, 0, COUNT, max_count=COUNT, max_bytes=4 << 20).result(60)
    assert len(found.sizes) == COUNT
    assert not uncopied


@pytest.mark.faults
def test_a_pull_consumer_steps_over_it_too(one: LocalCluster) -> None:
    """It is given all that can be read."""
    damage(one, fill(one)[DAMAGED])
    with PullConsumer(one.namesrv) as consumer:
        consumer.assign([QUEUE])
        bodies: list[bytes] = []
        while len(bodies) < COUNT - 1:
            bodies += [message.body for message in consumer.poll(timeout_ms=10_000)]
    assert [body[0] for body in bodies] == [number for number in range(COUNT) if number != DAMAGED]

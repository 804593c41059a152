"""Messages with a deliver time with parts of RocketMQ: its clients on our broker, one store for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ours import name_server, read, up
from rocketmq import wait_for
from stored import raw_records, without_places

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.clock import SystemClock
from rmqspark.model import Message
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jvm import Jvm
    from ours import Up
    from rocketmq import RocketMQ

pytestmark = [pytest.mark.java, pytest.mark.integration]

TIMES = {Property.TIMER_OUT_MS, Property.TIMER_DELIVER_MS, Property.TIMER_ENQUEUE_MS, Property.TIMER_DEQUEUE_MS}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A name server of ours, with which stock brokers register."""
    with name_server(tmp_path_factory.mktemp("names")) as address:
        yield address


def in_ms(ms: int) -> int:
    return SystemClock().now_ms() + ms


def waiting_for(store: Path, topic: str) -> list[Any]:
    """The messages that wait, or waited, for a topic, but for their times."""
    return [
        without_times(raw)
        for raw, _ in raw_records(store, TIMER_TOPIC)
        if decode_record(raw).property_map()[Property.REAL_TOPIC] == topic
    ]


def without_times(raw: bytes) -> Any:
    """A message but for places and times, and how many digits these have."""
    found = without_places(raw, 0)
    properties = {name: value for name, value in found.properties.items() if name not in TIMES}
    head = found.head[4:72] + found.head[84:]  # without the length, and what is 0 where RocketMQ delivers
    rest = found.body_and_topic[:-2]  # how long its properties are
    return found._replace(head=head, body_and_topic=rest, size=0, properties=properties)


@pytest.mark.parametrize("asked", ["setDelayTimeMs", "setDelayTimeSec", "setDeliverTimeMs"])
def test_both_brokers_wait_alike(ours: Up, stock: str, stock_store: Path, jvm: Jvm, asked: str) -> None:
    """What waits, and what comes, says the same but for when it was looked at; neither comes early."""
    topic = f"timed-{asked}"
    for namesrv in (ours.namesrv, stock):
        with AdminClient(namesrv) as admin:
            admin.create_topic(topic, queues=1)
        with jvm.producer(namesrv, "timing") as producer:
            message = jvm.rocketmq.common.message.Message(topic, "TagA", "k1", 7, b"later", True)
            time = {"setDelayTimeMs": 1_500, "setDelayTimeSec": 1, "setDeliverTimeMs": in_ms(2_000)}[asked]
            getattr(message, asked)(time)
            producer.send(message)
    for namesrv in (ours.namesrv, stock):
        wait_for(lambda namesrv=namesrv: read(namesrv, topic), "the message has come")
        (found,) = read(namesrv, topic)
        assert found.store_timestamp_ms >= int(found.properties[Property.TIMER_OUT_MS]) + 1000
    for store in (ours.store, stock_store):
        wait_for(lambda store=store: raw_records(store, topic), "its queue entry is written")
    mine, theirs = ([without_times(raw) for raw, _ in raw_records(store, topic)] for store in (ours.store, stock_store))
    assert mine == theirs
    assert waiting_for(ours.store, topic) == waiting_for(stock_store, topic)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_rocketmq_delivers_what_waits_with_us(end: str, names: str, rocketmq: RocketMQ, tmp_path: Path) -> None:
    """What waits in our store waits in it for the stock broker, too; and what that has delivered we do not."""
    with up(tmp_path) as first:
        with AdminClient(first.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        with Producer(first.namesrv) as producer:
            producer.send(Message("orders", b"quick", deliver_time_ms=in_ms(1_000)))
            wait_for(lambda: read(first.namesrv, "orders"), "the first has come")
            producer.send(Message("orders", b"slow", deliver_time_ms=in_ms(5_000)))
        if end == "killed":
            first.kill()
    with rocketmq.broker(first.store, names):
        wait_for(lambda: b"slow" in bodies(names), "the stock broker has delivered it")
        delivered = bodies(names)
    assert set(delivered) == {b"quick", b"slow"}
    if end == "stopped":
        assert delivered == [b"quick", b"slow"]
    with up(tmp_path) as second:
        with Producer(second.namesrv) as producer:
            producer.send(Message("orders", b"last", deliver_time_ms=in_ms(2_000)))
        wait_for(lambda: b"last" in bodies(second.namesrv), "ours goes on")
        assert bodies(second.namesrv) == [*delivered, b"last"]


def test_we_deliver_what_waits_with_rocketmq(names: str, rocketmq: RocketMQ, tmp_path: Path) -> None:
    """Once: how far the stock broker came it says in timercheck."""
    with rocketmq.broker(tmp_path / "broker-a", names):
        with AdminClient(names) as admin:
            admin.create_topic("orders", queues=1)
        with Producer(names) as producer:
            producer.send(Message("orders", b"quick", deliver_time_ms=in_ms(1_000)))
            wait_for(lambda: read(names, "orders"), "the first has come")
            producer.send(Message("orders", b"slow", deliver_time_ms=in_ms(15_000)))
    with up(tmp_path) as running:
        wait_for(lambda: b"slow" in bodies(running.namesrv), "ours has delivered it")
        assert bodies(running.namesrv) == [b"quick", b"slow"]


def bodies(namesrv: str) -> list[bytes]:
    return [message.body for message in read(namesrv, "orders")]

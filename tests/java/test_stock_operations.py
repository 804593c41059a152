"""Dead letters, settings and health of a stock broker, through our client and command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ours import rmq
from rocketmq import wait_for

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.tracing.journey import StageKind
from rmqspark.errors import Conflict
from rmqspark.message_queue import MessageQueue
from rmqspark.model import Message
from rmqspark.testing.rmq import Rmq

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.java, pytest.mark.integration]


class _Named:
    """As much of a cluster as `Rmq` asks for."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv


@pytest.fixture
def bench(stock: str) -> Iterator[Rmq]:
    with Rmq(_Named(stock)) as connected:  # type: ignore[arg-type]
        yield connected


def given_up(bench: Rmq, topic: str, group: str) -> None:
    """A topic of two messages that a group has given up; when this returns the name server routes to them."""
    bench.create_topic(topic, queues=1)
    bench.send(topic, *(Message(topic, b"%d" % n * 5000, "paid", [f"k{n}"]) for n in range(2)))
    bench.give_up(group, *bench.messages(topic))
    wait_for(lambda: f"%DLQ%{group}" in bench.admin.topics(system=True), "the dead letter topic is registered")


def test_dead_letters_are_sent_again(bench: Rmq) -> None:
    """A stock broker takes them for its group's retry topic, once; compressed bodies come out as they were."""
    given_up(bench, "failed", "failing")
    letters = bench.admin.dead_letters("failing")
    assert [(each.topic, each.tries, each.message.keys) for each in letters] == [
        ("failed", 1, ["k0"]),
        ("failed", 1, ["k1"]),
    ]
    assert bench.admin.resend_dead_letters("failing").count == 2
    assert bench.admin.resend_dead_letters("failing").count == 0
    again = bench.messages("%RETRY%failing")
    first = bench.messages("failed")
    assert [(each.msg_id, each.body, each.reconsume_times) for each in again] == [
        (each.msg_id, each.body, 0) for each in first
    ]
    assert [each.properties["RETRY_TOPIC"] for each in again] == ["failed"] * 2
    (count,) = (each for each in bench.admin.dead_letter_counts() if each.group == "failing")
    assert (count.count, count.waiting) == (2, 0)


def test_a_group_that_consumes_in_order(bench: Rmq, stock: str) -> None:
    """A stock broker makes a dead letter of the first one at once, and the resend stops there: it is the last of the
    letters now, and the topic takes each once."""
    given_up(bench, "ordered", "in-order")
    with ClusterClient(stock) as client:
        client.broker("broker-a").submit_lock("in-order", "c1", [MessageQueue("ordered", "broker-a", 0)]).result()
    with pytest.raises(Conflict, match="consumes in order"):
        bench.admin.resend_dead_letters("in-order")
    assert [each.is_resent for each in bench.admin.dead_letters("in-order")] == [True, False, False]
    assert bench.admin.resend_dead_letters("in-order", to_topic=True).count == 2
    assert sorted(message.body[:1] for message in bench.messages("ordered")) == [b"0", b"0", b"1", b"1"]


def test_settings_are_shown_and_changed(stock: str) -> None:
    """Under our names and RocketMQ's; what it says it goes by is told."""
    shown = json.loads(rmq(stock, "config", "get", "file_reserved_time", "--json"))
    assert (shown["rocketmqName"], shown["value"]) == ("fileReservedTime", "72")
    changed = json.loads(rmq(stock, "config", "set", "fileReservedTime", "48", "--yes", "--json"))
    assert (changed["before"], changed["value"]) == ("72", "48")
    assert "RocketMQ does not say" in rmq(stock, "config", "set", "fileReservedTime", "72", "--yes")


def test_health(stock: str) -> None:
    """Version, disk and traffic are read, and nothing is wrong."""
    (broker,) = json.loads(rmq(stock, "cluster", "info", "--json"))["brokers"]
    assert broker["version"].startswith("V5_")
    assert (broker["flushDiskType"], broker["state"]) == ("ASYNC_FLUSH", "ok")
    assert broker["diskFreeBytes"] > 0
    assert 0 < broker["diskUsed"] < 1
    assert rmq(stock, "check", "cluster").startswith("OK: ")


def test_the_way_of_a_message(bench: Rmq) -> None:
    """What a stock broker keeps is found: retries that wait and dead letters by the unique id, a record that waited by
    it, too, as its delivery names none; groups by their offsets. Nothing of Spark is asked."""
    bench.create_topic("travels", queues=1)
    (receipt,) = bench.send("travels", Message("travels", b"x", "paid"))
    (message,) = bench.messages("travels")
    with PullConsumer(bench.namesrv, group="traveller") as consumer:
        consumer.commit({message.queue: 1})
    bench.give_up("traveller", message)
    wait_for(lambda: "%DLQ%traveller" in bench.admin.topics(system=True), "the dead letter topic is registered")
    wait_for(lambda: bench.admin.journey(receipt.msg_id, "travels").returns, "its index has the dead letter")
    told = bench.admin.journey(receipt.msg_id, "travels")
    assert told == bench.admin.journey(receipt.offset_msg_id)
    assert [(each.group, each.is_dead, each.times) for each in told.returns] == [("traveller", True, 1)]
    assert [(each.group, each.is_past) for each in told.groups] == [("traveller", True)]
    assert (told.batches, told.written_by, told.unknown) == ((), None, ())
    (dead,) = bench.messages("%DLQ%traveller")
    of_dead = bench.admin.journey(dead.offset_msg_id)
    assert of_dead.returned is not None
    assert (of_dead.returned.group, of_dead.first) == ("traveller", told.place)

    (delayed,) = bench.send("travels", Message("travels", b"y", delay_level=1))
    waiting = bench.admin.journey(delayed.offset_msg_id)
    wait_for(lambda: bench.admin.journey(delayed.msg_id, "travels").is_readable, "it is delivered, and in the index")
    there = bench.admin.journey(delayed.msg_id, "travels")
    assert [(stage.kind, stage.level, stage.place.offset_msg_id) for stage in there.stages] == [
        (StageKind.DELAY, 1, delayed.offset_msg_id)
    ]
    if not waiting.is_readable:
        assert waiting.stages[0].due_ms == waiting.place.stored_ms + 1_000


def test_a_live_view(bench: Rmq, stock: str) -> None:
    """All of it comes from requests that stock brokers answer."""
    bench.create_topic("viewed", queues=1)
    (receipt, *_) = bench.send("viewed", *[b"x"] * 5)
    with PullConsumer(stock, group="viewer") as consumer:
        consumer.commit({receipt.queue: 2})
    frame = json.loads(rmq(stock, "top", "--once", "--json", "--interval", "1"))
    assert [(each["problem"], each["inPerSecond"] is not None) for each in frame["brokers"]] == [(None, True)]
    assert {"topic": "viewed", "inPerSecond": 0.0, "messages": 5} in frame["topics"]
    assert [each["lag"] for each in frame["readers"] if each["name"] == "viewer"] == [3]
    assert (frame["halfMessages"], frame["unknown"]) == (0, [])

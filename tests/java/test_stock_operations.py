"""Dead letters, settings and health of a stock broker, through our client and command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ours import rmq
from rocketmq import wait_for

from rmqspark.client.cluster_client import ClusterClient
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
    """A stock broker makes a dead letter of the first one at once, and the resend stops there; the topic takes all."""
    given_up(bench, "ordered", "in-order")
    with ClusterClient(stock) as client:
        client.broker("broker-a").lock("in-order", "c1", [MessageQueue("ordered", "broker-a", 0)])
    with pytest.raises(Conflict, match="consumes in order"):
        bench.admin.resend_dead_letters("in-order")
    assert [each.is_resent for each in bench.admin.dead_letters("in-order")] == [False] * 3
    assert bench.admin.resend_dead_letters("in-order", to_topic=True).count == 3
    assert len(bench.messages("ordered")) == 5


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

"""A broker that is killed while it delivers delayed messages, again and again on one store."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.clock import SystemClock
from rmqspark.errors import RmqError
from rmqspark.model import Message

from .servers import UpProcess, broker_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.faults]

KILLS = 5
DELIVERED_BEFORE_A_KILL = 150
LEVELS = ("--message-delay-level", "1s 2s")


def later(number: int, now_ms: int) -> Message:
    """By both levels, and by a time."""
    body, way = b"%d" % number, number % 3
    if way:
        return Message("orders", body, delay_level=way)
    return Message("orders", body, deliver_time_ms=now_ms + 1000 + number % 1000)


class Sender(Thread):
    """Sends numbers to be delivered later, one after the other, until the broker is gone; nothing twice."""

    def __init__(self, namesrv: str, first: int) -> None:
        super().__init__(daemon=True)
        self._namesrv = namesrv
        self.next = first
        self.acknowledged: set[bytes] = set()

    def run(self) -> None:
        clock = SystemClock()
        config = SendConfig(retry_times_when_send_failed=0, send_msg_timeout=10_000)
        with suppress(RmqError), Producer(self._namesrv, config=config) as producer:
            while True:
                message = later(self.next, clock.now_ms())
                self.next += 1
                producer.send(message, queue=0)
                self.acknowledged.add(message.body)


def wait_until(holds: Callable[[], bool]) -> None:
    clock = SystemClock()
    while not holds():
        clock.sleep_ms(10)


def delivered(up: UpProcess) -> int:
    with ClusterClient(up.namesrv, timeout_ms=60_000) as cluster:
        return broker_of(cluster).max_offset("orders", 0)


def all_bodies(up: UpProcess) -> list[bytes]:
    with PullConsumer(up.namesrv) as consumer:
        (queue,) = consumer.queues("orders")
        consumer.assign([queue])
        end, found = consumer.max_offset(queue), []
        while consumer.position(queue) < end:
            found += [message.body for message in consumer.poll(1000)]
    return found


@pytest.mark.slow_first
def test_kills_lose_and_double_no_delayed_message(tmp_path: Path) -> None:
    """What was acknowledged comes once, whatever dies meanwhile; what was not may have been stored, and comes once."""
    acknowledged: set[bytes] = set()
    sent = 0
    with UpProcess(tmp_path) as up:
        up.start(*LEVELS)
        up.create_topic("orders", 1)
        for _ in range(KILLS):
            before = delivered(up)
            sender = Sender(up.namesrv, sent)
            sender.start()
            wait_until(lambda sent=sender.acknowledged: bool(sent))  # what is delivered may have waited from before
            wait_until(lambda before=before: delivered(up) >= before + DELIVERED_BEFORE_A_KILL)
            up.kill()
            sender.join()
            sent = sender.next
            acknowledged |= sender.acknowledged
            up.start(*LEVELS)
        wait_until(lambda: delivered(up) >= len(acknowledged))
        wait_until(lambda: acknowledged <= set(all_bodies(up)))
        counted = Counter(all_bodies(up))
    assert set(counted.values()) == {1}
    assert len(counted) <= len(acknowledged) + KILLS

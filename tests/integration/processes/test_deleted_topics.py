"""A topic deleted under load, and its broker killed as soon as it has said so: the topic does not come back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.broker_admin import BrokerAdmin
from rmqspark.client.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.errors import RmqError
from rmqspark.model import Message

from .load import ONE_TRY
from .servers import UpProcess, broker_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqspark.client.broker_client import BrokerClient

pytestmark = [pytest.mark.integration, pytest.mark.faults]
KILLS, KILLS_OF_A_SOAK = 6, 100
MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")
QUEUES = 4
_MOST_BEFORE = 600  # acknowledged messages of the topic, before it is deleted
_PATIENCE_S = 60


class Sends:
    """Topics that messages are sent to, each until it is deleted or the broker dies."""

    def __init__(self, namesrv: str, topics: tuple[str, ...]) -> None:
        self._namesrv = namesrv
        self._topics = topics
        self._threads = ThreadPoolExecutor(len(topics))
        self._acknowledged = dict.fromkeys(topics, 0)
        self._more = threading.Condition()
        self._ended = threading.Event()

    def __enter__(self) -> Sends:
        self._running = [self._threads.submit(self._send, topic) for topic in self._topics]
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._threads.shutdown()
        for sending in self._running:
            sending.result()

    def wait_for(self, count: int) -> None:
        """Returns when so many of each topic have been acknowledged."""
        with self._more:
            reached = self._more.wait_for(lambda: min(self._acknowledged.values()) >= count, _PATIENCE_S)
        assert reached, self._acknowledged

    def _send(self, topic: str) -> None:
        """Many at once, so that the broker always has something to flush."""
        with Producer(self._namesrv, config=ONE_TRY) as producer:
            while not self._ended.is_set():
                try:
                    sent = [producer.send_async(Message(topic, b"old")) for _ in range(32)]
                    for receipt in sent:
                        receipt.result(_PATIENCE_S)
                except RmqError:  # it is gone: the topic, or the broker
                    return
                with self._more:
                    self._acknowledged[topic] += len(sent)
                    self._more.notify_all()


@pytest.mark.timeout(3600)
def test_a_deletion_that_was_acknowledged_outlives_a_kill(
    tmp_path: Path, amount: Callable[..., int], seed: int, tell: Callable[[str], None]
) -> None:
    """Messages go to two topics, one is deleted, SIGKILL right after the answer: the next topic of its name is empty,
    and so are those of all the rounds before."""
    rng, rounds = Random(seed), amount(KILLS, KILLS_OF_A_SOAK, by=0.2)
    with UpProcess(tmp_path) as server:
        for number in range(rounds):
            start(server, MODES[number % 2])
            kept, gone = f"kept-{number}", f"gone-{number}"
            for topic in (kept, gone):
                server.create_topic(topic, QUEUES)
            with Sends(server.namesrv, (kept, gone)) as sends, ClusterClient(server.namesrv) as cluster:
                admin = BrokerAdmin(broker_of(cluster))
                sends.wait_for(rng.randint(1, _MOST_BEFORE))
                admin.delete_topic(gone)
                server.kill()
            start(server, MODES[number % 2])
            server.create_topic(gone, QUEUES)
            with ClusterClient(server.namesrv) as cluster:
                broker = broker_of(cluster)
                assert max(ends(broker, kept)) > 0
                for before in range(number + 1):
                    assert ends(broker, f"gone-{before}") == [0] * QUEUES, (number, before)
            server.kill()
    tell(f"--randomly-seed={seed}: {rounds} topics deleted")


def start(server: UpProcess, mode: str) -> None:
    server.start("--flush-disk-type", mode, "--min-free-bytes", "1", "--auto-create-topic-enable", "false")


def ends(broker: BrokerClient, topic: str) -> list[int]:
    """One past the last message of each queue."""
    return [broker.max_offset(topic, queue_id) for queue_id in range(QUEUES)]

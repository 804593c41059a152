"""Topics are deleted, and their broker is killed as soon as it has said so, or before it can: neither they nor what was
known of them come back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import RmqError
from rmqspark.model import Message, MessageQueue

from .load import ONE_TRY
from .servers import BROKER, UpProcess, broker_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqspark.client.cluster.broker_client import BrokerClient

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


@pytest.mark.slow_first
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


def test_a_group_reads_a_topic_made_anew_from_its_beginning(tmp_path: Path) -> None:
    """Of a topic that is deleted, and made anew by sends, before the broker can write its tables: SIGKILL, and the
    next start takes nothing that they say of the one before for true of this one."""
    old, new = 8, 12
    queue = MessageQueue("orders", BROKER, 0)
    with UpProcess(tmp_path) as server:
        server.start("--auto-create-topic-enable", "true", "--min-free-bytes", "1")
        server.create_topic("orders", 1)
        with Producer(server.namesrv, config=ONE_TRY) as producer, ClusterClient(server.namesrv) as cluster:
            broker = broker_of(cluster)
            for number in range(old):
                producer.send(Message("orders", b"old%d" % number), queue=queue)
            broker.pull(queue, 0, group="g")
            broker.commit_offset("g", "orders", 0, old)
            server.create_topic("another", 1)  # which has all tables written
            in_the_way = server.broker_files / "config" / "consumerOffset.json.tmp"
            in_the_way.mkdir()
            with pytest.raises(RmqError, match=r"consumerOffset\.json cannot be written"):
                BrokerAdmin(broker).delete_topic("orders")
            acknowledged = list(send_until_acknowledged(producer, queue, new))
            server.kill()
        in_the_way.rmdir()
        server.start("--min-free-bytes", "1")
        with ClusterClient(server.namesrv) as cluster:
            assert broker_of(cluster).query_offset("g", "orders", 0) in (None, 0)
        with PullConsumer(server.namesrv, "g") as consumer:
            consumer.assign([queue])
            read: list[bytes] = []
            while len(read) < len(acknowledged):
                read += [received.body for received in consumer.poll(_PATIENCE_S * 1000)]
    assert set(acknowledged) <= set(read)


def send_until_acknowledged(producer: Producer, queue: MessageQueue, count: int) -> Iterator[bytes]:
    """So many bodies that were. Who makes a topic is told that its table cannot be written; who sends to it then is
    not concerned."""
    acknowledged = 0
    for number in range(100):
        body = b"new%d" % number
        with suppress(RmqError):
            producer.send(Message(queue.topic, body), queue=queue)
            acknowledged += 1
            yield body
        if acknowledged == count:
            return
    raise AssertionError(f"{acknowledged} of {number} were acknowledged")


def start(server: UpProcess, mode: str) -> None:
    server.start("--flush-disk-type", mode, "--min-free-bytes", "1", "--auto-create-topic-enable", "false")


def ends(broker: BrokerClient, topic: str) -> list[int]:
    """One past the last message of each queue."""
    return [broker.max_offset(topic, queue_id) for queue_id in range(QUEUES)]

"""A push consumer that is killed: whoever comes next consumes again what was begun, and leaves out nothing."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.broker.config import BrokerConfig
from rmqspark.clock import SystemClock
from rmqspark.testing import cluster

from .load import ONE_TRY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqspark.testing import LocalCluster

pytestmark = [pytest.mark.faults, pytest.mark.integration]

QUEUES = 4
FORGETFUL = BrokerConfig(consume_group_lock_live_time=500)  # locks of who was killed end after so long, not a minute
CONSUMER = """
import os, sys
from rmqspark import PushConsumer
from rmqspark.client.pushing.config import PushConfig

namesrv, path, ordered = sys.argv[1:]
out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
often = PushConfig(persist_consumer_offset_interval=20)

def consume(message):
    os.write(out, f"{message.queue.queue_id} {message.queue_offset}\\n".encode())

with PushConsumer(namesrv, "killed", listener=consume, ordered=ordered == "True", config=often) as consumer:
    consumer.subscribe("orders")
    print("ready", flush=True)
    sys.stdin.read()
"""


class Victim:
    """A process that consumes, and writes down what it has consumed, one message a line."""

    def __init__(self, mq: LocalCluster, path: Path, ordered: bool) -> None:
        command = [sys.executable, "-c", CONSUMER, mq.namesrv, str(path), str(ordered)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        """Again: does nothing."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()

    def stop(self) -> None:
        """Closes its consumer."""
        self._process.communicate()


def consumed(path: Path) -> Counter[tuple[int, int]]:
    """Queue ids and offsets; what the last kill cut off is none."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return Counter((int(queue), int(offset)) for queue, offset in map(str.split, lines))


def wait_until(holds: Callable[[], bool]) -> None:
    clock = SystemClock()
    while not holds():
        clock.sleep_ms(10)


def committed(mq: LocalCluster) -> dict[int, int]:
    with PullConsumer(mq.namesrv, "killed") as consumer:
        return {queue.queue_id: consumer.committed(queue) or 0 for queue in consumer.queues("orders")}


@pytest.mark.parametrize("ordered", [False, True])
def test_kills_lose_nothing(tmp_path: Path, ordered: bool, seed: int, amount, tell) -> None:
    """At every kill all that is committed is consumed; in the end everything is, and only what a consumer had begun
    with, or not committed yet, twice."""
    random, kills, sent = Random(seed), amount(4, 40), 0
    path = tmp_path / "consumed"
    with cluster(brokers=1, broker_config=FORGETFUL) as mq, ExitStack() as ends:
        producer = ends.enter_context(Producer(mq.namesrv, config=ONE_TRY))  # nothing is sent twice
        with AdminClient(mq.namesrv) as admin:
            admin.create_topic("orders", queues=QUEUES)

        def begun() -> Victim:
            victim = Victim(mq, path, ordered)
            ends.callback(victim.kill)
            victim.wait_until_ready()
            return victim

        begun().kill()  # the group is there, and begins where it was
        for _ in range(kills):
            victim = begun()
            first = sum(consumed(path).values())
            for _ in range(100):
                batch = [Message("orders", b"%d" % n) for n in range(random.randrange(1, 20))]
                producer.send_batch(batch, queue=random.randrange(QUEUES))
                sent += len(batch)
            enough = min(first + random.randrange(1, 400), sent)
            wait_until(lambda enough=enough: sum(consumed(path).values()) >= enough)
            victim.kill()
            done = consumed(path)
            lost = [(queue, at) for queue, end in committed(mq).items() for at in range(end) if not done[queue, at]]
            assert lost == []
        last = begun()
        wait_until(lambda: sum(committed(mq).values()) == sent)  # what was consumed before the last kill, once more
        last.stop()
        done = consumed(path)
        assert len(done) == sent
        assert max(done.values()) <= kills + 2
    tell(f"{kills} kills, {sent} messages, {sum(done.values()) - sent} consumed again, ordered: {ordered}, seed {seed}")

"""`rmq up --brokers N`: a process for each broker, looked after by the one that started them."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.clock import SystemClock
from rmqspark.errors import RmqError
from rmqspark.testing.ports import reserved_port

from .conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.model import SendReceipt

pytestmark = pytest.mark.integration
PATIENCE_MS = 60_000


def runs(pid: int) -> bool:
    """Whether there is such a process. One that has ended counts no more, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends between opening and reading
        return False


def logged(errors: str, event: str) -> list[dict[str, Any]]:
    """The lines of a JSON log that tell of an event."""
    lines = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def bodies(namesrv: str, topic: str) -> Counter[bytes]:
    with PullConsumer(namesrv) as consumer:
        queues = consumer.queues(topic)
        ends = {queue: consumer.max_offset(queue) for queue in queues}
        consumer.assign(queues)
        consumer.seek_to_beginning()
        found: Counter[bytes] = Counter()
        while any(consumer.position(queue) < end for queue, end in ends.items()):
            found.update(message.body for message in consumer.poll(1_000))
    return found


@pytest.fixture
def base() -> Iterator[int]:
    """A port for the first of two brokers. It is theirs, as is what lies beside it, also while one of them is away."""
    with reserved_port(-2, 8, 10) as port:
        yield port


def test_each_broker_is_a_process_with_the_same_settings(processes: Any, tmp_path: Path) -> None:
    """endpoints.json and the output name every broker; settings reach all of them; Ctrl-C ends all in order."""
    (tmp_path / "rmq.toml").write_text("broker_name = 'mine'\nfile_reserved_time = 7\n")
    server = processes.up("--brokers", "3", "-c", "rmq.toml", "--flush-disk-type", "SYNC_FLUSH")
    endpoints = server.endpoints
    names = ["broker-a", "broker-b", "broker-c"]
    with AdminClient(server.namesrv) as admin:
        found = {broker.name: broker.addresses[0] for broker in admin.brokers()}
        assert found == dict(zip(names, endpoints["brokers"], strict=True))
        for name in names:
            told = admin.broker_config(name)
            assert (told["flushDiskType"], told["fileReservedTime"]) == ("SYNC_FLUSH", "7")
            assert told["minFreeBytes"] == str(2 << 30)
        admin.create_topic("spread", queues=2)
        assert [queue.broker_name for queue in admin.queues("spread")] == [name for name in names for _ in range(2)]
    pids = endpoints["pids"]["brokers"]
    assert endpoints["pids"]["namesrv"] == server.process.pid
    assert len({server.process.pid, *pids}) == 4
    for name, address, pid in zip(names, endpoints["brokers"], pids, strict=True):
        assert f"{address}  ({name}, process {pid}, files in store/{name})" in server.greeting
    assert "brokerName of rmq.toml is left aside: the brokers are broker-a to broker-c." in processes.errors
    with Producer(server.namesrv) as producer:
        assert len({producer.send(Message("spread", b"x")).queue for _ in range(6)}) == 6
    assert server.end(signal.SIGINT) == 0
    assert sorted(os.listdir(tmp_path / "store")) == names
    assert not any(map(runs, pids))
    assert not list((tmp_path / "store").glob("*/abort"))
    assert "Traceback" not in processes.errors


def test_ports_are_ten_apart(processes: Any, base: int) -> None:
    """The first broker has --broker-port, each further one ten more."""
    server = processes.up("--brokers", "2", "--broker-port", str(base))
    assert server.endpoints["brokers"] == [f"127.0.0.1:{base}", f"127.0.0.1:{base + 10}"]
    refused = processes.run("up", "--brokers", "3", "--broker-port", "65520", "--store", "other")
    assert (refused.code, "no room for 3 brokers, ten ports apart" in refused.err) == (2, True)


def test_they_end_with_the_process_that_started_them(processes: Any, tmp_path: Path) -> None:
    """Also where that was killed: brokers without their parent flush, close their stores and go."""
    server = processes.up("--brokers", "2")
    pids = server.endpoints["pids"]["brokers"]
    with Producer(server.namesrv) as producer:
        producer.send(Message("kept", b"x"))
    server.end(signal.SIGKILL)
    wait_until(lambda: not any(map(runs, pids)), "the brokers have ended")
    assert not list((tmp_path / "store").glob("*/abort"))
    again = processes.up("--brokers", "2")
    assert bodies(again.namesrv, "kept") == {b"x": 1}


class Load:
    """Threads that send without pause and note what was acknowledged; every send that fails is noted too."""

    def __init__(self, namesrv: str, topic: str, clock: SystemClock) -> None:
        self.acknowledged: list[tuple[bytes, SendReceipt]] = []
        self.failures: list[RmqError] = []
        self.tried: set[bytes] = set()
        self._stopping = threading.Event()
        self._producer = Producer(namesrv, clock=clock, config=SendConfig(send_msg_timeout=PATIENCE_MS))
        self._threads = [threading.Thread(target=self._send, args=(topic, number)) for number in range(4)]
        for thread in self._threads:
            thread.start()

    def _send(self, topic: str, thread: int) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            body = b"%d-%d" % (thread, number)
            self.tried.add(body)
            try:
                self.acknowledged.append((body, self._producer.send(Message(topic, body))))
            except RmqError as error:
                self.failures.append(error)

    def counts(self) -> Counter[str]:
        """How many messages each broker has acknowledged."""
        return Counter(receipt.queue.broker_name for _, receipt in self.acknowledged.copy())

    def wait_for_more(self, broker: str, count: int = 200) -> None:
        """Until the broker has acknowledged so many more."""
        wanted = self.counts()[broker] + count
        wait_until(lambda: self.counts()[broker] >= wanted, f"{broker} gets messages")

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._producer.close()


class ClockAhead(SystemClock):
    """The system's, which a test can put forward, so that nobody has to wait for ten seconds to be over."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


@pytest.mark.faults
def test_sending_goes_on_while_one_of_two_brokers_dies_and_comes_back(processes: Any, base: int) -> None:
    """kill -9 under load: no send fails, nothing acknowledged is lost, and the broker gets messages again."""
    server = processes.up("--brokers", "2", "--broker-port", str(base))
    with AdminClient(server.namesrv) as admin:
        admin.create_topic("load", queues=2)
    clock = ClockAhead()
    load = Load(server.namesrv, "load", clock)
    try:
        before = server.endpoints
        for broker in ("broker-a", "broker-b"):
            load.wait_for_more(broker)
        os.kill(before["pids"]["brokers"][1], signal.SIGKILL)
        load.wait_for_more("broker-a")
        wait_until(lambda: server.endpoints["pids"]["brokers"][1] != before["pids"]["brokers"][1], "broker-b is back")
        assert server.endpoints["brokers"] == before["brokers"]
        clock.ahead_ms = 31_000  # longer than a broker is left alone, and than a route is believed
        load.wait_for_more("broker-b")
    finally:
        load.stop()
    assert load.failures == []
    stored = bodies(server.namesrv, "load")
    assert {body for body, _ in load.acknowledged} <= stored.keys() <= load.tried
    (ended,) = logged(processes.errors, "broker ended, starting it again")
    assert (ended["broker"], ended["reason"]) == ("broker-b", "was killed by SIGKILL")
    assert server.end(signal.SIGTERM) == 0


def test_a_broker_that_cannot_come_back_says_why_and_is_tried_again(processes: Any, tmp_path: Path, base: int) -> None:
    """The pauses grow and are told; when what was wrong is mended the broker is back by itself."""
    server = processes.up("--brokers", "2", "--broker-port", str(base))
    topics = tmp_path / "store" / "broker-b" / "config" / "topics.json"
    sound = topics.read_text()
    (tmp_path / "store" / "broker-b" / "config" / "topics.json.bak").write_text("{")
    topics.write_text("{")
    pid = server.endpoints["pids"]["brokers"][1]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(logged(processes.errors, "broker ended, starting it again")) >= 2, "a second try")
    first, second = logged(processes.errors, "broker ended, starting it again")[:2]
    assert second["in_ms"] == 2 * first["in_ms"]
    assert "config/topics.json cannot be read" in logged(processes.errors, "broker cannot start")[0]["reason"]
    topics.write_text(sound)
    wait_until(lambda: server.endpoints["pids"]["brokers"][1] != pid, "broker-b is back")
    with AdminClient(server.namesrv) as admin:
        assert {broker.name for broker in admin.brokers()} == {"broker-a", "broker-b"}
    assert server.end(signal.SIGINT) == 0


def test_a_first_start_that_fails_ends_them_all(processes: Any, base: int) -> None:
    """What keeps one broker from starting is named with the broker, and nothing is left running."""
    with socket.create_server(("127.0.0.1", base + 10)):
        words = ("up", "--brokers", "2", "--store", "store", "--namesrv-port", "0", "--broker-port", str(base))
        outcome = processes.run(*words)
    assert outcome.code == 1
    assert f"broker-b cannot start: Port {base + 10} on 127.0.0.1 is in use." in outcome.err
    assert "--broker-port" in outcome.err
    assert "Traceback" not in outcome.err
    assert not (processes.directory / "store" / "endpoints.json").exists()

"""A name server, a master and its slave, each a process of its own that can be killed and started again."""

from __future__ import annotations

import json
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.access import access_of_environment
from rmqspark.client.producer import Producer
from rmqspark.errors import InvalidQueue, NotWritable, TopicNotFound, Unreachable
from rmqspark.model import Message, SendStatus
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing.ports import reserved_port

from .load import ONE_TRY, QUEUES, Load
from .readers import scan
from .servers import BROKER, SMALL_FILES, _environment, _flags, warm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from rmqspark.testing.history import History
    from rmqspark.testing.history_checker import Checker

    from ..warm import Started

_READY = b"Ctrl-C stops it."
_PATIENCE_S = 60
_PORTS_BESIDE = (-2, 1)  # one for old clients, one for slaves
PROBES = "probes"
# Who is away is looked for often; a machine that is slow is no reason to give an answer up.
_QUICK = {
    "ha_send_heartbeat_interval": 200,
    "slave_sync_interval": 200,
    "slave_timeout": 60_000,
    "ha_send_whole_log": "true",
}


class ServerProcess:
    """One server, with the same words and the same environment each time."""

    def __init__(
        self, directory: Path, name: str, port: int, *words: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.store = directory / name
        self.address = f"127.0.0.1:{port}"
        self._errors = directory / f"{name}.errors"
        self._words = words
        self._environment = {**_environment(), **(environment or {})}
        self._process: Started | None = None

    def start(self) -> None:
        """It answers when this returns."""
        with self._errors.open("ab") as errors:
            self._process = warm().start(self._words, Path.cwd(), self._environment, errors)
        for line in self._process.stdout:
            if _READY in line:
                return
        raise AssertionError(f"It ended: {self.errors}")

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGKILL)
            self._process.wait(_PATIENCE_S)
            self._process.stdout.close()

    @property
    def end_offset(self) -> int:
        """Of its log."""
        return int(json.loads(self.ask(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]["commitLogMaxOffset"])

    def ask(self, code: RequestCode) -> bytes:
        """The body of its answer to a request without fields."""
        connection = BlockingConnection(self.address, access=access_of_environment())
        try:
            return bytes(connection.call(code, timeout_ms=60_000).raise_for_code().body)
        finally:
            connection.close()

    def log_up_to(self, end: int) -> bytes:
        """What its files say, from the first byte on."""
        files = sorted((self.store / "commitlog").iterdir())
        return b"".join(path.read_bytes() for path in files)[:end]


class Replicas:
    """All three; they run while the block does. `settings` are what both brokers are told besides, and `environment`
    what all three are."""

    def __init__(
        self, directory: Path, role: str, *, environment: Mapping[str, str] | None = None, **settings: object
    ) -> None:
        self._ports = ExitStack()
        namesrv_port = self._ports.enter_context(reserved_port())
        self.namesrv = f"127.0.0.1:{namesrv_port}"
        self._environment = environment
        words = ("namesrv", "--port", str(namesrv_port))
        self._namesrv = ServerProcess(directory, "namesrv", namesrv_port, *words, environment=environment)
        self._settings = {**SMALL_FILES, **_QUICK, "min_free_bytes": 1, **settings}
        self.master = self._broker(directory, "master", role, 0)
        self.slave = self._broker(directory, "slave", "SLAVE", 1)

    def _broker(self, directory: Path, name: str, role: str, broker_id: int) -> ServerProcess:
        port = self._ports.enter_context(reserved_port(*_PORTS_BESIDE))
        words = ("broker", "--port", str(port), "--store", str(directory / name), "--namesrv", self.namesrv)
        who = ("--name", BROKER, "--id", str(broker_id), "--broker-role", role)
        flags = _flags(self._settings)
        return ServerProcess(directory, name, port, *words, *who, *flags, environment=self._environment)

    def __enter__(self) -> Self:
        for server in (self._namesrv, self.master, self.slave):
            server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self.slave, self.master, self._namesrv):
            server.kill()
        self._ports.close()

    @property
    def is_alive(self) -> bool:
        """What a load asks: the master."""
        return self.master.is_alive

    def create_topic(self, topic: str, queues: int) -> None:
        """Returns when the slave has it too: it looks at its master's tables now and then."""
        with AdminClient(self.namesrv) as admin:
            admin.create_topic(topic, queues)
        wait_until(lambda: b'"%b"' % topic.encode() in self.slave.ask(RequestCode.GET_ALL_TOPIC_CONFIG), self._told)

    def wait_until_in_step(self) -> None:
        """The master waits for the slave from now on."""
        with Producer(self.namesrv, config=ONE_TRY) as producer:
            wait_until(lambda: producer.send(Message(PROBES, b"?")).status is SendStatus.OK, self._told)

    def wait_until_copied(self) -> int:
        """The slave has all; returns where the logs end."""
        wait_until(lambda: self.slave.end_offset == self.master.end_offset, self._told)
        return self.master.end_offset

    def _told(self) -> str:
        return f"master: {self.master.errors[-2000:]}\nslave: {self.slave.errors[-2000:]}"


# What a sender hears while a slave is registered alone: no queue can be sent to, or the slave itself refuses.
NO_MASTER = (Unreachable, TopicNotFound, InvalidQueue, NotWritable)


class Senders(Load):
    """The load of the other tests without who reads meanwhile: what the master shows and nobody was told of is not
    promised to be on its slave."""

    def __init__(self, history: History, replicas: Replicas, name: str, seed: int) -> None:
        super().__init__(history, replicas, name, seed, durable=False, expected=NO_MASTER)  # type: ignore[arg-type]

    def _tail(self, name: str) -> None:
        del name


def bring_back_master(replicas: Replicas, load: Senders, history: History, checker: Checker, reader: str) -> None:
    """The master was killed under this load: `reader` finds all that was acknowledged on its slave; then it is back."""
    scan(history, reader, replicas.namesrv, dict.fromkeys(QUEUES, 0))
    _check(checker)
    replicas.master.start()
    replicas.wait_until_in_step()
    load.settle(load.doubts)


def check_the_end(replicas: Replicas, history: History, checker: Checker) -> int:
    """Both have the same log, and all that was acknowledged is in it; returns where the logs end."""
    end = replicas.wait_until_copied()
    scan(history, "master", replicas.namesrv, dict.fromkeys(QUEUES, 0))
    checker.finish()
    _check(checker)
    assert replicas.slave.log_up_to(end) == replicas.master.log_up_to(end)
    return end


def _check(checker: Checker) -> None:
    assert not checker.violations, "\n".join(map(str, checker.violations[:20]))


def wait_until(holds: Callable[[], bool], told: Callable[[], str]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)

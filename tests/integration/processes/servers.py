"""`rmq up` in a process of its own, on one store, to be killed and started again."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rmqspark
from rmqspark.client.admin import AdminClient
from rmqspark.client.cluster.cluster_client import ClusterClient

from ..warm import LIBRARIES, Warm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    from rmqspark.client.cluster.broker_client import BrokerClient

    from ..warm import Started
COMMAND = (sys.executable, "-m", "rmqspark")
BROKER = "broker-a"
# Files so small that every few rounds of load fill one of each kind.
SMALL_FILES = {
    "mapped_file_size_commit_log": 4 << 20,
    "mapped_file_size_consume_queue": 3000 * 20,
    "max_hash_slot_num": 5000,
    "max_index_num": 20_000,
}
# A disk that stalls is no failure: nobody here is to be told that a flush took too long.
_PATIENT = ("--sync-flush-timeout", "60000")
_READY = b"Ctrl-C stops it."
_PATIENCE_S = 60
_SERVERS = ("rmqspark.broker.broker", "rmqspark.cli.servers", "rmqspark.cli.verbs", "rmqspark.namesrv.server")


@cache
def warm() -> Warm:
    """With all that servers import: it is the same in each of their lives."""
    made = Warm(_environment(), timeout_s=_PATIENCE_S, modules=(*LIBRARIES, *_SERVERS))
    atexit.register(made.close)
    return made


class UpProcess:
    """A name server and a broker, always on the same store; a context manager that leaves no process behind.

    `around` is a command that runs the server, as `strace -f -o FILE` does.
    """

    def __init__(self, directory: Path, around: Sequence[str] = (), *, store: Path | None = None) -> None:
        self.directory = directory
        self.store = store or directory / "store"
        self.broker_files = self.store / BROKER
        self._around = tuple(around)
        self._process: subprocess.Popen[bytes] | Started | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def launch(self, *words: str) -> subprocess.Popen[bytes] | Started:
        """Starts it and does not wait: it may be killed while it recovers."""
        ports = ("--namesrv-port", "0", "--broker-port", "0", "--no-admin")
        words = ("up", "--store", str(self.store), *ports, *_flags(SMALL_FILES), *_PATIENT, *words)
        with (self.directory / "errors").open("ab") as errors:
            if not self._around:
                self._process = warm().start(words, Path.cwd(), _environment(), errors)
            else:
                self._process = subprocess.Popen(
                    [*self._around, *COMMAND, *words],
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=_environment(),
                    start_new_session=True,
                )
        return self._process

    def start(self, *words: str) -> None:
        """Starts it with these words; it answers when this returns."""
        process = self.launch(*words)
        assert process.stdout is not None
        for line in process.stdout:
            if _READY in line:
                return
        raise AssertionError(f"It ended with {self._reap()}: {self.errors}")

    @property
    def process(self) -> subprocess.Popen[bytes] | Started:
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def errors(self) -> str:
        """What it has written to standard error, in all its lives."""
        return (self.directory / "errors").read_text()

    @property
    def endpoints(self) -> dict[str, Any]:
        return json.loads((self.store / "endpoints.json").read_text())

    @property
    def namesrv(self) -> str:
        return self.endpoints["namesrv"]

    def kill(self) -> None:
        """SIGKILL, to it and to what runs around it."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._reap()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The process does nothing while the block runs."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            wait_until_stopped(self.process.pid)
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM to the server; the exit code."""
        os.kill(self.endpoints["pids"]["brokers"][0], signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        if self._process is None:
            return 0
        code = self._process.wait(_PATIENCE_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def create_topic(self, topic: str, queues: int) -> None:
        with AdminClient(self.namesrv) as admin:
            admin.create_topic(topic, queues)

    @property
    def incarnation(self) -> int:
        """The incarnation of its store."""
        with ClusterClient(self.namesrv, timeout_ms=60_000) as cluster:
            return broker_of(cluster).capabilities().incarnation


def wait_until_stopped(pid: int) -> None:
    """Returns when a process that was sent SIGSTOP stands still, with all its threads."""
    deadline = time.monotonic() + _PATIENCE_S
    while not all(_stands_still(thread) for thread in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < deadline, f"{pid} goes on"
        time.sleep(0.001)


def _stands_still(thread: Path) -> bool:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:  # it has ended
        return True


def broker_of(cluster: ClusterClient) -> BrokerClient:
    """The broker of an `UpProcess`."""
    return cluster.broker(BROKER)


def _flags(settings: Mapping[str, object]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def _environment() -> dict[str, str]:
    """Ours without what would change the outcome; the package is the one under test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RMQ_", "NAMESRV_"))}
    return {**kept, "PYTHONPATH": str(Path(rmqspark.__file__).parents[1])}

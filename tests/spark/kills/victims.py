"""Processes that are there to be killed: brokers on stores that stay, and a Spark driver with all that belongs to it.

What is to die inside a step of the protocol is started with a fault point that stops it there ($RMQ_FAULT_POINTS):
a stopped process shows in /proc, so a kill is known to have met that step and no other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import rmqspark
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import RmqError
from rmqspark.testing.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

COMMAND = (sys.executable, "-m", "rmqspark")
_PATIENCE_S = 600


def wait_for(met: Callable[[], bool], what: str, process: Process | None = None) -> None:
    """Looks again and again; if it does not happen, the failure quotes what the process has said."""
    deadline = time.monotonic() + _PATIENCE_S
    while not met():
        said = process.output if process is not None else ""
        assert time.monotonic() < deadline, f"in {_PATIENCE_S} s it did not happen that {what}: {said}"
        time.sleep(0.05)


class Process:
    """One process and everything it starts: its session. `points` is what its $RMQ_FAULT_POINTS says."""

    def __init__(self, words: list[str], log: Path, points: str = "") -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("RMQ_", "NAMESRV_"))}
        environment |= {"PYTHONPATH": str(Path(rmqspark.__file__).parents[1]), "PYSPARK_PYTHON": sys.executable,
                        "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
                        "RMQ_FAULT_POINTS": points}  # fmt: skip
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                words, stdout=output, stderr=output, env=environment, start_new_session=True
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """The end of what it and its predecessors have written."""
        return self._log.read_text(errors="replace")[-6000:]

    def members(self) -> dict[int, tuple[str, int]]:
        """State and parent of each process of the session, by pid."""
        return {pid: (state, parent) for pid, session, state, parent in processes() if session == self._process.pid}

    def stopped(self) -> list[int]:
        """Those that stand still at a fault point, or because they were told to."""
        return [pid for pid, (state, _) in self.members().items() if state == "T"]

    def signal(self, number: int) -> None:
        for pid in self.members():
            signal_process(pid, number)

    def kill(self) -> None:
        """SIGKILL to all of them, until there is none."""
        while self.members():
            self.signal(signal.SIGKILL)
            time.sleep(0.005)
        self._process.wait()


def processes() -> Iterator[tuple[int, int, str, int]]:
    """Pid, session, state and parent of all processes that live."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:  # quick: it is read for all of them all the time
                state, parent, _, session, _ = stat.read().rpartition(b")")[2].split(None, 4)
        except OSError:  # it has ended meanwhile
            continue
        if state != b"Z":
            yield int(pid), int(session), state.decode(), int(parent)


def signal_process(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


class Brokers:
    """A name server and brokers, each a process, each on its own store and its own port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, Process] = {}
        self._kept = ExitStack()  # their ports, while they are away
        self._ports: dict[str, int] = {}
        self._log = directory / "servers.log"
        self._name_server = Process([*COMMAND, "namesrv", "--port", "0"], directory / "namesrv.log")
        wait_for(lambda: "Name server at" in self._name_server.output, "the name server answers")
        self.namesrv = self._name_server.output.split("Name server at ")[1].split(". ")[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._kept:
            for process in (*self.running.values(), self._name_server):
                process.kill()

    def start(self, name: str, points: str = "") -> None:
        """Starts a broker, or starts it again; it answers when this returns, unless it stopped before."""
        if name not in self._ports:
            self._ports[name] = self._kept.enter_context(reserved_port(-2))
        words = [*COMMAND, "broker", "--name", name, "--port", str(self._ports[name]), "--namesrv", self.namesrv,
                 "--store", str(self.directory / name), "--mapped-file-size-commit-log", str(64 << 20),
                 "--max-hash-slot-num", "5000", "--max-index-num", "20000", "--min-free-bytes", "1"]  # fmt: skip
        self.running[name] = process = Process(words, self._log, points)
        wait_for(lambda: bool(process.stopped()) or self._answers(name), f"{name} answers", process)

    def kill(self, name: str) -> None:
        self.running.pop(name).kill()

    def _answers(self, name: str) -> bool:
        try:
            with ClusterClient(self.namesrv) as client:
                client.broker(name).capabilities()
        except RmqError:
            return False
        return True


class CopyDriver:
    """The driver of `copy_query.py` on a checkpoint that stays."""

    def __init__(
        self, directory: Path, namesrv: str, transactional_id: str, messages: int, *, log: str = "driver.log"
    ) -> None:
        self.checkpoint = directory / "checkpoint"
        self._log = directory / log
        self._words = [sys.executable, str(Path(__file__).with_name("copy_query.py")), namesrv, str(self.checkpoint)]
        self._words += ["source", "target", transactional_id, str(messages)]

    def start(self, points: str = "") -> Process:
        return Process(self._words, self._log, points)

    @property
    def batches(self) -> tuple[int, int]:
        """The newest batch that was planned and the newest that is done; -1 for none."""
        return _newest(self.checkpoint / "offsets"), _newest(self.checkpoint / "commits")

    @property
    def is_in_a_batch(self) -> bool:
        planned, done = self.batches
        return planned > done


def workers(driver: Process) -> list[int]:
    """The Python workers of Spark's tasks: what their daemon has forked."""
    members = driver.members()
    return [pid for pid, (_, parent) in members.items() if does_tasks(pid) and does_tasks(parent)]


def does_tasks(pid: int) -> bool:
    """Whether it is a Python worker of tasks, or their daemon, and not one that commits."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"pyspark.daemon" in words and b"pyspark.worker" in words


def _newest(log: Path) -> int:
    return max((int(file.name) for file in log.glob("[0-9]*") if file.name.isdigit()), default=-1)

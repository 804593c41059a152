"""The command line as people have it: processes of their own, against a cluster in this one or against `rmq up`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

import rmqspark
from rmqspark.clock import SystemClock
from rmqspark.testing.rmq import Rmq

from ..warm import LIBRARIES, Warm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqspark.testing import LocalCluster

COMMAND = [sys.executable, "-m", "rmqspark"]
FREE_PORTS = ("--namesrv-port", "0", "--broker-port", "0", "--no-admin")
TIMEOUT_S = 120
_OFTEN_IMPORTED = ("rmqspark.client.admin",)  # by most verbs, and nothing in it looks around when it is imported
_numbers = count()


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Ours, without what would change the outcome, and these; the package is the one under test."""
    changing = ("RMQ_", "NAMESRV_", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(changing)}
    package = str(Path(rmqspark.__file__).parents[1])
    paths = (variables.get("PYTHONPATH"), package, os.environ.get("PYTHONPATH"))
    apart = {"COLUMNS": "100", "XDG_CONFIG_HOME": "/nonexistent"}
    return {**kept, **apart, **variables, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def wait_until(condition: Callable[[], Any], what: str) -> None:
    """Looks again and again; what did not happen in time stands in the failure."""
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + 1_000 * TIMEOUT_S
    while not condition():
        assert clock.monotonic_ms() < deadline_ms, f"not within {TIMEOUT_S} s: {what}"
        clock.sleep_ms(10)


@dataclass(frozen=True)
class Outcome:
    """How a run of `rmq` ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        """What it printed, as one document."""
        return json.loads(self.out)

    @property
    def objects(self) -> list[Any]:
        """What it printed, one object a line."""
        return [json.loads(line) for line in self.lines]


class Processes:
    """`rmq` in processes of its own; those that still run when the test is over are killed."""

    def __init__(self, directory: Path, warm: Warm) -> None:
        self.directory = directory
        self._warm = warm
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def errors(self) -> str:
        """What those started have written to standard error."""
        return (self.directory / "errors").read_text()

    def run(self, *words: str, stdin: bytes = b"", output: Path | None = None, **variables: str) -> Outcome:
        """Runs `rmq` with these words, input and environment to its end; what it prints may go to a file."""
        with nullcontext() if output is None else output.open("wb") as stdout:
            code, out, err = self._end_of(words, variables, stdin, stdout)
        return Outcome(code, out.decode(), err.decode())

    def _end_of(
        self, words: Sequence[str], variables: dict[str, str], stdin: bytes, stdout: IO[bytes] | None
    ) -> tuple[int, bytes, bytes]:
        """A run by a warm interpreter, unless the environment has something that may be for interpreters."""
        if all(name.startswith(("RMQ_", "NAMESRV_", "XDG_")) for name in variables):
            return self._warm.run(words, self.directory, environment(variables), stdin, stdout)
        done = subprocess.run(
            [*COMMAND, *words],
            input=stdin,
            stdout=stdout or subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
            check=False,
            cwd=self.directory,
            env=environment(variables),
        )
        return done.returncode, done.stdout or b"", done.stderr

    def start(self, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        """Starts `rmq` with these words; its standard output is a pipe, its errors are in the file `errors`."""
        with (self.directory / "errors").open("ab") as errors:
            process = subprocess.Popen(
                [*COMMAND, *words],
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.directory,
                env=environment(variables),
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def serve(self, *words: str, **variables: str) -> Server:
        """Starts one of the server verbs; it answers when this returns."""
        return Server(self.start(*words, **variables), self)

    def up(self, *words: str, **variables: str) -> Server:
        """`rmq up` on free ports with its files in `store`, and with these words."""
        return self.serve("up", "--store", "store", *FREE_PORTS, *words, **variables)

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait(TIMEOUT_S)
            assert process.stdout is not None
            process.stdout.close()


class Server:
    """A server verb that runs and answers."""

    def __init__(self, process: subprocess.Popen[bytes], among: Processes) -> None:
        self.process = process
        self._directory = among.directory
        assert process.stdout is not None
        self.greeting = ""
        for line in process.stdout:
            self.greeting += line.decode()
            if "Ctrl-C stops it." in self.greeting:
                return
        raise AssertionError(f"It ended with {process.wait(TIMEOUT_S)}: {among.errors}")

    @property
    def endpoints(self) -> dict[str, Any]:
        return json.loads((self._directory / "store" / "endpoints.json").read_text())

    @property
    def namesrv(self) -> str:
        return self.endpoints["namesrv"]

    def end(self, signal_number: int) -> int:
        """Sends the signal; the exit code once the process is gone."""
        self.process.send_signal(signal_number)
        return self.process.wait(TIMEOUT_S)


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    with closing(Warm(environment({}), timeout_s=TIMEOUT_S, modules=(*LIBRARIES, *_OFTEN_IMPORTED))) as running:
        yield running


@pytest.fixture
def processes(tmp_path: Path, warm: Warm) -> Iterator[Processes]:
    """Runs and starts `rmq` in `tmp_path`; no cluster is named to it."""
    running = Processes(tmp_path, warm)
    yield running
    running.close()


@pytest.fixture(scope="module")
def rmq(mq: LocalCluster) -> Iterator[Rmq]:
    """What tests look at the cluster with."""
    with Rmq(mq) as connected:
        yield connected


@pytest.fixture
def cli(processes: Processes, mq: LocalCluster) -> Callable[..., Outcome]:
    """Runs `rmq` against the module's cluster."""
    return partial(processes.run, RMQ_NAMESRV=mq.namesrv)


@pytest.fixture
def ok(cli: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """The same, and it must go well."""

    def run_well(*words: str, **options: Any) -> Outcome:
        outcome = cli(*words, **options)
        assert outcome.code == 0, outcome.err
        return outcome

    return run_well


@pytest.fixture
def topic(rmq: Rmq) -> str:
    """The name of a new topic with four queues."""
    name = f"topic-{next(_numbers)}"
    rmq.create_topic(name, queues=4)
    return name

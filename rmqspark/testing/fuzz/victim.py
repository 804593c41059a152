"""A name server and a broker in a process of their own, and what can be said of them from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from rmqspark.clock import SystemClock
from rmqspark.errors import RequestTimeout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

PATIENCE_MS: Final = 300_000
_LOOK_AGAIN_MS: Final = 10
_SCHEDULED_TIME: Final = 2  # CPUCLOCK_SCHED of the Linux kernel
_SMALL: Final = ("--max-topic-nums", "300", "--max-group-nums", "200", "--mapped-file-size-commit-log", str(256 << 20))


class Victim:
    """`rmq up` on free ports with its files in `directory`; up while the block runs, killed at its end.

    `under` are the words of a command that runs it, and becomes it.
    """

    def __init__(self, directory: Path, *flags: str, under: Sequence[str] = ()) -> None:
        self.directory = directory
        self.namesrv = ""
        self.broker = ""
        self._flags = (*_SMALL, *flags)
        self._under = under
        self._log = directory / "log"

    def __enter__(self) -> Self:
        self.directory.mkdir(exist_ok=True)
        self._endpoints.unlink(missing_ok=True)  # one that was killed has left its own
        words = ["up", "--store", str(self.store), "--namesrv-port", "0", "--broker-port", "0"]
        words += ["--no-admin", *self._flags]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                [*self._under, sys.executable, "-m", "rmqspark", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith(("RMQ_", "NAMESRV_"))},
                start_new_session=True,
            )
        try:
            self._wait_until_up()
        except BaseException:  # Ctrl-C too: no broker is left behind, and it rises
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def store(self) -> Path:
        return self.directory / "store"

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def _endpoints(self) -> Path:
        return self.store / "endpoints.json"

    def kill(self) -> None:
        """Ends it as a power switch does: SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Shuts down in order; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_MS / 1000)

    def resident_bytes(self) -> int:
        """Memory of the process now (Linux)."""
        return self._status("VmRSS")

    def peak_bytes(self) -> int:
        """The most memory it ever had, or had since `forget_peak` (Linux)."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        with open(f"/proc/{self._process.pid}/clear_refs", "w", encoding="ascii") as clear:
            clear.write("5")

    def cpu_seconds(self) -> float:
        """User and system time the process has used, to the nanosecond: its own clock, which anybody may read (Linux;
        clock_getcpuclockid(3))."""
        return time.clock_gettime(~self._process.pid << 3 | _SCHEDULED_TIME)

    def waited_seconds(self) -> float:
        """How long its main thread has been ready to run while others had the processors (Linux)."""
        return waited_seconds(f"/proc/{self._process.pid}")

    def complaints(self) -> list[str]:
        """What the log has that a client must not be able to put there: errors, tracebacks, anything unforeseen."""
        return [line for line in self._log.read_text(encoding="utf-8").splitlines() if not _is_harmless(line)]

    def check_store(self) -> None:
        """Has `rmq store check` look at the files; raises AssertionError with what it says unless they are sound."""
        checked = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-m", "rmqspark", "store", "check", str(self.store)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_MS / 1000,
            check=False,
        )
        if checked.returncode != 0:
            raise AssertionError(f"rmq store check ends with {checked.returncode}:\n{checked.stdout}{checked.stderr}")

    def _status(self, name: str) -> int:
        with open(f"/proc/{self._process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith(f"{name}:"))

    def _wait_until_up(self) -> None:
        clock, endpoints = SystemClock(), self._endpoints
        deadline_ms = clock.monotonic_ms() + PATIENCE_MS
        while not endpoints.exists():
            if not self.alive or clock.monotonic_ms() > deadline_ms:
                raise RequestTimeout(f"rmq up did not come up: {self._log.read_text(encoding='utf-8')}")
            clock.sleep_ms(_LOOK_AGAIN_MS)
        told = json.loads(endpoints.read_text(encoding="utf-8"))
        self.namesrv, self.broker = told["namesrv"], told["brokers"][0]


def waited_seconds(task: str = "/proc/thread-self") -> float:
    """How long a thread has been ready to run while others had the processors; 0 where the kernel does not count it."""
    try:
        with open(f"{task}/schedstat", encoding="ascii") as counts:
            return int(counts.read().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0


def _is_harmless(line: str) -> bool:
    if line == "Stopping ...":
        return True
    try:
        return json.loads(line)["level"] in ("debug", "info", "warning")
    except (ValueError, KeyError, TypeError):
        return False

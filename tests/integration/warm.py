"""`rmq` in processes of its own that find its libraries imported: to import them is most of the work of a start.

A `Warm` has one interpreter with those libraries, and nothing of ours, imported, unless it is given other modules. Each
run is a fork of it, with the words, directory, environment and streams of that run, which imports what it lacks of
rmqspark and ends as any `python -m rmqspark` does.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MOST_BYTES = 1 << 20  # of a request
_LINE_BYTES = 32
LIBRARIES = (
    "csv", "email.message", "hashlib", "importlib.metadata", "lz4.frame", "msgspec", "pydantic.types",
    "pydantic.type_adapter", "rich.console", "rich.table", "secrets", "structlog", "typer.main", "zipfile",
    "zlib_ng.zlib_ng", "zstandard",
)  # fmt: skip


class Started:
    """A process that goes on, as `subprocess.Popen` shows one, to several threads; `stdout` is what it writes to
    standard output."""

    def __init__(self, told: socket.socket, stdout: IO[bytes]) -> None:
        self.stdout = stdout
        self.returncode: int | None = None
        self._told = told
        self._hearing = threading.Lock()  # its end is told once
        self.pid = int(told.recv(_LINE_BYTES))

    def poll(self) -> int | None:
        """None, too, while another thread waits for its end, as with `Popen`."""
        if self._hearing.acquire(blocking=False):
            try:
                self._hear(0)
            finally:
                self._hearing.release()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with self._hearing:
            self._hear(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("rmq", timeout or 0)
        return self.returncode

    def _hear(self, timeout: float | None) -> None:
        if self.returncode is None:
            self._told.settimeout(timeout)
            with suppress(BlockingIOError, TimeoutError):
                self.returncode = int(self._told.recv(_LINE_BYTES))
                self._told.close()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Warm:
    """What takes longer than its time limit is killed."""

    def __init__(self, environment: Mapping[str, str], *, timeout_s: float, modules: Sequence[str] = LIBRARIES) -> None:
        self._timeout_s = timeout_s
        self._asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
        with asked:
            words, pipe = [sys.executable, __file__, str(asked.fileno()), *modules], subprocess.PIPE
            self._process = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, pass_fds=[asked.fileno()]
            )

    def run(
        self,
        words: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        stdin: bytes,
        output: IO[bytes] | None,
    ) -> tuple[int, bytes, bytes]:
        """Runs `rmq` with these words to its end: its exit code, as `subprocess` has it, and what it wrote to standard
        output, where that is not `output`, and to standard error."""
        (given, giving), (taking, taken), (hearing, heard) = _pipe(), _pipe(), _pipe()
        with given, taken, heard:
            told = self._ask(words, directory, environment, (given, output or taken, heard), in_session=False)
        with giving, taking, hearing, told, ThreadPoolExecutor(3) as threads:
            late = threading.Timer(self._timeout_s, os.kill, (int(told.recv(_LINE_BYTES)), signal.SIGKILL))
            late.start()
            threads.submit(_give, giving, stdin)
            out, err = threads.submit(taking.read), threads.submit(hearing.read)
            code = int(told.recv(_LINE_BYTES))
            late.cancel()
            return code, out.result(), err.result()

    def start(
        self, words: Sequence[str], directory: Path, environment: Mapping[str, str], errors: IO[bytes]
    ) -> Started:
        """Starts `rmq` with these words, without input, as the first process of a session of its own. What it writes
        to standard error goes to a file."""
        taking, taken = _pipe()
        with taken, open(os.devnull, "rb") as given:
            told = self._ask(words, directory, environment, (given, taken, errors), in_session=True)
        return Started(told, taking)

    def _ask(
        self,
        words: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        streams: Sequence[IO[bytes]],
        *,
        in_session: bool,
    ) -> socket.socket:
        """Where the process id and, once there is one, the exit code is told."""
        told, telling = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with telling:
            request = json.dumps([words, str(directory), dict(environment), in_session]).encode()
            socket.send_fds(self._asking, [request], [*(stream.fileno() for stream in streams), telling.fileno()])
        return told

    def close(self) -> None:
        self._asking.close()
        _, err = self._process.communicate(timeout=self._timeout_s)
        assert not err, err.decode()


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    read, write = os.pipe()
    return os.fdopen(read, "rb"), os.fdopen(write, "wb", buffering=0)


def _give(giving: IO[bytes], stdin: bytes) -> None:
    with suppress(BrokenPipeError), giving:
        giving.write(stdin)


def _serve(asked: socket.socket) -> None:
    """Returns in each process that is to be `rmq`; the one that forks them ends with who asks it."""
    while True:
        request, streams, _, _ = socket.recv_fds(asked, _MOST_BYTES, 4)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not request:
            os._exit(0)
        if os.fork() == 0:
            asked.close()
            return _become(json.loads(request), streams)
        for stream in streams:
            os.close(stream)


def _become(request: list[Any], streams: list[int]) -> None:
    """Returns in a process that is as if it had been started so; its parent tells how it ends."""
    words, directory, environment, in_session = request
    with socket.socket(fileno=streams.pop()) as telling:
        if child := os.fork():
            for stream in streams:
                os.close(stream)
            telling.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            os._exit(0)
        if in_session:
            os.setsid()
        telling.send(b"%d" % os.getpid())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = words
    sys.path[0] = directory


if __name__ == "__main__":
    for module in sys.argv[2:]:
        __import__(module)
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("rmqspark", run_name="__main__", alter_sys=True)

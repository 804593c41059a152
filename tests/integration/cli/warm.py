"""`rmq` in processes of its own that find its libraries imported: to import them is most of the work of a start.

A `Warm` has one interpreter with those libraries, and nothing of ours, imported. Each run is a fork of it, with the
words, directory, environment and streams of that run, which imports rmqspark and ends as any `python -m rmqspark` does.
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
_LIBRARIES = (
    "csv", "email.message", "hashlib", "importlib.metadata", "lz4.frame", "msgspec", "pydantic.types",
    "pydantic.type_adapter", "rich.console", "rich.table", "secrets", "structlog", "typer.main", "zipfile",
    "zlib_ng.zlib_ng", "zstandard",
)  # fmt: skip


class Warm:
    """What takes longer than its time limit is killed."""

    def __init__(self, environment: Mapping[str, str], *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
        with asked:
            words, pipe = [sys.executable, __file__, str(asked.fileno())], subprocess.PIPE
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
        told, telling = socket.socketpair()
        with given, taken, heard, telling:
            request = json.dumps([words, str(directory), dict(environment)]).encode()
            streams = [stream.fileno() for stream in (given, output or taken, heard, telling)]
            socket.send_fds(self._asking, [request], streams)
        with giving, taking, hearing, told, told.makefile() as ends, ThreadPoolExecutor(3) as threads:
            late = threading.Timer(self._timeout_s, os.kill, (int(ends.readline()), signal.SIGKILL))
            late.start()
            threads.submit(_give, giving, stdin)
            out, err = threads.submit(taking.read), threads.submit(hearing.read)
            code = int(ends.readline())
            late.cancel()
            return code, out.result(), err.result()

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
    words, directory, environment = request
    with socket.socket(fileno=streams.pop()) as telling:
        if child := os.fork():
            telling.sendall(b"%d\n" % child)
            for stream in streams:
                os.close(stream)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            telling.sendall(b"%d\n" % code)
            os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = words
    sys.path[0] = directory


if __name__ == "__main__":
    for library in _LIBRARIES:
        __import__(library)
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("rmqspark", run_name="__main__", alter_sys=True)

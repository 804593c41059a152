"""A queue of one's own, for the demo and for measuring: `rmq up` as a process, as everybody starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rmqspark.cli.up.endpoints import ENDPOINTS
from rmqspark.clock import SystemClock
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UP_LOG = "rmq-up.log"
_START_MS = 30_000
_STOP_S = 30


@contextmanager
def own_queue(directory: Path, *words: str) -> Iterator[str]:
    """Starts a queue on free ports, its store in `directory`, with these words on the command line besides; gives the
    name server's address, stops it at the end."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "rmqspark.cli.tied",
        "up",
        "--store",
        str(directory),
        "--namesrv-port",
        "0",
        "--broker-port",
        "0",
        "--no-admin",
        *words,
    ]
    log = directory / UP_LOG
    with log.open("wb") as output:
        # A session of its own: Ctrl-C is for the demo, which then stops the queue in good order.
        process = subprocess.Popen(  # noqa: S603 - our own words
            command,
            stdin=subprocess.PIPE,  # its end is the word to stop
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=_environment(),
        )
    assert process.stdin is not None
    try:
        yield _wait_for_address(process, directory / ENDPOINTS, log)
    finally:
        process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    """Without what clients here say of TLS: the queue is asked without."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RMQ_TLS_")}


def _wait_for_address(process: subprocess.Popen[bytes], endpoints: Path, log: Path) -> str:
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + _START_MS
    while not endpoints.exists():
        if process.poll() is not None or clock.monotonic_ms() > deadline_ms:
            raise RmqError(f"The queue does not start: {log.read_text(errors='replace')[-400:]}")
        clock.sleep_ms(20)
    address: str = json.loads(endpoints.read_text(encoding="utf-8"))["namesrv"]
    return address

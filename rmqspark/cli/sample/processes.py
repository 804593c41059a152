"""The sample's processes: started when the servers answer, told to end before they do."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from rmqspark.cli.machine.java import REMEDY, find_java
from rmqspark.cli.processes.meanwhile import meanwhile
from rmqspark.cli.sample.names import A_SECOND, GROUP, LARGE, LARGE_AMOUNT, QUERY, TOPIC

log = structlog.get_logger("rmqspark.up")

_STOP_TIMEOUT_S: Final = 5  # of a query that is just starting it is too short, and harmless: nothing is lost or doubled


class _Child(NamedTuple):
    name: str
    words: Sequence[str]


class Sample:
    """What goes on: processes to run, and a line for people about each. Their logs, and the checkpoint of the query,
    are in `directory`, which is made."""

    def __init__(self, namesrv: str, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self.directory = directory
        self.children = [_Child("traffic", (namesrv,))]
        self.lines = [f"topic {TOPIC}: {A_SECOND} orders a second; group {GROUP} reads them"]
        if missing := _what_spark_lacks():
            self.lines.append(f"no Spark query: {missing}")
        else:
            self.children.append(_Child("query", (namesrv, str(directory / "checkpoint"))))
            self.lines.append(f"Spark query {QUERY}: orders above {LARGE_AMOUNT} go to topic {LARGE}, in a few seconds")
        self.lines.append(f"logs are in {directory}")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All processes run while the block does; one that ends by itself is told in the log."""
        async with meanwhile(*(_run(child, self.directory) for child in self.children)):
            yield


def _what_spark_lacks() -> str:
    """Why there can be no Spark query; "" where there can be one."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed (pip install 'rmqspark[spark]')"
    java = find_java()
    return "" if java.good else f"{java.story}. {REMEDY}"


async def _run(child: _Child, directory: Path) -> None:
    """Runs a child until this is cancelled, or the child ends by itself or does not start at all, which is told."""
    output = directory / f"{child.name}.log"
    try:
        process = await _start(child, output)
    except OSError as error:
        log.warning("a process of the demo cannot start", process=child.name, reason=str(error))
        return
    try:
        code = await process.wait()
        log.warning("a process of the demo has ended", process=child.name, exit_code=code, log=str(output))
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await _ended(process)


async def _start(child: _Child, output: Path) -> asyncio.subprocess.Process:
    with output.open("wb") as written:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"rmqspark.cli.sample.{child.name}",
            *child.words,
            stdin=PIPE,
            stdout=written,
            stderr=written,
            start_new_session=True,  # Ctrl-C is for rmq up, which then ends them
        )


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Waits for the process, which has been told; then nothing it has started is left."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()

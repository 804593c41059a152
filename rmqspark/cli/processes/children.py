"""The processes of `rmq up`, brokers and admin: started, started again when they end, and ended with it.

They are in sessions of their own, so that Ctrl-C reaches `rmq up` alone, which then has them stop in order. What ends
them is the end of their standard input, and that comes whatever becomes of `rmq up` (see `reports`).
"""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol, Self

import structlog

from rmqspark.cli.processes.meanwhile import meanwhile
from rmqspark.cli.processes.reports import Report
from rmqspark.cli.processes.respawn import Backoff
from rmqspark.clock import Clock
from rmqspark.errors import RmqError
from rmqspark.remoting.address import parse_address

log = structlog.get_logger("rmqspark.up")

_STOP_TIMEOUT_S: Final = 60  # a broker flushes before it ends; longer than that it hangs


class Order(Protocol):
    """What a process is to run: it is told in one line, after its module was started with its name."""

    @property
    def kind(self) -> str:
        """`broker` or `admin`, for logs."""

    @property
    def module(self) -> str: ...

    @property
    def name(self) -> str: ...

    def on_port(self, port: int) -> Self:
        """The same, at this very port."""

    def encode(self) -> bytes: ...


class ChildProcess:
    """One of them. `start` before anything else; `address` and `pid` are those of its last start that went well."""

    def __init__(self, order: Order, clock: Clock) -> None:
        self._order = order
        self._clock = clock
        self._process: Process | None = None
        self._backoff = Backoff()
        self.address = ""
        self.pid = 0

    @property
    def name(self) -> str:
        return self._order.name

    async def start(self) -> None:
        """Returns when it serves. RmqError says why it does not."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", self._order.module, self.name, stdin=PIPE, stdout=PIPE, start_new_session=True
        )
        self._process = process
        assert process.stdin is not None
        with suppress(ConnectionError):  # gone already: the missing report says so
            process.stdin.write(self._order.encode())
            await process.stdin.drain()
        report = await _next_report(process)
        if report is None or report.problem:
            code = await process.wait()
            raise _cannot_start(self.name, report or Report(problem=f"its process {how_it_ended(code)}."))
        self.address, self.pid = report.address, process.pid
        _, port = parse_address(report.address)
        self._order = self._order.on_port(port)  # it is looked for there, also after a restart

    async def keep_running(self, on_change: Callable[[], None]) -> None:
        """Starts it again whenever it ends; `on_change` is called when it serves again, under another pid."""
        kind = self._order.kind
        named = {kind: self.name}
        began_ms = self._clock.monotonic_ms()
        while True:
            reason = await self._end()
            pause_ms = self._backoff.pause_ms(self._clock.monotonic_ms() - began_ms)
            log.warning(f"{kind} ended, starting it again", **named, reason=reason, in_ms=pause_ms)
            await asyncio.sleep(pause_ms / 1000)
            began_ms = self._clock.monotonic_ms()
            try:
                await self.start()
            except (RmqError, OSError) as error:  # OSError: no process or pipe was to be had at that moment
                log.error(f"{kind} cannot start", **named, reason=str(error))
            else:
                log.info(f"{kind} serves again", **named, address=self.address, pid=self.pid)
                on_change()

    async def stop(self) -> None:
        """Has it flush and close its store; kills it where that takes too long."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            log.error(f"{self._order.kind} does not stop and is killed", name=self.name, after_s=_STOP_TIMEOUT_S)
            process.kill()
            await process.wait()

    async def _end(self) -> str:
        """Waits for the process to end; says why it did, as far as that is known."""
        assert self._process is not None
        report = await _next_report(self._process)
        code = await self._process.wait()
        return report.problem if report is not None else how_it_ended(code)


@asynccontextmanager
async def child_processes(
    orders: Sequence[Order], clock: Clock, on_change: Callable[[], None]
) -> AsyncIterator[list[ChildProcess]]:
    """They serve while the block runs. One that cannot start at all is an error; later ones are tried again."""
    children = [ChildProcess(order, clock) for order in orders]
    starts = [asyncio.create_task(child.start()) for child in children]
    try:
        await asyncio.gather(*starts)
        async with meanwhile(*(child.keep_running(on_change) for child in children)):
            yield children
    finally:
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)
        await asyncio.gather(*(child.stop() for child in children))


def how_it_ended(code: int) -> str:
    """What an exit code says: 'was killed by SIGKILL', 'ended with exit code 1'."""
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


async def _next_report(process: Process) -> Report | None:
    """The next report of a process; None if it ends without one."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    return Report.decode(line) if line else None


def _cannot_start(name: str, report: Report) -> RmqError:
    return RmqError(f"{name} cannot start: {report.problem}", hint=report.hint)

"""REST and console beside the brokers of `rmq up`: begun early, waited for last, and missed by nobody if they fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rmqspark.cli.processes.children import ChildProcess
from rmqspark.cli.terminal.output import complain
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from rmqspark.cli.up.admin_order import AdminOrder
    from rmqspark.clock import Clock


class AdminProcess:
    """`url` and `pid` are None until it serves, and where there is none."""

    def __init__(self, child: ChildProcess | None, starting: asyncio.Task[None] | None, base_path: str) -> None:
        self._child = child
        self._starting = starting
        self._base_path = base_path
        self._serves = False

    @property
    def url(self) -> str | None:
        return f"http://{self._child.address}{self._base_path}" if self._child and self._serves else None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child and self._serves else None

    async def ready(self) -> None:
        """Returns when it serves, or does not: then it is said why, and the queue goes on without it."""
        if self._starting is None:
            return
        try:
            await self._starting
        except RmqError as error:
            complain(f"REST and console are not there: {error}")
        else:
            self._serves = True

    async def keep_running(self, on_change: Callable[[], None]) -> None:
        """Once it has served, it is started again whenever it ends."""
        if self._child is not None and self._serves:
            await self._child.keep_running(on_change)


@asynccontextmanager
async def admin_process(order: AdminOrder | None, clock: Clock) -> AsyncIterator[AdminProcess]:
    """Starts it, without waiting for it; it ends with the block. None is for nobody who wants it."""
    if order is None:
        yield AdminProcess(None, None, "")
        return
    child = ChildProcess(order, clock)
    starting = asyncio.create_task(child.start())
    try:
        yield AdminProcess(child, starting, order.config.base_path)
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await child.stop()

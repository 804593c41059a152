"""A process of `rmq up`: runs what its standard input says until that ends, or a signal comes."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from rmqspark.cli.processes.reports import Report
from rmqspark.cli.servers.serving import run_until_stopped
from rmqspark.errors import RmqError
from rmqspark.words import os_error_story

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    Serve = Callable[[bytes], AbstractAsyncContextManager[str]]


def run(serve: Serve) -> None:
    """`serve` is given the line that says what to run, and gives the address once it serves. Exit code 1, after a
    report, where it cannot."""
    line = sys.stdin.buffer.readline()
    if not line:
        return  # whoever started us is gone already
    try:
        run_until_stopped(partial(_serve, serve, line), is_child=True)
    except RmqError as error:
        _give_up(Report(problem=error.message, hint=error.hint))
    except OSError as error:
        _give_up(Report(problem=os_error_story(error)))


async def _serve(serve: Serve, line: bytes, stopped: asyncio.Future[None]) -> None:
    ended = _end_of_input()
    async with serve(line) as address:
        print(Report(address).encode(), flush=True)
        await asyncio.wait((stopped, ended), return_when=asyncio.FIRST_COMPLETED)


def _end_of_input() -> asyncio.Future[None]:
    """Done when standard input has ended."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    descriptor = sys.stdin.fileno()

    def look() -> None:
        if not os.read(descriptor, 1 << 10):
            loop.remove_reader(descriptor)
            ended.set_result(None)

    loop.add_reader(descriptor, look)
    return ended


def _give_up(report: Report) -> None:
    with suppress(BrokenPipeError):  # then nobody is left who would want to know
        print(report.encode(), flush=True)
    sys.exit(1)

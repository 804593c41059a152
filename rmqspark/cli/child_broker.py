"""One broker of `rmq up --brokers N`, in a process of its own: `python -m rmqspark.cli.child_broker NAME`.

NAME is for whoever looks at a list of processes. What to run comes on standard input, see `broker_order`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from functools import partial

import structlog

from rmqspark.cli.broker_order import BrokerOrder, Report
from rmqspark.cli.open_files import current_limit
from rmqspark.cli.servers import make_broker
from rmqspark.cli.serving import run_until_stopped
from rmqspark.cli.words import os_error_story
from rmqspark.errors import RmqError


def main() -> None:
    """Serves until standard input ends or a signal comes. Exit code 1, after a report, where it cannot."""
    line = sys.stdin.buffer.readline()
    if not line:
        return  # whoever started us is gone already
    order = BrokerOrder.decode(line)
    structlog.contextvars.bind_contextvars(broker=order.name)
    try:
        run_until_stopped(partial(_serve, order))
    except RmqError as error:
        _give_up(Report(problem=error.message, hint=error.hint))
    except OSError as error:
        _give_up(Report(problem=os_error_story(error)))


async def _serve(order: BrokerOrder, stopped: asyncio.Future[None]) -> None:
    ended = _end_of_input()
    async with make_broker(order.settings.within(current_limit()), order.directory) as broker:
        print(Report(broker.address).encode(), flush=True)
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


if __name__ == "__main__":
    main()

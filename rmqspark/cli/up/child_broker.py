"""One broker of `rmq up --brokers N`, in a process of its own: `python -m rmqspark.cli.up.child_broker NAME`.

NAME is for whoever looks at a list of processes. What to run comes on standard input, see `processes.reports`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from rmqspark.cli.processes.child import run
from rmqspark.cli.servers.making import make_broker
from rmqspark.cli.servers.open_files import current_limit
from rmqspark.cli.up.broker_order import BrokerOrder


@asynccontextmanager
async def serve(line: bytes) -> AsyncIterator[str]:
    """The broker of this order."""
    order = BrokerOrder.decode(line)
    structlog.contextvars.bind_contextvars(broker=order.name)
    async with make_broker(order.settings.within(current_limit()), order.directory) as broker:
        yield broker.address


if __name__ == "__main__":
    run(serve)

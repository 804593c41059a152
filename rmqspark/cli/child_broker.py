"""One broker of `rmq up --brokers N`, in a process of its own: `python -m rmqspark.cli.child_broker NAME`.

NAME is for whoever looks at a list of processes. What to run comes on standard input, see `child_reports`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from rmqspark.cli.broker_order import BrokerOrder
from rmqspark.cli.child import run
from rmqspark.cli.open_files import current_limit
from rmqspark.cli.servers import make_broker


@asynccontextmanager
async def serve(line: bytes) -> AsyncIterator[str]:
    """The broker of this order."""
    order = BrokerOrder.decode(line)
    structlog.contextvars.bind_contextvars(broker=order.name)
    async with make_broker(order.settings.within(current_limit()), order.directory) as broker:
        yield broker.address


if __name__ == "__main__":
    run(serve)

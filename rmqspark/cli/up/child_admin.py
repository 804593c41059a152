"""REST and console of `rmq up`, in a process of their own: `python -m rmqspark.cli.up.child_admin admin`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rmqspark.cli.processes.child import run
from rmqspark.cli.servers.making import administration
from rmqspark.cli.up.admin_order import AdminOrder


@asynccontextmanager
async def serve(line: bytes) -> AsyncIterator[str]:
    """REST and console of this order."""
    order = AdminOrder.decode(line)
    async with administration(order.config, order.namesrv) as url:
        yield url.removeprefix("http://").removesuffix(order.config.base_path)


if __name__ == "__main__":
    run(serve)

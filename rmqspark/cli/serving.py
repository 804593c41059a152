"""Running servers in the foreground: the event loop, signals, logs."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

import structlog
import uvloop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def run_until_stopped(serve: Callable[[asyncio.Future[None]], Awaitable[None]]) -> None:
    """Runs `serve` in an event loop; its argument is a future that ends with Ctrl-C or SIGTERM.

    A second signal does not wait for a graceful end.
    """
    configure_logs()

    async def supervised() -> None:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[None] = loop.create_future()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _stop, stopped, number)
        # What was made so far lives as long as the process: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        await serve(stopped)

    uvloop.run(supervised())


def _stop(stopped: asyncio.Future[None], number: int) -> None:
    if stopped.done():
        os._exit(128 + number)
    print("Stopping ...", file=sys.stderr, flush=True)
    stopped.set_result(None)


def configure_logs() -> None:
    """Lines for people on a terminal, JSON otherwise; both on standard error."""
    terminal = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not terminal),
            *([] if terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(os.environ.get("RMQ_LOG_LEVEL", "info")),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )

"""Running servers in the foreground: the event loop, signals, logs, as many open files as there may be."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, TextIO, cast

import structlog
import uvloop

from rmqspark.cli.servers.open_files import raise_limit
from rmqspark.display import printable
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

_COLLECTED_OBJECTS = 20_000  # three for each request that waits for the end of its turn
_LEVELS = ("debug", "info", "warning", "error", "critical")

log = structlog.get_logger("rmqspark.cli")


def run_until_stopped(serve: Callable[[asyncio.Future[None]], Awaitable[None]], *, is_child: bool = False) -> None:
    """Runs `serve` in an event loop; its argument is a future that ends with Ctrl-C, SIGTERM, or when the terminal is
    closed (SIGHUP), unless it was started with nohup.

    A second signal ends the process at once, also in the middle of a long recovery. A child of another server does not
    warn of what its parent has warned of.
    """
    terminals = [stream for stream in (1, 2) if os.isatty(stream)]
    configure_logs()
    raise_limit()
    if os.geteuid() == 0 and not is_child:
        log.warning("started as root", hint="A user of its own can do all that a server needs, and less harm.")

    async def supervised() -> None:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[None] = loop.create_future()
        asked = False

        # Python's own handlers, since the loop's would wait for it to be idle.
        def stop(number: int, frame: object) -> None:
            nonlocal asked
            if asked:
                os._exit(128 + number)
            asked = True
            if number == signal.SIGHUP:
                _leave(terminals)
            with suppress(OSError):  # a terminal may be gone without a signal to us
                os.write(2, b"Stopping ...\n")  # print might have been interrupted by us
            loop.call_soon_threadsafe(stopped.set_result, None)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, stop)
        collect_rarely()
        await serve(stopped)

    uvloop.run(supervised())


def _leave(terminals: list[int]) -> None:
    """They are gone: whatever was written to them would be an error, in the middle of a stop in order."""
    for stream in terminals:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, stream)
        os.close(nowhere)


def collect_rarely() -> None:
    """Keeps the garbage collector from work in vain.

    What was made so far lives as long as the process, and need not be looked at again and again. Requests go without
    the collector; but those of one turn of the loop are more objects than it waits for by default: every turn it would
    go through all that wait for their answers.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTED_OBJECTS)


class _Quoted:
    """A text that is shown as Python writes it down: who sends it neither moves the cursor nor turns the line."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _quoted(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Of structlog's renderer only texts with spaces in them are."""
    return {
        name: _Quoted(value) if isinstance(value, str) and not value.isprintable() else value
        for name, value in event.items()
    }


def _traceback(stream: TextIO, error: Any) -> None:
    """Without values of variables, some of which are secrets; its message may be anybody's."""
    text = StringIO()
    structlog.dev.plain_traceback(text, error)
    stream.write(printable(text.getvalue()))


class _Unfailing:
    """Where log lines are written. One that cannot be, for the disk is full or whoever read them is gone, is lost, and
    nothing else: code that logs does not expect to fail at that."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: str) -> None:
        with suppress(OSError):
            self._stream.write(line)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


class Libraries(logging.Handler):
    """What libraries say in Python's own way goes where ours goes, and looks alike."""

    def emit(self, record: logging.LogRecord) -> None:
        told = structlog.get_logger(record.name)
        told.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)


def configure_logs() -> None:
    """Lines for people on a terminal, JSON otherwise; both on standard error. $RMQ_LOG_LEVEL says how much."""
    logging.basicConfig(handlers=[Libraries()], level=logging.WARNING)
    level = (os.environ.get("RMQ_LOG_LEVEL") or "info").lower()
    if level not in _LEVELS:
        raise InvalidArgument(f"RMQ_LOG_LEVEL is {level!r}, but must be one of {', '.join(_LEVELS)}.")
    terminal = sys.stderr.isatty()
    renderer = (
        structlog.dev.ConsoleRenderer(exception_formatter=_traceback)
        if terminal
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not terminal),
            *([_quoted] if terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # A line at once: processes may share a standard error.
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _Unfailing(sys.stderr))),
        cache_logger_on_first_use=True,
    )

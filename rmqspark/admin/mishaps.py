"""What fails with nobody waiting for it: told in the log, each kind once.

NiceGUI handles what browsers send in tasks of its own, and believes it to be what its pages send; the libraries of its
WebSockets read that before. Whoever reaches the port may send something else, as often as it likes: nothing comes of it
but a traceback each time (security: S18).
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import structlog

from rmqspark.told_once import ToldOnce

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Mapping

UNFORESEEN: Final = "Something went wrong that should not; the log of rmq admin has it."
"""What whoever asked is told of a bug."""
_MOST_TOLD: Final = 100
_LIBRARIES: Final = ("engineio.server", "socketio.server")

log = structlog.get_logger("rmqspark.admin")


class Mishaps:
    """An exception handler of an event loop, and what the libraries' loggers ask before they tell something."""

    def __init__(self) -> None:
        self._told: ToldOnce[tuple[str, str]] = ToldOnce(log, "failed tasks", _MOST_TOLD)

    @contextmanager
    def of_libraries(self) -> Iterator[None]:
        """While the block runs they tell each kind once, and where all others do: they have handlers of their own,
        which write what browsers say on the terminal as it is."""
        loggers = [logging.getLogger(name) for name in _LIBRARIES]
        for each in loggers:
            each.handlers.clear()
            each.addFilter(self.is_news)
        try:
            yield
        finally:
            for each in loggers:
                each.removeFilter(self.is_news)

    def is_news(self, record: logging.LogRecord) -> bool:
        """Whether nothing of its kind has been told."""
        error = record.exc_info[1] if record.exc_info else None
        place = _place(error) or f"{record.pathname}:{record.lineno}"
        return self._told.is_news((type(error).__name__, place))

    def tell(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """What asyncio would log, if it has not been told."""
        error = context.get("exception")
        if self._told.is_news((type(error).__name__, _place(error))):
            log.error("a task failed; told once", what=context.get("message"), exc_info=error)


def _place(error: BaseException | None) -> str:
    """Where it was raised."""
    trace = None if error is None else error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"

"""Tasks that fail with nobody waiting for them: told in the log, each kind once.

NiceGUI handles what browsers send in tasks of its own, and believes it to be what its pages send. Whoever reaches the
port may send something else, as often as it likes: nothing comes of it but a traceback each time (security: S18).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import structlog

from rmqspark.told_once import ToldOnce

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

UNFORESEEN: Final = "Something went wrong that should not; the log of rmq admin has it."
"""What whoever asked is told of a bug."""
_MOST_TOLD: Final = 100

log = structlog.get_logger("rmqspark.admin")


class Mishaps:
    """An exception handler of an event loop."""

    def __init__(self) -> None:
        self._told: ToldOnce[tuple[str, str]] = ToldOnce(log, "failed tasks", _MOST_TOLD)

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

"""What Python does for a piece of work, counted exactly: the same on a fast machine and on a slow one."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def bytecodes(work: Callable[[], object]) -> int:
    """How many bytecodes `work` takes, all Python code that it calls included."""
    with _without_collections():
        return _count(work)


if sys.version_info >= (3, 12):
    # A trace function that asks for bytecodes is given them, from Python 3.12 on, only where a frame is entered anew.

    def _count(work: Callable[[], object]) -> int:
        count, thread, tool = 0, get_ident(), sys.monitoring.PROFILER_ID

        def step(code: object, offset: int) -> None:
            nonlocal count
            count += get_ident() == thread

        sys.monitoring.use_tool_id(tool, __name__)
        try:
            sys.monitoring.register_callback(tool, sys.monitoring.events.INSTRUCTION, step)
            sys.monitoring.set_events(tool, sys.monitoring.events.INSTRUCTION)
            work()
        finally:
            sys.monitoring.set_events(tool, sys.monitoring.events.NO_EVENTS)
            sys.monitoring.register_callback(tool, sys.monitoring.events.INSTRUCTION, None)
            sys.monitoring.free_tool_id(tool)
        return count
else:

    def _count(work: Callable[[], object]) -> int:
        count = 0

        def trace(frame: Any, event: str, argument: object) -> Any:
            nonlocal count
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            count += event == "opcode"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)
        return count


@contextmanager
def _without_collections() -> Iterator[None]:
    """A collection that begins meanwhile would be counted too: it runs finalizers, and Hypothesis's callback."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

"""What Python does for a piece of work, counted exactly: the same on a fast machine and on a slow one."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def bytecodes(work: Callable[[], object]) -> int:
    """How many bytecodes `work` takes, all Python code that it calls included."""
    count = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    with _without_collections():
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

"""Spark ends the process of a streaming source with SIGTERM, and calls its `stop` where the process ends by itself.

A member of a shared group has something to say first, so here the signal ends it by itself.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def exit_when_terminated() -> None:
    """SIGTERM becomes SystemExit, unless somebody has said what it is to be, or this is not the main thread."""
    is_own = threading.current_thread() is threading.main_thread()
    if is_own and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    del number, frame
    sys.exit(0)

"""The word to stop that a process of the sample gets: its standard input ends, as it does when `rmq up` is killed."""

from __future__ import annotations

import sys
import threading


def end_of_input() -> threading.Event:
    """Set when standard input has ended."""
    ended = threading.Event()

    def wait() -> None:
        while sys.stdin.buffer.read(1 << 10):
            pass
        ended.set()

    threading.Thread(target=wait, name="rmqspark end of input", daemon=True).start()
    return ended

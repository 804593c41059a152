"""The word to stop that a process gets from who started it: its standard input ends, as it does when that is killed."""

from __future__ import annotations

import os
import signal
import sys
import threading


def end_of_input() -> threading.Event:
    """Set when standard input has ended."""
    ended = threading.Event()

    descriptor = sys.stdin.fileno()

    def wait() -> None:
        while os.read(descriptor, 1 << 10):  # not by sys.stdin: who ends sooner could not close that
            pass
        ended.set()

    threading.Thread(target=wait, name="rmqspark end of input", daemon=True).start()
    return ended


def tie() -> None:
    """From here on SIGTERM comes when standard input has ended."""
    ended = end_of_input()

    def wait() -> None:
        ended.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="rmqspark tied", daemon=True).start()

"""The Python process that Spark runs tasks in, and habits of it that cost more than a task's work does.

After every task PySpark has all garbage looked for (`pyspark/daemon.py`), and with it what pandas and PyArrow brought
with their modules, which never is any: 25 ms of a core per task, on each side of a query.

To a process that is used again Spark sends a task in two pieces: what is to be done, and, of a few hundred bytes, on
what. The second does not leave Spark (Nagle's algorithm) before the first is acknowledged, and the kernel acknowledges
late (40 ms) what comes in by a connection that was just answered by: every other task would wait that long before it
begins. What is to be done is one of our objects, and to unpickle it is the only moment between the two.

And what it gives to Spark may be paced, as if a network were in between (`pacing.py`).
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from contextlib import suppress
from typing import Final

from rmqspark.pacing import stop_pacing

_SETTLING_TASKS: Final = 4  # of a process; modules are imported by the first that needs them, reading or writing
_tasks: dict[int, int] = {}  # by process: forked workers begin anew
_connections: dict[int, socket.socket] = {}  # to Spark, of processes that are workers


def settle() -> None:
    """To be called as a task begins: puts what the process holds then where nobody looks for garbage, and sees to it
    that rows go to Spark unpaced and later tasks do not wait (`acknowledge`).

    Only the first tasks of a process do so. What later ones make is collected as ever, and what nobody holds any more
    is freed as ever.
    """
    process, begun = os.getpid(), _tasks.get(os.getpid(), 0)
    if begun < _SETTLING_TASKS:
        _tasks[process] = begun + 1
        gc.freeze()
    connection = _connection_to_spark() if begun == 0 else None
    if connection is not None:
        stop_pacing(connection)
        _connections[process] = connection


def acknowledge() -> None:
    """Has what Spark has sent so far acknowledged now; nothing where no task was settled. The kernel goes back to its
    ways with every answer, so it is told in each task."""
    connection = _connections.get(os.getpid())
    if connection is not None and hasattr(socket, "TCP_QUICKACK"):
        with suppress(OSError):  # a process that is ending
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _connection_to_spark() -> socket.socket | None:
    """What tasks come in by; None in a process that is not a worker of Spark's daemon, or has no TCP connection."""
    frame = sys._getframe()
    while frame.f_code.co_name != "manager" or not isinstance(frame.f_locals.get("sock"), socket.socket):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    connection: socket.socket = frame.f_locals["sock"]
    return None if connection.family == socket.AF_UNIX else connection

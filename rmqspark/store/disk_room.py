"""Room on the disk for a file, taken before anything is written there.

A sparse file gets its blocks when its pages are written back. While the kernel looks for them it has the file's map
locked, and whoever appends meanwhile waits: 20 to 100 ms at every flush of a busy log (docs/performance.md). A file
that has its blocks from the beginning is never waited for. RocketMQ gets the same by writing zeros over a whole new
file (MappedFile.warmMappedFile); here nothing is written.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_OF_FREE: Final = 16
"""Room is taken ahead only where 16 times as much is free: the last of a disk is for what is really written."""

_KEEP_SIZE: Final = 1


def reserve(fd: int, start: int, end: int) -> None:
    """Has blocks taken for [start, end) of an open file; they read as zeros, and the length stays. Only an advice:
    where the disk has little room, or the system or the file system knows no such thing, nothing happens."""
    with suppress(OSError):
        disk = os.fstatvfs(fd)
        if (end - start) * MOST_OF_FREE <= disk.f_bavail * disk.f_frsize:
            _fallocate()(fd, _KEEP_SIZE, start, end - start)


@cache
def _fallocate() -> Callable[[int, int, int, int], int]:
    """The system's own call. `os.posix_fallocate` will not do: where a file system does not know it, the C library
    writes into every block instead, over what another thread writes there at the same time."""
    if sys.platform != "linux":
        return lambda *_: -1
    from ctypes import CDLL, c_int, c_int64

    call = CDLL(None).fallocate
    call.argtypes, call.restype = [c_int, c_int, c_int64, c_int64], c_int
    return call

"""Progress of long work, on a terminal only: a pipe or a log file gets none of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

from rmqspark.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Item = TypeVar("_Item")
_QUIET_MS = 1000  # short work shows nothing
_EVERY_MS = 250


def counting(items: Iterable[_Item], what: str) -> Iterator[_Item]:
    """Passes items through and keeps a count and a rate on the terminal's last line once it has taken a second."""
    if not sys.stderr.isatty():
        yield from items
        return
    clock = SystemClock()
    began = clock.monotonic_ms()
    shown = began + _QUIET_MS - _EVERY_MS
    for count, item in enumerate(items, start=1):
        yield item
        now = clock.monotonic_ms()
        if now - shown >= _EVERY_MS:
            shown = now
            rate = count * 1000 // max(1, now - began)
            print(f"\r{count:,} {what}, {rate:,} a second ", end="", file=sys.stderr, flush=True)
    if shown > began + _QUIET_MS:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

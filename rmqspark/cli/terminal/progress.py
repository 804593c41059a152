"""Progress of long work, on a terminal only: a pipe or a log file gets none of it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from rmqspark.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Item = TypeVar("_Item")
_QUIET_MS = 1000  # short work shows nothing
_EVERY_MS = 250


@contextmanager
def counting(items: Iterable[_Item], what: str) -> Iterator[Iterable[_Item]]:
    """Gives the items. While the block takes them their count and rate are on the terminal's last line, once it has
    taken a second; the line is free again when the block ends, so that an error stands alone on it."""
    if not sys.stderr.isatty():
        yield items
        return
    line = _Line(what)
    try:
        yield line.over(items)
    finally:
        line.clear()


class _Line:
    def __init__(self, what: str) -> None:
        self._what = what
        self._clock = SystemClock()
        self._began_ms = self._clock.monotonic_ms()
        self._next_ms = self._began_ms + _QUIET_MS
        self._is_shown = False

    def over(self, items: Iterable[_Item]) -> Iterator[_Item]:
        for count, item in enumerate(items, start=1):
            yield item
            now_ms = self._clock.monotonic_ms()
            if now_ms >= self._next_ms:
                self._next_ms, self._is_shown = now_ms + _EVERY_MS, True
                rate = count * 1000 // max(1, now_ms - self._began_ms)
                print(f"\r{count:,} {self._what}, {rate:,} a second ", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

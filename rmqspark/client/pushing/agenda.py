"""What is to be done at which time. Pure: the caller says what time it is."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Agenda:
    """Things to do, the earliest first; those of one time in the order in which they were added."""

    def __init__(self) -> None:
        self._things: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    def add(self, due_ms: int, thing: Callable[[], None]) -> None:
        heappush(self._things, (due_ms, next(self._numbers), thing))

    def due(self, now_ms: int) -> Iterator[Callable[[], None]]:
        """Takes out what is due."""
        while self._things and self._things[0][0] <= now_ms:
            yield heappop(self._things)[2]

    def wait_ms(self, now_ms: int) -> int | None:
        """Until the next thing is due; None if there is none."""
        return max(self._things[0][0] - now_ms, 0) if self._things else None

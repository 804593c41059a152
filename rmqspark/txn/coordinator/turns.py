"""One after the other for each key, all keys at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Turns:
    """Locks by name, kept only while somebody has one or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._wanted: dict[str, int] = {}

    @asynccontextmanager
    async def of(self, key: str) -> AsyncIterator[None]:
        """The block runs when all who came before with this key have left theirs."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._wanted[key] = self._wanted.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._wanted[key] -= 1
            if not self._wanted[key]:
                del self._wanted[key], self._locks[key]

    def is_taken(self, key: str) -> bool:
        return key in self._locks

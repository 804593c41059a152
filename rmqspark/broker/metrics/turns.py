"""Work that would take too long in one turn of the loop, done in several."""

from __future__ import annotations

import asyncio


class Turns:
    """Others have their turn after every `most` pieces of work: a millisecond or two."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._done = 0

    async def did(self, work: int = 1) -> None:
        """So much has been done."""
        self._done += work
        if self._done >= self._most:
            self._done = 0
            await asyncio.sleep(0)

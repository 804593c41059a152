"""Brokers asked, beside all requests, to bring to their disks what is decided: each in a task of its own.

A broker that hangs costs whoever waits for it a long timeout. So a round waits a moment for all and no longer for any;
a broker that is still being asked is left out of the rounds that follow.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

_ROUND_TAKES_S: Final = 1.0  # at most


class Confirmations:
    """`confirm` asks one broker, by name, for all that it has not confirmed."""

    def __init__(self, confirm: Callable[[str], Coroutine[None, None, None]]) -> None:
        self._confirm = confirm
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, brokers: Iterable[str]) -> None:
        """Asks those that are not being asked already. Raises what went wrong in this round, or since the last."""
        ended = self._ended()
        for broker in brokers:
            if broker not in self._tasks:
                self._tasks[broker] = asyncio.create_task(self._confirm(broker))
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_ROUND_TAKES_S, return_when=asyncio.FIRST_EXCEPTION)
        ended += self._ended()
        errors = [error for task in ended if (error := task.exception()) is not None]
        if errors:
            raise errors[0]

    def _ended(self) -> list[asyncio.Task[None]]:
        return [self._tasks.pop(broker) for broker, task in list(self._tasks.items()) if task.done()]

    async def close(self) -> None:
        """Ends what is under way: it is asked for again after the next start."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

"""Brokers asked, beside all requests, to bring to their disks what is decided: each in a task of its own.

A broker that hangs costs whoever waits for it a long timeout. So a round waits a moment for all and no longer for any;
a broker that is still being asked is left out of the rounds that follow.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from rmqspark.txn.coordinator.events import Transaction

_ROUND_TAKES_S: Final = 1.0  # at most
_AT_ONCE: Final = 16  # of one broker


class Confirmations:
    """`confirm` asks one broker, by name, for all that it has not confirmed of one transactional id."""

    def __init__(self, confirm: Callable[[str, Transaction], Coroutine[None, None, None]]) -> None:
        self._confirm = confirm
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._begins: dict[str, int] = {}  # by broker: whose turn it is first

    async def ask(self, due: Mapping[str, Sequence[Transaction]]) -> None:
        """Asks those brokers that are not being asked already. Raises what went wrong in this round, or since the
        last."""
        ended = self._ended()
        self._begins = {broker: begin for broker, begin in self._begins.items() if broker in due}
        for broker, txns in due.items():
            if broker not in self._tasks:
                self._tasks[broker] = asyncio.create_task(self._ask(broker, self._in_turn(broker, txns)))
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_ROUND_TAKES_S, return_when=asyncio.FIRST_EXCEPTION)
        ended += self._ended()
        errors = [error for task in ended if (error := task.exception()) is not None]
        if errors:
            raise errors[0]

    def _in_turn(self, broker: str, txns: Sequence[Transaction]) -> Sequence[Transaction]:
        """Beginning elsewhere each time: one that times out gives its broker a rest, and must not do so before the
        others' turn each time."""
        begin = self._begins.get(broker, 0) % len(txns)
        self._begins[broker] = begin + _AT_ONCE
        return [*txns[begin:], *txns[:begin]]

    async def _ask(self, broker: str, txns: Sequence[Transaction]) -> None:
        """Raises the first error when all have ended."""
        free = asyncio.Semaphore(_AT_ONCE)

        async def confirm(txn: Transaction) -> None:
            async with free:
                await self._confirm(broker, txn)

        ended = await asyncio.gather(*map(confirm, txns), return_exceptions=True)
        for error in filter(None, ended):
            raise error

    def _ended(self) -> list[asyncio.Task[None]]:
        return [self._tasks.pop(broker) for broker, task in list(self._tasks.items()) if task.done()]

    async def close(self) -> None:
        """Ends what is under way: it is asked for again after the next start."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

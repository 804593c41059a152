"""Who waits for something to be on disk up to a place in the log, and until when."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import structlog

from rmqspark.errors import FlushTimeout, RmqError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

log = structlog.get_logger("rmqspark.broker")


class FlushWaiter(NamedTuple):
    end_offset: int  # physical: where the last byte waited for ends
    deadline: float  # loop time, seconds
    done: Callable[[RmqError | None], None]


def settle(future: asyncio.Future[T], outcome: T) -> None:
    """Tells who waits, if anybody does still: a server that closes gives up waiting."""
    if not future.done():
        future.set_result(outcome)


def _not_on_disk() -> RmqError:
    return FlushTimeout("Stored, but not on disk in time.")


class FlushWaiters:
    """Waiters in the order of their end offsets, which is that of their deadlines. Each is answered once: in time, with
    a refusal, or with what `late` makes, a FlushTimeout."""

    def __init__(self, timeout_s: float, late: Callable[[], RmqError] = _not_on_disk) -> None:
        self._timeout_s = timeout_s
        self._late = late
        self._waiters: deque[FlushWaiter] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._waiters)

    def add(self, end_offset: int, done: Callable[[RmqError | None], None]) -> None:
        """`done` is called with None, or with what went wrong."""
        loop = asyncio.get_running_loop()
        self._waiters.append(FlushWaiter(end_offset, loop.time() + self._timeout_s, done))
        if self._timer is None:
            self._timer = loop.call_later(self._timeout_s, self._give_up_late)

    async def wait(self, end_offset: int) -> None:
        """Returns, or raises what went wrong."""
        answered: asyncio.Future[RmqError | None] = asyncio.get_running_loop().create_future()
        self.add(end_offset, partial(settle, answered))
        if (error := await answered) is not None:
            raise error

    def answer(self, offset: int) -> None:
        """Tells those who wait for no more than what ends at `offset`."""
        while self._waiters and self._waiters[0].end_offset <= offset:
            self._answer_first(None)

    def refuse(self, error: RmqError) -> None:
        """Tells all of them that it is over."""
        while self._waiters:
            self._answer_first(error)

    def close(self) -> None:
        """Nobody is told any more that it is too late."""
        if self._timer is not None:
            self._timer.cancel()

    def _answer_first(self, error: RmqError | None) -> None:
        """Whom there is no memory to answer gives up in time, as after an answer that was lost; the others are told."""
        waiter = self._waiters.popleft()
        try:
            waiter.done(error)
        except MemoryError:
            log.error("there is no memory to answer who waited for a flush")

    def _give_up_late(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiters and self._waiters[0].deadline <= loop.time():
            self._answer_first(self._late())
        self._timer = loop.call_at(self._waiters[0].deadline, self._give_up_late) if self._waiters else None

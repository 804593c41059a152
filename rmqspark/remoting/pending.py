"""Requests of ours on one asyncio connection that wait for their answers, matched by opaque."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rmqspark.errors import Busy, ConnectionLost
from rmqspark.remoting.unanswered import timed_out

if TYPE_CHECKING:
    from rmqspark.remoting.response import Response

_MAX_OPAQUE = 0x7FFFFFFF


class PendingCalls:
    """At most `limit` of them. An answer that nobody waits for (any more) is dropped, as RocketMQ does."""

    def __init__(self, address: str, limit: int) -> None:
        self._address = address
        self._limit = limit
        self._opaque = 0
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._lost = False
        self._reason = ""

    def next_opaque(self) -> int:
        self._opaque = (self._opaque + 1) & _MAX_OPAQUE
        return self._opaque

    def begin(self) -> tuple[int, asyncio.Future[Response]]:
        """An opaque for a new request, and where its answer will be. Raises Busy, or ConnectionLost after `fail`."""
        if self._lost:
            raise self._connection_lost()
        if len(self._waiting) >= self._limit:
            raise Busy(f"{self._limit} requests to {self._address} wait for their answer already")
        opaque = self.next_opaque()
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = future
        return opaque, future

    async def wait(self, opaque: int, answer: asyncio.Future[Response], code: int, timeout_ms: int) -> Response:
        """The answer to a request begun before and sent since. Raises RequestTimeout or ConnectionLost."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            raise timed_out(self._address, code, timeout_ms) from None
        finally:
            self._waiting.pop(opaque, None)

    def deliver(self, response: Response) -> None:
        future = self._waiting.get(response.opaque)
        if future is not None and not future.done():
            future.set_result(response)

    def fail(self, reason: str = "") -> None:
        """The connection has ended: so has the waiting."""
        self._lost = True
        self._reason = reason
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._connection_lost())

    def _connection_lost(self) -> ConnectionLost:
        detail = f": {self._reason}" if self._reason else ""
        return ConnectionLost(f"The connection to {self._address} has ended{detail}.", address=self._address)

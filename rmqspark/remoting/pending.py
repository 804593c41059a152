"""Requests of ours on one asyncio connection that wait for their answers, matched by opaque."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rmqspark.errors import Busy, ConnectionLost
from rmqspark.remoting.unanswered import timed_out

if TYPE_CHECKING:
    from collections.abc import Callable

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

    async def call(self, send: Callable[[int], None], code: int, timeout_ms: int) -> Response:
        """The answer to a request that `send` sends under the opaque it is given. Raises what that does, RequestTimeout
        or ConnectionLost, and Busy where too many wait; then nothing is sent."""
        if self._lost:
            raise self._connection_lost()
        if len(self._waiting) >= self._limit:
            raise Busy(f"{self._limit} requests to {self._address} wait for their answer already")
        opaque = self.next_opaque()
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = answer
        try:
            send(opaque)
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError:
            raise timed_out(self._address, code, timeout_ms) from None
        finally:
            del self._waiting[opaque]

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

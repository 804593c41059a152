"""What a turn of a server's loop leaves for its end: requests that came together, and answers to be written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from rmqspark.clock import sleep_us
from rmqspark.remoting.gathered import LEAST_TOGETHER, by_shape
from rmqspark.remoting.resting import REST_US, Resting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.remoting.gathered import Gathered, TakesTogether

_MOST_GATHERED_BYTES: Final = 4 * 1024 * 1024

log = structlog.get_logger("rmqspark.remoting")


class Answering(Protocol):
    """A connection that has answers for the end of a turn."""

    def flush(self) -> None:
        """Writes all that is queued."""

    def close(self, reason: str) -> None:
        """Ends it at once."""


class Turn:
    """One turn after the other, of the loop's thread. `takes` is offered the requests that come together."""

    def __init__(self, takes: TakesTogether | None) -> None:
        self.together: TakesTogether | None = None
        """Who wants requests gathered in this turn."""
        self.small_requests = 0
        """Handled in this turn, counted by the connections."""
        self._takes = takes
        self._gathered: list[Gathered] = []
        self._gathered_bytes = 0
        self._to_flush: list[Answering] = []
        self._resting = Resting()

    def flush_soon(self, connection: Answering) -> None:
        """Calls the connection's `flush` at the end of the turn."""
        if not self._to_flush:
            asyncio.get_running_loop().call_soon(self._end)
        self._to_flush.append(connection)

    def gather(self, requests: Gathered) -> None:
        """Hands requests over at the end of the turn."""
        self._gathered.append(requests)
        self._gathered_bytes += len(requests.frames)
        if self._gathered_bytes > _MOST_GATHERED_BYTES:
            self.hand_over()

    def hand_over(self) -> None:
        """Does so now: together, where they are many and are taken; else one by one."""
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        for requests in gathered:
            requests.connection.gathered = False
        try:
            for some in () if self._taken_together(gathered) else by_shape(gathered):
                if len(some) == len(gathered) or not some[0].frame_bytes or not self._taken_together(some):
                    for requests in some:
                        requests.connection.work_off_alone(requests)
        except Exception as error:  # want of memory as a rule; nobody else would tell those who wait
            log.error("requests that came together could not be handled", exc_info=error)
            for requests in gathered:
                requests.connection.close("its requests could not be handled")

    def _taken_together(self, gathered: Sequence[Gathered]) -> bool:
        total = sum([len(requests.sizes) for requests in gathered])
        return self._takes is not None and total >= LEAST_TOGETHER and self._takes.take_together(gathered)

    def _end(self) -> None:
        if self._gathered:
            self.hand_over()
        connections, self._to_flush = self._to_flush, []
        for connection in connections:
            try:
                connection.flush()
            except Exception as error:  # want of memory as a rule, and nothing to the others of this turn
                log.error("answers could not be written", exc_info=error)
                connection.close("its answers could not be written")
        requests, self.small_requests = self.small_requests, 0
        if requests:  # what the next turn is expected to be like
            self.together = self._takes if requests >= LEAST_TOGETHER else None
        if self._resting.after_turn(requests, asyncio.get_running_loop().time() * 1000):
            sleep_us(REST_US)

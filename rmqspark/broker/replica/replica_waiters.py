"""Who waits until slaves have what was appended (SYNC_MASTER), and until when.

As RocketMQ 4 had it, and RocketMQ 5 with `inSyncReplicas` of 2: where too few slaves are connected, or all are too far
behind, nobody waits, and the sender is told at once (SLAVE_NOT_AVAILABLE); else for `slave_timeout` at most
(FLUSH_SLAVE_TIMEOUT). The message is stored in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.safekeeping.flush_waiters import FlushWaiters
from rmqspark.errors import FlushSlaveTimeout, SlaveNotAvailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.errors import RmqError
    from rmqspark.replication.acks import Slaves


class ReplicaWaiters:
    """`wanted` slaves, 1 or more, have to confirm."""

    def __init__(self, slaves: Slaves, *, wanted: int, timeout_s: float, most_behind_bytes: int) -> None:
        self._slaves = slaves
        self._wanted = wanted
        self._most_behind_bytes = most_behind_bytes
        self._waiters = FlushWaiters(timeout_s, late=_late)

    def when_confirmed(self, end_offset: int, done: Callable[[RmqError | None], None]) -> None:
        """Calls `done(None)` when enough slaves have the log up to `end_offset`, else `done` with what went wrong."""
        if self._is_confirmed(end_offset):  # by a word that has come already: there may be no other in time
            done(None)
        elif refusal := self._refusal(end_offset):
            done(refusal)
        else:
            self._waiters.add(end_offset, done)

    async def confirmed(self, end_offset: int) -> None:
        """Returns then, or raises what went wrong."""
        if self._is_confirmed(end_offset):
            return
        if refusal := self._refusal(end_offset):
            raise refusal
        await self._waiters.wait(end_offset)

    def _is_confirmed(self, end_offset: int) -> bool:
        return self._slaves.confirmed_by(self._wanted) >= end_offset

    def _refusal(self, end_offset: int) -> RmqError | None:
        """Why there is nobody to wait for."""
        if self._slaves.in_step(end_offset, self._most_behind_bytes) >= self._wanted:
            return None
        return SlaveNotAvailable("Stored, but not on a slave: too few are connected, or they are too far behind.")

    def slave_confirmed(self) -> None:
        """Some slave has come further."""
        self._waiters.answer(self._slaves.confirmed_by(self._wanted))

    def close(self) -> None:
        """Nobody is told any more that it is too late."""
        self._waiters.close()


def _late() -> RmqError:
    return FlushSlaveTimeout("Stored, but not on a slave in time.")

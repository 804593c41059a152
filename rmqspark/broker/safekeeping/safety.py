"""When what was appended is as safe as promised: at once, on disk (SYNC_FLUSH), on slaves (SYNC_MASTER), or both.

Senders wait by `when_safe`, as their broker's modes promise; transactions by `flushed`, which is on disk always, and on
slaves besides where that is promised. If neither disk nor slaves come in time, the slaves' word is what a sender is
told, as by RocketMQ (CommitLog.handleDiskFlushAndHA); but a disk that has failed is told whatever they say, for their
word is about what is stored here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import FlushTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.replica.replica_waiters import ReplicaWaiters
    from rmqspark.broker.safekeeping.flusher import Flusher
    from rmqspark.errors import RmqError

    Done = Callable[[RmqError | None], None]


class Safety:
    """Tells when the log is safe up to a place. `replicas` is None where nobody waits for slaves."""

    def __init__(self, flusher: Flusher, *, sync_flush: bool, replicas: ReplicaWaiters | None = None) -> None:
        self._flusher = flusher
        self._sync_flush = sync_flush
        self._replicas = replicas
        self.keeps_waiting = sync_flush or replicas is not None
        """Whether those who wait are answered later than the append."""

    def when_safe(self, end_offset: int, done: Done) -> None:
        """Calls `done(None)` once the log is as safe as promised up to `end_offset`, else `done` with what went
        wrong."""
        if self._replicas is None:
            self._when_flushed(end_offset, done)
        elif not self._sync_flush:
            self._replicas.when_confirmed(end_offset, done)
        else:
            both = _Both(done)
            self._flusher.when_flushed(end_offset, both.flushed)
            self._replicas.when_confirmed(end_offset, both.confirmed)

    async def flushed(self, end_offset: int) -> None:
        """Returns when the log is on disk up to `end_offset`, and on slaves where that is promised. Raises
        FlushTimeout, which SlaveNotAvailable is too, and NotWritable."""
        await self._flusher.flushed(end_offset)
        if self._replicas is not None:
            await self._replicas.confirmed(end_offset)

    def hurry(self) -> None:
        """Has what is written so far go to the disk soon."""
        self._flusher.hurry()

    def publish_soon(self) -> None:
        """Has what nobody waits for become readable soon: in SYNC_FLUSH it is once it is on disk."""
        if self._sync_flush:
            self._flusher.hurry()

    def _when_flushed(self, end_offset: int, done: Done) -> None:
        if self._sync_flush:
            self._flusher.when_flushed(end_offset, done)
        else:
            done(None)


class _Both:
    """Waits for disk and slaves, then tells once."""

    def __init__(self, done: Done) -> None:
        self._done = done
        self._heard = 0
        self._of_disk: RmqError | None = None
        self._of_slaves: RmqError | None = None

    def flushed(self, error: RmqError | None) -> None:
        self._of_disk = error
        self._count()

    def confirmed(self, error: RmqError | None) -> None:
        self._of_slaves = error
        self._count()

    def _count(self) -> None:
        self._heard += 1
        if self._heard == 2:
            has_failed = self._of_disk is not None and not isinstance(self._of_disk, FlushTimeout)
            self._done(self._of_disk if has_failed else self._of_slaves or self._of_disk)

"""Brings what was appended to the disk: by the clock (ASYNC_FLUSH), or for those who wait for it (SYNC_FLUSH).

There is one flush at a time, in a thread; whoever comes meanwhile shares the next one (group commit). About once a
second a flush is a thorough one, which takes queues and index along, so that a recovery has little to do. Each queue is
a file to be synced: of thousands that takes long, and is done less often.

A wait that takes too long ends with FlushTimeout: the message is stored and may yet survive. A failed fsync ends with
NotWritable, for everybody and for good (reliability, G6): the pages may be marked clean though they never reached it.
So does a flush that memory runs out in: nobody can say how far it came.
RocketMQ: GroupCommitService, FlushRealTimeService, FlushConsumeQueueService; spec: storage, section 7.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.broker.safekeeping.flush_waiters import FlushWaiters
from rmqspark.errors import NotWritable
from rmqspark.store.disk_errors import advice
from rmqspark.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.errors import RmqError
    from rmqspark.store.config import StoreConfig
    from rmqspark.store.flush import FlushPlan
    from rmqspark.store.message_store import MessageStore

_NO_MEMORY: Final = "Memory ran out while messages were brought to the disk."
_START_AGAIN: Final = "Start the broker again: it finds what is there."

log = structlog.get_logger("rmqspark.broker")

_PAUSE_FACTOR: Final = 30
_LONGEST_PAUSE_S: Final = 15.0
_LONGEST_PAUSE_OF_MANY_S: Final = 3.0
_MANY_BYTES: Final = 256 << 20  # of the log: a start after a kill goes through up to a million small messages


def pause_s(took_s: float, interval_s: float, bytes_behind: int) -> float:
    """How long after a thorough flush the next one is due, when so many bytes of the log have come since it began:
    `interval_s`, or longer, so that they take a thirtieth of the time. Up to fifteen seconds; where much has come that
    a recovery would have to go through, up to three."""
    longest_s = _LONGEST_PAUSE_S if bytes_behind < _MANY_BYTES else _LONGEST_PAUSE_OF_MANY_S
    return max(interval_s, min(_PAUSE_FACTOR * took_s, longest_s))


class Flusher:
    """Owns every flush of one store. All methods belong to the event loop's thread."""

    def __init__(self, store: MessageStore, config: StoreConfig) -> None:
        self._store = store
        self.adopt(config)
        self._waiters = FlushWaiters(config.sync_flush_timeout / 1000)
        self._work = asyncio.Event()
        self._thorough_ended_s = -math.inf  # loop time
        self._thorough_took_s = 0.0
        self._thorough_begin = store.end_offset  # where the log ended when the last one began
        self._refusal: NotWritable | None = None  # why nothing is flushed any more
        self._is_checkpoint_refused = False
        self._is_closing = False
        self.between_flushes = asyncio.Lock()
        """Who holds it knows that no flush is under way."""

    def adopt(self, config: StoreConfig) -> None:
        """Goes by these settings from the next flush on."""
        self._interval = config.flush_interval_commit_log / 1000
        self._thorough_interval = config.flush_interval_consume_queue / 1000

    def when_flushed(self, end_offset: int, done: Callable[[RmqError | None], None]) -> None:
        """Calls `done(None)` once the log is on disk up to `end_offset`, else `done` with what went wrong."""
        self._waiters.add(end_offset, done)
        self._work.set()

    async def flushed(self, end_offset: int) -> None:
        """Returns when the log is on disk up to `end_offset`. Raises FlushTimeout, NotWritable."""
        if self._store.flushed_offset < end_offset:
            self._work.set()
            await self._waiters.wait(end_offset)

    def hurry(self) -> None:
        """Has the next flush begin now, for messages that nobody waits for but readers want to see."""
        self._work.set()

    async def run(self) -> None:
        """Flushes until `close`, and once more then."""
        while not self._is_closing:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._work.wait()
            self._work.clear()
            try:
                await self._flush()
            except MemoryError:
                self._give_up()
        self._waiters.close()

    def close(self) -> None:
        """Has `run` flush what is left and return."""
        self._is_closing = True
        self._work.set()

    async def _flush(self) -> None:
        loop, store = asyncio.get_running_loop(), self._store
        begun, end_offset = loop.time(), store.end_offset
        thorough = self._is_thorough_due(begun)
        async with self.between_flushes:
            plan = None if self._refusal else store.flusher.begin(thorough=thorough)
            if plan is not None:
                await self._carry_out(plan)
        if thorough:
            self._thorough_ended_s, self._thorough_begin = loop.time(), end_offset
            self._thorough_took_s = self._thorough_ended_s - begun
        self._settle()

    def _is_thorough_due(self, now_s: float) -> bool:
        store, since_s = self._store, now_s - self._thorough_ended_s
        bytes_behind = store.end_offset - self._thorough_begin
        due_s = pause_s(self._thorough_took_s, self._thorough_interval, bytes_behind)
        return store.flusher.recovery_offset < store.end_offset and since_s >= due_s

    async def _carry_out(self, plan: FlushPlan) -> None:
        error = None
        try:
            await in_thread(plan.run)
        except OSError as failure:
            log.error("an fsync failed, no more messages are taken", error=str(failure))
            self._refusal = NotWritable(f"The store could not write to its disk: {failure}.")
            error = failure
        self._store.flusher.finish(plan, error)
        self._tell_of_checkpoint()

    def _tell_of_checkpoint(self) -> None:
        """Once when the disk begins to refuse it, and once when that is over."""
        refusal = self._store.flusher.checkpoint_refusal
        if refusal is not None and not self._is_checkpoint_refused:
            log.error(
                "the checkpoint cannot be written, newer messages do not expire",
                error=str(refusal),
                hint=advice(refusal),
            )
        elif refusal is None and self._is_checkpoint_refused:
            log.info("the checkpoint is written again")
        self._is_checkpoint_refused = refusal is not None

    def _give_up(self) -> None:
        if self._refusal is None:
            log.error("a flush ended for want of memory, no more messages are taken")
            self._refusal = NotWritable(_NO_MEMORY, hint=_START_AGAIN)
            self._store.flusher.give_up(_NO_MEMORY, _START_AGAIN)
        self._settle()

    def _settle(self) -> None:
        """Answers those whose bytes are on disk; the rest have another flush coming, or none ever."""
        self._waiters.answer(self._store.flushed_offset)
        if self._refusal is not None:
            self._waiters.refuse(self._refusal)
        elif self._waiters:
            self._work.set()

"""Delivers messages with a delay level when their time has come, each once, over any kill.

Each level has a queue, and all of a queue wait equally long: its first message is due first. So the offset up to which
a level is delivered is all there is to know of it, and what is not noted yet the log says (`deliveries`).
RocketMQ: ScheduleMessageService; spec: semantics, section 5.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import structlog

from rmqspark.broker.delays.parking import source_of
from rmqspark.errors import NotWritable, RmqError
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.txn.queue_reader import QueueReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.broker.delays.delay_table import DelayTable
    from rmqspark.broker.delays.deliveries import Deliveries
    from rmqspark.clock import Clock
    from rmqspark.store.message_store import MessageStore

_LOOKED_AT: Final = 128  # messages of a level between two looks at what else there is to do
_NOTED_EVERY: Final = 64 << 20  # bytes of the log, which a start goes through
_ANY_DELAY_MS: Final = 1 << 60  # of a level that is not set any more

log = structlog.get_logger("rmqspark.broker")


class _Progress(NamedTuple):
    """What was delivered when the log ended at `log_offset`, to be kept once it is on disk up to there."""

    log_offset: int
    next_offsets: dict[int, int]


class DelayedMessages:
    """All of them of one broker. Belongs to the event loop's thread. `delays_ms`: the levels, the first one first."""

    def __init__(
        self,
        store: MessageStore,
        deliveries: Deliveries,
        table: DelayTable,
        clock: Clock,
        delays_ms: Sequence[int],
    ) -> None:
        self._store = store
        self._deliveries = deliveries
        self._table = table
        self._clock = clock
        self._delays_ms = delays_ms
        self._next_offsets: dict[int, int] = {}
        self._progress: _Progress | None = None
        self._refused = ""

    @property
    def needed_offset(self) -> int | None:
        """The physical offset of the first message that waits, were it not lost; None while there is none."""
        queues = self._store.queues
        waiting = (queues.place_at(SCHEDULE_TOPIC, level - 1, self._first(level)) for level in self._levels())
        return min((place for place in waiting if place is not None), default=None)

    def recover(self) -> None:
        """Finds out what has been delivered. Once, before anything is served."""
        self._next_offsets = dict(self._table.next_offsets)
        needed_offset = self.needed_offset
        if needed_offset is None:
            return
        delivered = self._deliveries.sources_from(max(needed_offset, self._table.log_offset))
        for level in self._levels():
            first, end = self._first(level), self._store.queues.max_offset(SCHEDULE_TOPIC, level - 1)
            waiting = self._store.queues.entries(SCHEDULE_TOPIC, level - 1, first, end)
            gone = np.flatnonzero(np.isin(source_of(waiting["physical_offset"]), delivered))
            self._next_offsets[level] = first + int(gone[-1]) + 1 if len(gone) else first
        self._tell_of_levels_not_set()

    async def run_round(self) -> None:
        """Delivers what is due; to be called a few times a second. What a store refuses, or its disk does not give,
        stays where it is, and so does all of its level that waits behind it; other levels go on, unless the store takes
        nothing at all."""
        refused = ""
        for level in self._levels():
            try:
                more = True
                while more:
                    more = self._deliver(level)
                    await asyncio.sleep(0)
            except NotWritable as error:
                refused = str(error)
                break
            except (RmqError, OSError) as error:
                refused = f"{error} (of delay level {level})"
        if refused and refused != self._refused:
            log.error("delayed messages wait longer: the store refuses them", reason=refused)
        self._refused = refused
        self._save_progress()

    def finish(self) -> None:
        """Notes how far each level is when all requests are done. RocketMQ's broker, should it open the store next,
        knows of deliveries only what is noted."""
        try:
            self._store.flush()
        except (OSError, ValueError) as error:  # ValueError: a flush has not come back
            log.error("what was delivered last is not on disk", reason=str(error))
        self._progress = _Progress(self._store.end_offset, dict(self._next_offsets))
        self._save_progress()

    def _levels(self) -> list[int]:
        """Those that have ever had a message."""
        return [queue_id + 1 for queue_id in self._store.queues.queue_ids(SCHEDULE_TOPIC)]

    def _tell_of_levels_not_set(self) -> None:
        for level in self._levels():
            waiting = self._store.queues.max_offset(SCHEDULE_TOPIC, level - 1) - self._first(level)
            if waiting and not self._is_set(level):
                log.warning(
                    "messages wait at a delay level that is not set any more: each until the time it was sent with",
                    level=level,
                    waiting=waiting,
                )

    def _is_set(self, level: int) -> bool:
        return level <= len(self._delays_ms)

    def _first(self, level: int) -> int:
        """The offset of the first message of a level that is not delivered, within its queue."""
        start, end = self._store.queues.bounds(SCHEDULE_TOPIC, level - 1)
        return min(max(self._next_offsets.get(level, start), start), end)

    # --- deliveries

    def _deliver(self, level: int) -> bool:
        """Some of what is due of a level; whether there was any. Raises what the store refuses them with."""
        first = self._first(level)
        due = self._count_due(level, first)
        if not due:
            return False
        reader = QueueReader(self._store, SCHEDULE_TOPIC, first, queue_id=level - 1, end_offset=first + due)
        records = reader.chunk()
        done = self._deliveries.deliver(records)
        self._next_offsets[level] = reader.next_offset if done == len(records) else records[done].queue_offset
        return self._next_offsets[level] > first

    def _count_due(self, level: int, first: int) -> int:
        """How many of a level's next messages are to be delivered now.

        A time that is further away than the level's delay was told by a clock that has been put back since (RocketMQ
        corrects it so, too).
        """
        now_ms = self._clock.now_ms()
        delay_ms = self._delays_ms[level - 1] if self._is_set(level) else _ANY_DELAY_MS
        times = self._store.queues.entries(SCHEDULE_TOPIC, level - 1, first, first + _LOOKED_AT)["tags_code"]
        early = np.flatnonzero((times > now_ms) & (times <= now_ms + delay_ms))
        return int(early[0]) if len(early) else len(times)

    # --- over a restart

    def _save_progress(self) -> None:
        """Notes how far each level is, once what was delivered is on disk: an offset that survived a power loss better
        than the log would pass over messages that nobody got."""
        waiting = self._progress
        if waiting is not None:
            if self._store.flushed_offset < waiting.log_offset:
                return
            if self._is_news(waiting):
                self._table.put(waiting.next_offsets, waiting.log_offset, self._clock.now_ms())
        self._progress = _Progress(self._store.end_offset, dict(self._next_offsets))

    def _is_news(self, progress: _Progress) -> bool:
        known = self._table
        is_far = progress.log_offset - known.log_offset > _NOTED_EVERY
        return progress.next_offsets != known.next_offsets or (is_far and bool(progress.next_offsets))

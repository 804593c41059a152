"""Delivers messages that ask for a time, each once, over any kill, and in the second that they ask for.

They wait in one queue in the order they were sent in, so what is due when is kept beside it, in memory (`timetable`),
and made again from the queue at a start, while requests are served already. What has been delivered a start knows from
its note: everything due before a time; and from the log, of what came since (`deliveries`).

The time that counts here never goes back: a message that is due by it is delivered at once, whatever the clock says.
RocketMQ: TimerMessageStore; spec: semantics, section 6.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.broker.delays.deliver_times import PRECISION_MS, times_told, topic_of, waiting_of
from rmqspark.broker.delays.parking import source_of
from rmqspark.broker.delays.timetable import Timetable
from rmqspark.broker.metrics.if_memory_allows import IF_MEMORY_ALLOWS
from rmqspark.errors import Busy, InvalidMessage, RmqError
from rmqspark.protocol.bodies.admin import TimerTable
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.txn.queue_reader import QueueReader, records_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.broker.delays.deliveries import Deliveries
    from rmqspark.broker.delays.timer_table import TimerProgress
    from rmqspark.broker.metrics.timer_counts import TimerCounts
    from rmqspark.clock import Clock
    from rmqspark.protocol.records.record import Record
    from rmqspark.store.message_store import MessageStore

MOST_WAITING: Final = 10_000_000  # some hundred megabytes

_LOOKED_AT: Final = 32  # messages between two looks at what else there is to do: each may lie by itself
_BYTES_AT_ONCE: Final = 8 << 20  # they are appended together, and have to find room in one file of the log
_NOTED_EVERY_MS: Final = 1_000
_NOTED_EVERY_BYTES: Final = 64 << 20  # of the log, which a start goes through

log = structlog.get_logger("rmqspark.broker")


class TimedMessages:
    """All of them of one broker. Belongs to the event loop's thread."""

    def __init__(
        self,
        store: MessageStore,
        deliveries: Deliveries,
        noted: TimerProgress,
        clock: Clock,
        counts: TimerCounts,
    ) -> None:
        self._store = store
        self._deliveries = deliveries
        self._noted = noted
        self._clock = clock
        self.counts = counts
        self._timetable = Timetable()
        self._known = TimerTable()
        self._delivered: frozenset[int] = frozenset()  # sources, of messages that the queue had at the start
        self._end_at_start = 0
        self._next_offset = 0  # of the queue: what lies before is in the timetable, or delivered
        self._read_ms = 0  # what was due before is delivered
        self._progress: TimerTable | None = None  # to be noted once the log is on disk up to there
        self._has_news = False
        self._looked_ms = 0
        self._refused = ""

    def require_room(self, messages: int = 1) -> None:
        """Raises Busy where so many more may not wait. Of those that were there at the start, what is not looked at yet
        does not count: most of that may be delivered."""
        unread = self._store.queues.max_offset(TIMER_TOPIC, 0) - max(self._next_offset, self._end_at_start)
        if self._timetable.size + unread + messages > MOST_WAITING:
            raise Busy(
                f"{MOST_WAITING} messages wait to be delivered: this broker keeps no more.",
                hint="Send it later, or without a deliver time.",
            )

    @property
    def next_offset(self) -> int:
        """Of the queue: what lies behind has not been looked at."""
        return self._next_offset

    @property
    def unread(self) -> int:
        """How many messages have been sent that have not been looked at."""
        return max(0, self._store.queues.max_offset(TIMER_TOPIC, 0) - self._next_offset)

    def behind_s(self, now_ms: int) -> int:
        """Seconds for which something has been due; 0 too while nothing has been looked at yet."""
        return max(0, now_ms - self._read_ms) // 1000 if self._read_ms else 0

    @property
    def waiting(self) -> int:
        """How many messages wait, those that are due included."""
        return self._timetable.size

    def waiting_by_time(self, from_ms: int, bounds_ms: Sequence[int]) -> list[int]:
        """How many are due up to each of these times, and not up to the one before."""
        return self._timetable.count_between(from_ms, bounds_ms)

    @property
    def needed_offset(self) -> int | None:
        """The physical offset of the first message that waits, were it not lost; None while there is none."""
        return self._store.queues.place_at(TIMER_TOPIC, 0, self._first())

    def recover(self) -> None:
        """Finds out what has been delivered. Once, before anything is served."""
        self._known = self._noted.known
        self._read_ms = self._known.readTimeMs
        start, self._end_at_start = self._store.queues.bounds(TIMER_TOPIC, 0)
        self._next_offset = min(max(self._known.firstOffset, start), self._end_at_start)
        needed_offset = self.needed_offset
        if needed_offset is not None:
            self._delivered = frozenset(self._deliveries.sources_from(max(needed_offset, self._known.logOffset)))

    async def run_round(self) -> None:
        """Delivers what is due; to be called a few times a second. What a store refuses waits on."""
        try:
            await _repeat(self._read_more)
            self._read_ms = max(self._read_ms, self._clock.now_ms() // PRECISION_MS * PRECISION_MS)
            await _repeat(self._deliver)
        except RmqError as error:
            if str(error) != self._refused:
                log.error("messages wait beyond their time: the store takes none", reason=str(error))
            self._refused = str(error)
            return
        self._refused = ""
        self._save_progress()

    def finish(self) -> None:
        """Notes how far it is when all requests are done, for RocketMQ's broker, too."""
        is_used = self._store.queues.max_offset(TIMER_TOPIC, 0) > 0
        if not is_used or not self._has_read_all or self._timetable.next_due(self._read_ms, 1) is not None:
            return  # what was noted last is still the most that can be said
        try:
            self._store.flush()
            self._noted.hand_over(self._now(), self._clock.now_ms())
        except (OSError, ValueError) as error:  # ValueError: a flush has not come back
            log.error("what was delivered last is not on disk", reason=str(error))

    @property
    def _has_read_all(self) -> bool:
        """Whether it is known of all that waited at the start which were delivered."""
        return self._next_offset >= self._end_at_start

    def _first(self) -> int:
        """The offset of the first message that waits, or may."""
        first = self._timetable.first_offset()
        return self._next_offset if first is None else first

    # --- reading what was sent

    def _read_more(self) -> bool:
        """Takes in some of what was sent since; whether there was any."""
        reader = QueueReader(self._store, TIMER_TOPIC, self._next_offset)
        for record in reader.chunk():
            self._take(record)
        has_more = reader.next_offset > self._next_offset
        self._next_offset = reader.next_offset
        self._has_news |= has_more
        if self._delivered and self._has_read_all:
            self._delivered = frozenset()
        return has_more

    def _take(self, record: Record) -> None:
        try:
            waiting = waiting_of(record)
        except InvalidMessage as error:
            log.error("a message is left out", reason=str(error))
            return
        second_ms = waiting.due_ms // PRECISION_MS * PRECISION_MS  # others may have said it to the millisecond
        if waiting.is_recall:
            self._timetable.overrule(second_ms, waiting.key, None)
        elif not self._was_delivered(record, waiting.due_ms):
            if waiting.comes_again:
                self._timetable.overrule(second_ms, waiting.key, record.queue_offset)
            self._timetable.add(second_ms, record.queue_offset)
            is_new = record.queue_offset >= self._end_at_start
            with IF_MEMORY_ALLOWS:
                self.counts.taken_in(waiting.topic, waiting.due_ms - record.born_timestamp_ms, is_new=is_new)

    def _was_delivered(self, record: Record, due_ms: int) -> bool:
        """Of one that the log says was, the time had come: the next note has to say so, though the clock may have been
        set back since, or its record would count as one that waits when the log is read from there on."""
        if record.queue_offset < self._known.queueOffset and due_ms < self._known.readTimeMs:
            return True
        if source_of(record.physical_offset) not in self._delivered:
            return False
        self._read_ms = max(self._read_ms, (due_ms // PRECISION_MS + 1) * PRECISION_MS)
        return True

    # --- deliveries

    def _deliver(self) -> bool:
        """Some of what is due; whether there was any. Raises what the store refuses them with."""
        due = self._timetable.next_due(self._read_ms, _LOOKED_AT)
        if due is None:
            return False
        read, count = records_at(self._store, TIMER_TOPIC, due.queue_offsets, _BYTES_AT_ONCE)
        due = due._replace(queue_offsets=due.queue_offsets[:count])
        records = read
        if self._timetable.any_overruled(due.due_ms):
            records = [record for record in read if self._is_wanted(record, due.due_ms)]
        done = self._deliveries.deliver(records, times_told(self._clock.now_ms()))
        if done < len(records):
            left = records[done].queue_offset
            due, read = due.before(left), [record for record in read if record.queue_offset < left]
        self._timetable.done(due)
        with IF_MEMORY_ALLOWS:
            for record in read:
                self.counts.time_came(topic_of(record))
        self._has_news = True
        return True

    def _is_wanted(self, record: Record, due_ms: int) -> bool:
        return self._timetable.counts(due_ms, waiting_of(record).key, record.queue_offset)

    # --- over a restart

    def _now(self) -> TimerTable:
        """How far it is. Only where everything is delivered that is due."""
        return TimerTable(self._read_ms, self._next_offset, self._first(), self._store.end_offset)

    def _save_progress(self) -> None:
        """Notes how far it is, once what was delivered is on disk: a note that survived a power loss better than the
        log would pass over messages that nobody got."""
        waiting = self._progress
        if waiting is not None:
            if self._store.flushed_offset < waiting.logOffset:
                return
            self._noted.note(waiting)
        self._progress = None
        now_ms = self._clock.monotonic_ms()
        if self._is_news and now_ms - self._looked_ms >= _NOTED_EVERY_MS:
            self._progress, self._looked_ms, self._has_news = self._now(), now_ms, False

    @property
    def _is_news(self) -> bool:
        log_bytes = self._store.end_offset - self._noted.table().logOffset
        is_far = log_bytes > _NOTED_EVERY_BYTES and self._timetable.size > 0
        return self._has_read_all and (self._has_news or is_far)


async def _repeat(step: Callable[[], bool]) -> None:
    """As long as it did anything, with looks at what else there is to do in between."""
    more = True
    while more:
        more = step()
        await asyncio.sleep(0)

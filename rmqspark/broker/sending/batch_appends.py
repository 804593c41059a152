"""Batches of one turn of the event loop on their way into the log: as few appends of them as may be.

Records of many batches are cheaper made together (`batches.py`), so first all for a topic are tried as one bulk, then
those of each queue. What cannot be stored is found one by one.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from rmqspark.broker.sending.batches import records_of
from rmqspark.errors import InvalidArgument, RmqError
from rmqspark.protocol.records.offset_ids import StoredRun, StoredTogether

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.broker.sending.batches import Batch
    from rmqspark.broker.stats import BrokerStats
    from rmqspark.store.message_store import MessageStore

_LEAST_BULK_BYTES: Final = 8 * 1024  # below, making arrays of them costs more than it saves

_topic_of = attrgetter("batch.origin.topic")
_queue_of = attrgetter("batch.origin.topic", "batch.origin.queue_id")


class BatchSending(Protocol):
    """One batch on its way, and whoever wants to know."""

    @property
    def batch(self) -> Batch: ...

    def let_go(self) -> None:
        """As in `appender.Sending`."""

    def finish(self, queue_offset: int, stored: StoredRun, error: RmqError | None) -> None:
        """Stored, the first message at `queue_offset`; `error` as there."""

    def refuse(self, error: RmqError) -> None:
        """Nothing of it is stored."""


class WhenSafe(Protocol):
    """Calls `done` when what ends there in the log is as safe as was promised to those who wait."""

    def __call__(self, end_offset: int, done: Callable[[RmqError | None], None], /, *, waits: bool) -> None: ...


class BatchAppends:
    """Appends batches for the appender, whose `when_safe` it is given; `keeps_waiting` says whether that is ever later
    than at once."""

    def __init__(self, store: MessageStore, stats: BrokerStats, when_safe: WhenSafe, *, keeps_waiting: bool) -> None:
        self._store = store
        self._stats = stats
        self._when_safe = when_safe
        self._keeps_waiting = keeps_waiting

    def append(self, sendings: list[BatchSending]) -> None:
        """Appends them, those for one queue side by side, and has each told where it is, or why not."""
        for _, of_topic in groupby(sorted(sendings, key=_queue_of), _topic_of):
            self._append_together(list(of_topic))

    def _append_together(self, sendings: list[BatchSending]) -> None:
        """Appends batches for one topic, those for one queue side by side: all as one bulk, or those of each queue,
        or each alone."""
        if self._append_as_bulk(sendings):
            return
        lanes = [list(of_queue) for _, of_queue in groupby(sendings, _queue_of)]
        if len(lanes) > 1:
            for lane in lanes:
                self._append_together(lane)
        else:
            for sending in sendings:
                self._append_alone(sending)

    def _append_as_bulk(self, sendings: list[BatchSending]) -> bool:
        """Appends batches for one topic, those for one queue side by side, as one bulk; False, with nothing done, where
        that is not possible or not worth it."""
        batches = [sending.batch for sending in sendings]
        found = records_of(batches) if sum(len(batch.body) for batch in batches) >= _LEAST_BULK_BYTES else None
        if found is None or not self._store.writer.has_room(len(found.records.buffer)):
            return False
        records, counts = found
        runs = found.runs(batches)
        try:
            appended = self._store.writer.append_runs(runs, records)
        except InvalidArgument:
            return False  # one of them is at fault: which, and why, shows one by one
        except RmqError as error:
            self._stats.count_failed_puts(len(records))
            for sending in sendings:
                sending.refuse(error)
            return True
        self._stats.count_puts(len(records), len(records.buffer))
        next_offsets = {run.queue_id: place.queue_offset for run, place in zip(runs, appended, strict=True)}
        stored = StoredTogether(records.positions + appended[0].physical_offset)
        self._tell_each(sendings, counts, next_offsets, stored)
        return True

    def _tell_each(
        self,
        sendings: list[BatchSending],
        counts: Sequence[int],
        next_offsets: dict[int, int],
        stored: StoredTogether,
    ) -> None:
        """Answers batches that lie one behind the other in the log, and in each queue from `next_offsets` on."""
        first = 0
        for sending, count in zip(sendings, counts, strict=True):
            queue_id = sending.batch.origin.queue_id
            self._tell(sending, next_offsets[queue_id], StoredRun(stored, first, count))
            next_offsets[queue_id] += count
            first += count

    def _append_alone(self, sending: BatchSending) -> None:
        try:
            drafts = sending.batch.drafts()
            places = self._store.append(drafts, together=True)
        except RmqError as error:
            self._stats.count_failed_puts(1)
            sending.refuse(error)
            return
        self._stats.count_puts(len(places), sum(place.size for place in places))
        stored = StoredRun.of(np.array([place.physical_offset for place in places]))
        self._tell(sending, places[0].queue_offset, stored)

    def _tell(self, sending: BatchSending, queue_offset: int, stored: StoredRun) -> None:
        """Answers a batch when it is safe. All that has been appended so far is flushed with it."""
        waits = sending.batch.waits_for_flush
        if waits and self._keeps_waiting:
            sending.let_go()
        self._when_safe(
            self._store.end_offset,
            partial(sending.finish, queue_offset, stored),
            waits=waits,
        )

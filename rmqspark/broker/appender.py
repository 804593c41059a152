"""Gathers the sends of one turn of the event loop into one append, and answers each when it is as safe as promised.

Under load many sends arrive in one turn. Appended together they cost one write to the log; answered together they cost
one write per connection. Nobody waits for company: the append happens at the end of the turn the send came in.

What a sender is told: with ASYNC_FLUSH "stored" once the log has it; with SYNC_FLUSH once it is on disk, except for
messages whose property WAIT is false. A store that refuses or fails is told to every send concerned.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from rmqspark.errors import InvalidMessage, RmqError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.broker.flusher import Flusher
    from rmqspark.broker.stats import BrokerStats
    from rmqspark.protocol.record_batch import RecordBatch
    from rmqspark.store.draft import Appended, BulkAppended, Draft
    from rmqspark.store.message_store import MessageStore


class Sending(Protocol):
    """One message on its way, and whoever wants to know."""

    @property
    def draft(self) -> Draft: ...

    @property
    def waits_for_flush(self) -> bool: ...

    def finish(self, appended: Appended, error: RmqError | None) -> None:
        """Stored at `appended`; `error` says why it may not be on disk although that was promised."""

    def refuse(self, error: RmqError) -> None:
        """Not stored."""


class Appender:
    """The only writer of the store's log. All methods belong to the event loop's thread."""

    def __init__(self, store: MessageStore, flusher: Flusher, stats: BrokerStats, *, sync_flush: bool) -> None:
        self._store = store
        self._flusher = flusher
        self._stats = stats
        self._sync_flush = sync_flush
        self._gathered: list[Sending] = []

    def submit(self, sending: Sending) -> None:
        """Appends at the end of this turn of the loop; `sending` hears of the outcome."""
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self.append_gathered)
        self._gathered.append(sending)

    def append_gathered(self) -> None:
        """Appends what was submitted so far. Whoever appends by another way calls it first, to keep the order."""
        if self._gathered:
            sendings, self._gathered = self._gathered, []
            self._append_all(sendings)

    def append_together(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Appends the messages of one batch side by side, all or none."""
        self.append_gathered()
        appended = self._store.append(drafts, together=True)
        self._stats.count_puts(len(appended), sum(place.size for place in appended))
        return appended

    def append_bulk(self, topic: str, queue_id: int, records: RecordBatch) -> BulkAppended:
        """Appends a buffer of records, all or none; they are patched in place."""
        self.append_gathered()
        appended = self._store.append_bulk(topic, queue_id, records)
        self._stats.count_puts(appended.count, len(records.buffer))
        return appended

    def when_safe(self, end_offset: int, done: Callable[[RmqError | None], None], *, waits: bool = True) -> None:
        """Calls `done` when what ends at `end_offset` in the log is as safe as the flush mode promises."""
        if self._sync_flush and waits:
            self._flusher.when_flushed(end_offset, done)
            return
        if self._sync_flush:
            self._flusher.hurry()
        done(None)

    def _append_all(self, sendings: list[Sending]) -> None:
        try:
            appended = self._store.append([sending.draft for sending in sendings])
        except InvalidMessage as error:
            self._append_one_by_one(sendings, error)
        except RmqError as error:
            self._stats.count_failed_puts(len(sendings))
            for sending in sendings:
                sending.refuse(error)
        else:
            self._stats.count_puts(len(appended), sum([place.size for place in appended]))
            self._answer(sendings, appended)

    def _append_one_by_one(self, sendings: list[Sending], error: InvalidMessage) -> None:
        """One message cannot be stored as it is; the others of its turn have nothing to do with it."""
        if len(sendings) == 1:
            self._stats.count_failed_puts(1)
            sendings[0].refuse(error)
            return
        for sending in sendings:
            self._append_all([sending])

    def _answer(self, sendings: list[Sending], appended: list[Appended]) -> None:
        if not self._sync_flush:
            for sending, place in zip(sendings, appended, strict=True):
                sending.finish(place, None)
            return
        waiting = [
            (sending, place) for sending, place in zip(sendings, appended, strict=True) if sending.waits_for_flush
        ]
        for sending, place in zip(sendings, appended, strict=True):
            if not sending.waits_for_flush:
                sending.finish(place, None)
        if not waiting:
            self._flusher.hurry()
            return

        def answer_waiting(error: RmqError | None) -> None:
            for sending, place in waiting:
                sending.finish(place, error)

        last = waiting[-1][1]
        self._flusher.when_flushed(last.physical_offset + last.size, answer_waiting)

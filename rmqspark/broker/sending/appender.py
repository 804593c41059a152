"""Gathers the sends of one turn of the event loop into one append, and answers each when it is as safe as promised.

Under load many sends arrive in one turn. Appended together they cost one write to the log; answered together they cost
one write per connection. Nobody waits for company: the append happens at the end of the turn the send came in.

What a sender is told: with ASYNC_FLUSH "stored" once the log has it; with SYNC_FLUSH once it is on disk, and with
SYNC_MASTER once a slave has it, except for messages whose property WAIT is false. A store that refuses or fails is told
to every send concerned.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import structlog

from rmqspark.broker.metrics.if_memory_allows import IF_MEMORY_ALLOWS
from rmqspark.broker.safekeeping.flush_waiters import settle
from rmqspark.broker.sending.batch_appends import BatchAppends
from rmqspark.broker.sending.usual_send import finish_all
from rmqspark.errors import InvalidArgument, RmqError, ServerFault
from rmqspark.protocol.bulk.bulk_rows import BulkRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.broker.metrics.counted import Counted
    from rmqspark.broker.safekeeping.safety import Safety
    from rmqspark.broker.sending.batch_appends import BatchSending
    from rmqspark.broker.sending.usual_send import UsualSend
    from rmqspark.broker.stats import BrokerStats
    from rmqspark.protocol.bulk.topic_rows import TopicRun
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.store.appending.single_tables import SingleTable, StoredTable
    from rmqspark.store.draft import Appended, BulkAppended, Draft
    from rmqspark.store.message_store import MessageStore


log = structlog.get_logger("rmqspark.broker")

_MOST_BATCHES_BYTES: Final = 8 * 1024 * 1024  # gathered in one turn


class Sending(Protocol):
    """One message on its way, and whoever wants to know."""

    @property
    def draft(self) -> Draft: ...

    @property
    def waits_for_flush(self) -> bool: ...

    @property
    def topic(self) -> str: ...

    @property
    def has_shard(self) -> bool:
        """Whether it has a sharding key."""

    def let_go(self) -> None:
        """Stored; what is kept until the answer has no need of the message itself."""

    def finish(self, queue_offset: int, physical_offset: int, error: RmqError | None) -> None:
        """Stored at these offsets; `error` says why it may not be on disk although that was promised."""

    def refuse(self, error: RmqError) -> None:
        """Not stored."""


class Appender:
    """The only writer of the store's log. All methods belong to the event loop's thread."""

    def __init__(self, store: MessageStore, safety: Safety, stats: BrokerStats, counted: Counted) -> None:
        self._store = store
        self._safety = safety
        self._stats = stats
        self._arrivals = counted.arrivals
        self._latency = counted.latency
        self._began_ms = 0  # when the first of `_usual` came
        self.has_shards = False
        """Whether a usual message that was submitted since the last append may have a sharding key."""
        self._keeps_waiting = safety.keeps_waiting
        self._gathered: list[Sending] = []
        self._usual: list[UsualSend] = []  # as long as nothing else is gathered
        self._batches: list[BatchSending] = []
        self._batches_bytes = 0
        self._batch_appends = BatchAppends(store, stats, self.when_safe, keeps_waiting=self._keeps_waiting)

    @property
    def end_offset(self) -> int:
        """Of the log."""
        return self._store.end_offset

    @property
    def gathered(self) -> int:
        """How many messages were submitted in this turn, and are not appended yet, but for plain ones."""
        return len(self._gathered)

    @property
    def keeps_waiting(self) -> bool:
        """Whether those who wait for the flush, or for slaves, are answered after it."""
        return self._keeps_waiting

    def submit(self, sending: Sending) -> None:
        """Appends at the end of this turn of the loop; `sending` hears of the outcome."""
        if self._batches:
            self.append_gathered()
        if self._usual:
            self._gathered, self._usual = [*self._usual], []
        elif not self._gathered:
            asyncio.get_running_loop().call_soon(self.append_gathered)
        self._gathered.append(sending)

    def submit_usual(self, sending: UsualSend) -> None:
        """The same at less cost, if this turn brings nothing but such messages."""
        if self._gathered or self._batches:
            self.submit(sending)
            return
        if not self._usual:
            self._began_ms = self._latency.now_ms()
            asyncio.get_running_loop().call_soon(self.append_gathered)
        self._usual.append(sending)

    def submit_batch(self, sending: BatchSending) -> None:
        """Appends a batch at the end of this turn, its messages side by side, all or none."""
        if self._gathered or self._usual:
            self.append_gathered()
        if not self._batches:
            asyncio.get_running_loop().call_soon(self.append_gathered)
        self._batches.append(sending)
        self._batches_bytes += len(sending.batch.body)
        if self._batches_bytes >= _MOST_BATCHES_BYTES:
            self.append_gathered()

    def append_gathered(self) -> None:
        """Appends what was submitted so far. Whoever appends by another way calls it first, to keep the order."""
        usual, gathered, batches = self._usual, self._gathered, self._batches
        try:  # here, as calling anything takes memory
            if usual:
                self._usual = []
                self._append_usual(usual)
            elif gathered:
                self._gathered = []
                self._append_all(gathered)
            elif batches:
                self._batches, self._batches_bytes = [], 0
                self._batch_appends.append(batches)
        except Exception as error:  # want of memory as a rule: told to all of them, for no one else hears of it here
            log.error("an append failed", exc_info=error)
            self._refuse(usual or gathered or batches, ServerFault(f"{type(error).__name__}: {error}"))

    def append_together(
        self, drafts: Sequence[Draft], *, again: bool = False, makes_room: bool = False
    ) -> list[Appended]:
        """Appends the messages of one batch side by side, all or none; the rest as in `Writer.append`."""
        self.append_gathered()
        appended = self._store.append(drafts, together=True, again=again, makes_room=makes_room)
        self._stats.count_puts(len(appended), sum(place.size for place in appended))
        return appended

    def append_table(self, table: SingleTable, *, have_shards: bool = False) -> StoredTable | None:
        """Appends messages, all or none; None, with none stored, where the newest file has no room for them.
        `have_shards`: they have sharding keys."""
        self.append_gathered()
        begin = self._store.end_offset
        stored = self._store.writer.append_table(table)
        if stored is not None:
            self._stats.count_puts(len(table.sizes), self._store.end_offset - begin)
            if have_shards:
                with IF_MEMORY_ALLOWS:
                    for topic, rows in table.targets.by_topic(table.target_of):
                        self._arrivals.tell(topic, "fifo", table.sizes[rows])
        return stored

    def append_bulk(self, topic: str, queue_id: int, bulk: RecordBatch | BulkRows) -> BulkAppended:
        """Appends a buffer of records, all or none, patched in place; or the rows that they are to be made of."""
        self.append_gathered()
        begin = self._store.end_offset
        if isinstance(bulk, BulkRows):
            appended = self._store.writer.append_rows(topic, queue_id, bulk)
        else:
            appended = self._store.append_bulk(topic, queue_id, bulk)
        self._stats.count_puts(appended.count, self._store.end_offset - begin)
        return appended

    def append_topic_rows(self, runs: Sequence[TopicRun], rows: BulkRows) -> BulkAppended:
        """Appends rows for many queues, all or none; returns where those of the first are."""
        self.append_gathered()
        begin = self._store.end_offset
        first, *_ = self._store.writer.append_topic_rows(runs, rows)
        self._stats.count_puts(len(rows.crcs), self._store.end_offset - begin)
        return first

    def when_safe(self, end_offset: int, done: Callable[[RmqError | None], None], *, waits: bool = True) -> None:
        """Calls `done` when what ends at `end_offset` in the log is as safe as the broker's modes promise."""
        if waits:
            self._safety.when_safe(end_offset, done)
            return
        self._safety.publish_soon()
        done(None)

    async def safe(self, end_offset: int) -> None:
        """Returns when what ends at `end_offset` in the log is as safe as the broker's modes promise. Raises what keeps
        it from being so: FlushTimeout, which SlaveNotAvailable is too, and NotWritable."""
        told: asyncio.Future[RmqError | None] = asyncio.get_running_loop().create_future()
        self._safety.when_safe(end_offset, partial(settle, told))
        if (error := await told) is not None:
            raise error

    def _append_usual(self, sendings: list[UsualSend]) -> None:
        begin = self._store.end_offset
        try:
            places = self._store.writer.append_singles(sendings)
        except InvalidArgument as error:
            self._append_one_by_one(sendings, error)
            return
        except RmqError as error:
            self._refuse(sendings, error)
            return
        if places is None:
            self._append_all(sendings)
            return
        self._stats.count_puts(len(sendings), self._store.end_offset - begin)
        if self.has_shards:
            with IF_MEMORY_ALLOWS:
                self._tell_shards(sendings, np.diff([*places.physical_offsets, self._store.end_offset]).tolist())
        if self._keeps_waiting:
            self._answer(sendings, *places, began_ms=self._began_ms)
            return
        try:
            finish_all(sendings, places)
        except MemoryError:  # stored, and nobody can say who has been told
            for sending in sendings:
                sending.connection.close("there is no memory for its answers")
        with IF_MEMORY_ALLOWS:
            self._latency.sends_answered(len(sendings), self._began_ms, None)

    def _append_all(self, sendings: Sequence[Sending]) -> None:
        begin = self._store.end_offset
        try:
            appended = self._store.append([sending.draft for sending in sendings])
        except InvalidArgument as error:
            self._append_one_by_one(sendings, error)
        except RmqError as error:
            self._refuse(sendings, error)
        else:
            self._stats.count_puts(len(appended), self._store.end_offset - begin)
            with IF_MEMORY_ALLOWS:
                self._tell_shards(sendings, [place.size for place in appended])
            places = [(place.queue_offset, place.physical_offset) for place in appended]
            self._answer(sendings, *zip(*places, strict=True))

    def _tell_shards(self, sendings: Sequence[Sending], sizes: Sequence[int]) -> None:
        """Of messages that have just been appended."""
        self.has_shards = False
        for sending, size in zip(sendings, sizes, strict=True):
            if sending.has_shard:
                self._arrivals.tell(sending.topic, "fifo", (size,))

    def _refuse(self, sendings: Sequence[Sending | BatchSending], error: RmqError) -> None:
        self._stats.count_failed_puts(len(sendings))
        for sending in sendings:
            sending.refuse(error)

    def _append_one_by_one(self, sendings: Sequence[Sending], error: InvalidArgument) -> None:
        """One message cannot be stored as it is, or where it belongs; that is nothing to the others of its turn."""
        if len(sendings) == 1:
            self._refuse(sendings, error)
            return
        for sending in sendings:
            self._append_all([sending])

    def _answer(
        self,
        sendings: Sequence[Sending],
        queue_offsets: Sequence[int],
        physical_offsets: Sequence[int],
        *,
        began_ms: int | None = None,
    ) -> None:
        """Tells each where it is stored, when that is safe. All of them have just been appended. `began_ms` is when
        those came that nobody times but the appender."""
        stored = zip(sendings, queue_offsets, physical_offsets, strict=True)
        if not self._keeps_waiting:
            for sending, queue_offset, physical_offset in stored:
                sending.finish(queue_offset, physical_offset, None)
            return
        waiting: list[tuple[Sending, int, int]] = []
        for sending, queue_offset, physical_offset in stored:
            if sending.waits_for_flush:
                sending.let_go()
                waiting.append((sending, queue_offset, physical_offset))
            else:
                sending.finish(queue_offset, physical_offset, None)
        if not waiting:
            self._safety.publish_soon()
            return

        def answer_waiting(error: RmqError | None) -> None:
            for sending, queue_offset, physical_offset in waiting:
                sending.finish(queue_offset, physical_offset, error)
            if began_ms is None:
                return
            with IF_MEMORY_ALLOWS:
                self._latency.sends_answered(len(waiting), began_ms, error)

        self._safety.when_safe(self._store.end_offset, answer_waiting)

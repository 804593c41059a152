"""Appending: places and offsets are decided first, the log is written once, and only then does anything advance."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.errors import InvalidMessage, NotWritable
from rmqspark.protocol.records.message_id import ZERO_HOST
from rmqspark.protocol.records.record import patch_record
from rmqspark.store.appending.beside import WriteBeside, at_once
from rmqspark.store.appending.bulk_check import check_bulk, check_keys, check_rows, check_topic_rows
from rmqspark.store.appending.made_records import Room, made_of_records, made_of_rows, made_of_topic_rows
from rmqspark.store.appending.placed_drafts import PlacedDrafts, in_one
from rmqspark.store.appending.placed_records import patch_placed, pieces, queue_offsets
from rmqspark.store.appending.single_entries import SingleEntries
from rmqspark.store.appending.single_tables import lay_out_table
from rmqspark.store.appending.singles import lay_out
from rmqspark.store.appending.vouchers import drafts_in_doubt, in_doubt, singles_in_doubt, table_in_doubt, vouchers
from rmqspark.store.appending.warming import Warming
from rmqspark.store.disk_errors import advice
from rmqspark.store.dispatcher import Dispatch, QueuedEntries
from rmqspark.store.draft import Appended, BulkAppended, RowRun, Run
from rmqspark.store.log.commit_log import Placement
from rmqspark.store.log.segment import Segment
from rmqspark.store.queues.consume_queue import ENTRY
from rmqspark.store.queues.entries import entries_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.clock import Clock
    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.bulk.topic_rows import TopicRun
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.store.appending.beside import Begin, Work
    from rmqspark.store.appending.made_records import MadeRecords
    from rmqspark.store.appending.single_tables import SingleTable, StoredTable
    from rmqspark.store.appending.singles import Places, Single
    from rmqspark.store.appending.warming import BeginAhead
    from rmqspark.store.appending.write_gate import WriteGate
    from rmqspark.store.config import StoreConfig
    from rmqspark.store.dispatcher import Dispatcher, Queued
    from rmqspark.store.draft import Draft
    from rmqspark.store.files import Buffer
    from rmqspark.store.found_records import FoundRecords
    from rmqspark.store.index.index import Index
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queues import ConsumeQueues

RECORD_OVERHEAD_BYTES: Final = 64 << 10  # what RocketMQ allows a record beyond its body
_LONG_FLUSH_MS: Final = 5_000


class Writer:
    """Takes messages. `store_host` is written into every record."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        dispatcher: Dispatcher,
        found: FoundRecords,
        gate: WriteGate,
        clock: Clock,
    ) -> None:
        self._log = log
        self._warming = Warming(log, clock)
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._found = found
        self._gate = gate
        self._clock = clock
        self._is_sync = config.syncs_flush
        self._longest_flush_ms = max(config.sync_flush_timeout, _LONG_FLUSH_MS)
        self._stands_at: tuple[int, int] | None = None  # dispatcher and disk, where something waits; and since when
        self._waits_since_ms = 0
        self._max_body_bytes = config.max_message_size
        self._max_record_bytes = config.max_message_size + RECORD_OVERHEAD_BYTES
        self.store_host = ZERO_HOST
        self.store_timestamp_ms = 0  # of the newest record
        self._room = Room()
        self.beside: Begin = at_once
        self.ahead: BeginAhead | None = None

    def append(
        self, drafts: Sequence[Draft], *, together: bool = False, again: bool = False, makes_room: bool = False
    ) -> list[Appended]:
        """Stores messages in this order with one write per file touched; all of them, or none.

        With `together` they lie in one file (a batch). `again`: they were taken once and are written again, so a
        `max_message_size` that was lowered since does not count; with `makes_room` older files may go then, too: what
        is kept free of a full disk is for them. Raises NotWritable, InvalidMessage, InvalidName.
        """
        if not drafts:
            return []
        self._admit(makes_room=makes_room)
        now_ms = self._clock.now_ms()
        records = [draft.record for draft in drafts]
        sizes = [len(record) for record in records]
        if max(sizes) > self._max_record_bytes and not (again or makes_room):
            raise InvalidMessage(f"A record of {max(sizes)} bytes is over the limit of {self._max_record_bytes}.")
        ends = list(accumulate(sizes))
        self._vouch(drafts_in_doubt(records))
        placements = self._log.place(ends, together=together)
        placed = PlacedDrafts(self._queues, now_ms, self.store_host)
        for placement in placements:
            placed.place(drafts[placement.first : placement.last], placement.physical_offset)
        add_to_index = self._indexing(placed.keys, placed.key_offsets, now_ms)
        self._log.write([(p, in_one(records[p.first : p.last])) for p in placements])
        with self._gate:
            self._finish(now_ms, [placed.queued], add_to_index)
        return placed.appended

    def has_room(self, size_bytes: int) -> bool:
        """Whether records of that many bytes would go into the newest file of the log, side by side."""
        return size_bytes <= self._log.room

    def append_singles(self, singles: Sequence[Single]) -> Places | None:
        """Stores messages in this order with one write, all or none; None, with none stored, where the newest file
        has no room for all of them. Raises NotWritable."""
        self._admit()
        self._vouch(singles_in_doubt(singles))
        now_ms, begin, queued = self._clock.now_ms(), self._log.end_offset, SingleEntries(self._queues)
        laid = lay_out(singles, self._queues, queued, begin, now_ms, self.store_host)
        if not self.has_room(len(laid.records)):
            return None
        add_to_index = self._indexing(laid.keys, laid.key_offsets, now_ms)
        self._log.write([(Placement(0, len(singles), begin, 0), laid.records)])
        with self._gate:
            self._finish(now_ms, [queued], add_to_index)
        return laid.places

    def append_table(self, table: SingleTable) -> StoredTable | None:
        """The same of messages in a table."""
        self._admit()
        self._vouch(table_in_doubt(table))
        if not self.has_room(table.records.size):
            return None
        now_ms, begin = self._clock.now_ms(), self._log.end_offset
        places, queued, keys = lay_out_table(table, self._queues, begin, now_ms, self.store_host)
        add_to_index = None
        if self._index is not None:
            add_to_index = partial(self._index.append_keys, keys, int(places.physical_offsets[-1]))
        self._log.write([(Placement(0, len(table.sizes), begin, 0), table.records.data)])
        with self._gate:
            self._finish(now_ms, queued, add_to_index)
        return places

    def append_bulk(self, topic: str, queue_id: int, records: RecordBatch) -> BulkAppended:
        """Stores messages of one queue, handed over as finished records that fill a writable buffer.

        They are checked as a whole before anything is written (`check_bulk`) and get their place, store time and store
        host in place. Raises NotWritable, InvalidMessage, RecordError.
        """
        self._admit()
        check_bulk(records, topic, queue_id, self._max_body_bytes)
        (appended,) = self._append_made(made_of_records([Run(topic, queue_id, len(records))], records))
        return appended

    def append_runs(self, runs: Sequence[Run], records: RecordBatch) -> list[BulkAppended]:
        """Stores messages of one topic, at most one run of them for each queue, all or none; returns where each run is.

        The records fill a writable buffer and have been made here from what clients sent (`encode_records`), so they
        are not checked again but for their number of keys. Raises NotWritable, InvalidMessage, RecordError.
        """
        self._admit()
        check_keys(records)
        return self._append_made(made_of_records(runs, records))

    def append_rows(self, topic: str, queue_id: int, rows: BulkRows) -> BulkAppended:
        """Stores rows as the messages that a bulk of their records would be, all or none. Raises NotWritable,
        InvalidMessage."""
        self._admit()
        check_rows(rows, topic, self._max_body_bytes)
        (appended,) = self._append_made(made_of_rows(topic, [RowRun(queue_id, rows)], self._room))
        return appended

    def append_topic_rows(self, runs: Sequence[TopicRun], rows: BulkRows) -> list[BulkAppended]:
        """Stores rows for many queues, all or none; returns where they are, queue by queue. Each queue is named once.

        Raises NotWritable, InvalidMessage, InvalidName.
        """
        self._admit()
        check_topic_rows(runs, rows, self._max_body_bytes)
        return self._append_made(made_of_topic_rows(runs, rows, self._room))

    def append_made(self, made: MadeRecords, meanwhile: Work) -> list[BulkAppended]:
        """Stores records made of committed half batches, all or none; returns where they are, run by run.

        They were checked when the half batches were stored, which keep the log from going as long as this is not done:
        so it is on a disk that is full for others, too. `meanwhile` is done while they are written, and may read the
        log. Raises NotWritable.
        """
        self._admit(makes_room=True)
        return self._append_made(made, meanwhile)

    def append_parts(self, topic: str, queue_id: int, head: bytearray, rest: Sequence[Buffer]) -> Appended:
        """Stores one message handed over in parts: its head, which is patched, and what follows, written as it lies.

        Without tags and keys. Raises NotWritable, InvalidMessage, InvalidName.
        """
        self._admit()
        queue = self._queues.get_or_make(topic, queue_id)
        size, queue_offset = len(head) + sum(map(len, rest)), queue.next_offset
        placements, now_ms = self._place_one(head, size, queue_offset)
        physical_offset = placements[-1].physical_offset
        queued = [QueuedEntries(queue, queue_offset, ENTRY.pack(physical_offset, size, 0), (0,))]
        self._log.write([(p, [head, *rest] if p.first < p.last else b"") for p in placements])
        with self._gate:
            self._finish(now_ms, queued, None)
        return Appended(physical_offset, queue_offset, size, now_ms)

    def _append_made(self, made: MadeRecords, meanwhile: Work | None = None) -> list[BulkAppended]:
        """Gives records their places, writes them and leaves the rest to the dispatcher."""
        runs, records, tags_codes, keys_of_all, may_look_torn = made
        if may_look_torn:
            self._vouch(in_doubt(records))
        queues = [self._queues.get_or_make(run.topic, run.queue_id) for run in runs]
        now_ms = self._clock.now_ms()
        ends = records.positions + records.sizes
        placements = self._log.place(ends)  # type: ignore[arg-type]  # an array serves as a sequence of ints
        offsets = queue_offsets(runs, queues)
        physical_offsets = patch_placed(records, placements, offsets, now_ms, self.store_host)
        entries = entries_of(physical_offsets, records.sizes, tags_codes)
        queued, appended, last = [], [], 0
        for (_, _, length), queue in zip(runs, queues, strict=True):
            rows, first_offset = slice(last, last + length), queue.next_offset
            if queue.delay_ms:
                entries["tags_code"][rows] = now_ms + queue.delay_ms
            of_queue = entries[rows].view(np.uint8).data
            queued.append(QueuedEntries(queue, first_offset, of_queue, tags_codes[rows]))
            appended.append(BulkAppended(first_offset, int(physical_offsets[last]), length, now_ms))
            last += length
        add_to_index = None
        if self._index is not None:  # hashed now: when it is dispatched, the buffer may hold something else
            keys = keys_of_all(physical_offsets, now_ms)
            add_to_index = partial(self._index.append_keys, keys, int(physical_offsets[-1]))
        put = Segment.write if meanwhile is None else WriteBeside(self.beside, meanwhile).put
        self._log.write(pieces(records, ends, placements), put)
        with self._gate:
            self._finish(now_ms, queued, add_to_index)
        return appended

    def dispatch_safe(self) -> None:
        """Makes readable what may be read: all that is stored, in SYNC_FLUSH all that is on disk."""
        self._dispatcher.advance(self._log.flushed_offset if self._is_sync else self._log.end_offset)

    def admit_from_master(self) -> None:
        """Raises NotWritable where a slave's store cannot take what its master sent."""
        self._admit(from_master=True)

    def _admit(self, *, makes_room: bool = False, from_master: bool = False) -> None:
        self._gate.check(makes_room=makes_room, from_master=from_master)
        if self._dispatcher.fault is not None:
            self.dispatch_safe()
            if self._dispatcher.fault is not None:
                raise NotWritable(
                    f"A consume queue or the index cannot be written: {self._dispatcher.fault}.",
                    hint=advice(self._dispatcher.fault),
                )
        if self._is_sync and not from_master:  # a slave waits itself until its disk has what it was sent
            self._check_flush()

    def _check_flush(self) -> None:
        """What waits for a flush is in memory. While one takes longer than any sender waits for it, nothing more is
        taken, as RocketMQ takes nothing while the page cache is busy."""
        waits_at, now_ms = self._dispatcher.waits_at, self._clock.monotonic_ms()
        stands_at = None if waits_at is None else (waits_at, self._log.flushed_offset)
        if stands_at is None or stands_at != self._stands_at:
            self._stands_at, self._waits_since_ms = stands_at, now_ms
        elif now_ms - self._waits_since_ms > self._longest_flush_ms:
            raise NotWritable(
                f"The disk has taken nothing for {(now_ms - self._waits_since_ms) // 1000} s.",
                hint="Messages are taken again once it answers. Is it failing?",
            )

    def _vouch(self, all_properties: Sequence[bytes]) -> None:
        """Puts vouchers into the log ahead of messages with properties that might look torn."""
        if not all_properties:
            return
        for record in vouchers(all_properties):
            placements, now_ms = self._place_one(record, len(record), queue_offset=0)
            self._log.write([(p, record if p.first < p.last else b"") for p in placements])
            with self._gate:
                self._finish(now_ms, (), None)

    def _place_one(self, head: bytearray, size: int, queue_offset: int) -> tuple[list[Placement], int]:
        """Where one record of this size goes, the last of these, and its store time, which its head says now."""
        placements, now_ms = self._log.place([size]), self._clock.now_ms()
        patch_record(
            head,
            0,
            queue_offset=queue_offset,
            physical_offset=placements[-1].physical_offset,
            store_timestamp_ms=now_ms,
            store_host=self.store_host,
        )
        return placements, now_ms

    def _indexing(self, keys: list[bytes], key_offsets: list[int], now_ms: int) -> Callable[[], None] | None:
        return partial(self._index.append, keys, key_offsets, now_ms) if self._index and keys else None

    def _finish(self, now_ms: int, queued: Sequence[Queued], add_to_index: Callable[[], None] | None) -> None:
        """To be called right after the write: whatever may fail comes before it, or a message would be in the log, and
        the next one in its queue get the same offset."""
        for entries in queued:
            entries.take_offsets()
        self.store_timestamp_ms = now_ms
        dispatch = Dispatch(self._log.end_offset, now_ms, queued, add_to_index)
        if self._found.halves.kept is None:
            self._dispatcher.submit(dispatch)
        elif queued:  # a voucher goes in front of the rest
            self._dispatcher.submit(self._found.in_front_of(dispatch))
        self.dispatch_safe()
        is_due = self._log.end_offset >= self._warming.due_offset
        if is_due and self.ahead is not None and (due := self._warming.begin()) is not None:
            due.begin(self.ahead)

"""Half batches and a participant's events in the message store: written, found again at a start, made into messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import structlog

from rmqspark.errors import WRITTEN_LATER, DamagedFile, DecodeError, InvalidMessage, NotWritable, RecordError
from rmqspark.protocol.names import HALF_BATCH_TOPIC, OP_HALF_BATCH_TOPIC
from rmqspark.protocol.records.record import HEAD_BYTES, MIN_RECORD_BYTES, SysFlag, encode_record
from rmqspark.store.draft import Draft
from rmqspark.txn.participant.half_batch import HALF_BATCH_QUEUE, body_bytes_of, decode_half, encode_half
from rmqspark.txn.participant.held import AppendedRows
from rmqspark.txn.participant.participant_events import Summary, VotedFor, decode_event, encode_event
from rmqspark.txn.participant.preparation import Preparation, Rooms
from rmqspark.txn.queue_reader import QueueReader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager

    from rmqspark.clock import Clock
    from rmqspark.store.message_store import MessageStore
    from rmqspark.txn.participant.half_batch import HalfBatch
    from rmqspark.txn.participant.participant_events import Event

_EVENT_QUEUE: Final = 0
_EVENTS_READ_AT_ONCE: Final = 512

log = structlog.get_logger("rmqspark.txn")


class HalfStore:
    """Keeps half batches and events in a message store. Belongs to the store's thread."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rooms = [Rooms(), Rooms()]  # of half batches on their way to their topics, in turns
        self.next_half = store.queues.max_offset(HALF_BATCH_TOPIC, HALF_BATCH_QUEUE)

    @property
    def end_offset(self) -> int:
        """Physical offset behind all that is stored."""
        return self._store.end_offset

    @property
    def min_offset(self) -> int:
        """Physical offset of the oldest message there is."""
        return self._store.min_physical_offset

    def publishing_together(self) -> AbstractContextManager[None]:
        """See `MessageStore.publishing_together`."""
        return self._store.publishing_together()

    def check_room(self, size_bytes: int) -> None:
        """Raises NotWritable if the disk has no room for so much."""
        free_bytes = self._store.disk_usage().free_bytes
        if free_bytes < size_bytes:
            raise NotWritable(
                f"The disk has {free_bytes} bytes free, {size_bytes} are needed.", hint="Free some space."
            )

    # --- half batches ------------------------------------------------------------------------------------------------

    def put(self, half: HalfBatch, body: memoryview) -> HalfBatch:
        """Stores a half batch whose body has been checked; returns it with its place. Raises NotWritable."""
        head, tail = encode_half(half, born_timestamp_ms=self._clock.now_ms())
        appended = self._store.writer.append_parts(HALF_BATCH_TOPIC, HALF_BATCH_QUEUE, head, (body, tail))
        self.next_half = appended.queue_offset + 1
        return half._replace(queue_offset=appended.queue_offset, physical_offset=appended.physical_offset)

    def find(self, summary: Summary | None) -> list[HalfBatch]:
        """All half batches that may be held: those the summary names, and all that came after it."""
        queue = HALF_BATCH_TOPIC, HALF_BATCH_QUEUE
        first = self._store.queues.min_offset(*queue) if summary is None else summary.next_half
        offsets = [*(summary.held if summary is not None else ()), *range(first, self.next_half)]
        return [half for offset in offsets if (half := self._read(offset)) is not None]

    def _read(self, queue_offset: int) -> HalfBatch | None:
        """The half batch at a place, without its body; None where it is gone or damaged."""
        place = self._store.queues.locate(HALF_BATCH_TOPIC, HALF_BATCH_QUEUE, queue_offset)
        if place is None:
            return None
        physical_offset, size = place
        try:
            head = self._store.read_range(physical_offset, HEAD_BYTES)
            tail_bytes = size - HEAD_BYTES - body_bytes_of(head)
            if not MIN_RECORD_BYTES - HEAD_BYTES <= tail_bytes <= size - HEAD_BYTES:
                raise RecordError("Its length and that of its body contradict each other.")
            return decode_half(head, self._store.read_range(physical_offset + size - tail_bytes, tail_bytes))
        except (RecordError, DamagedFile) as error:
            log.error("a half batch is damaged", physical_offset=physical_offset, reason=str(error))
            return None

    def was_deleted(self, half: HalfBatch) -> bool:
        """Whether its topic was deleted since it was stored: its rows have gone with that one."""
        return self._store.deletions.took(half.topic, half.physical_offset)

    # --- becoming messages -------------------------------------------------------------------------------------------

    def prepare(self, halves: Sequence[HalfBatch], skipped: int = 0) -> Preparation:
        """What makes the messages of half batches, except for the first `skipped` ones of a single one: several are
        made of rows, all for one topic. Only the newest two preparations may be in use."""
        self._rooms.reverse()
        return Preparation(self._store.read_range_last, halves, skipped, self._rooms[0])

    def append(self, preparation: Preparation, meanwhile: Callable[[], None]) -> list[AppendedRows]:
        """Appends the messages of half batches to their queues, all or none; those for one queue follow each other.

        `meanwhile` is done while they are written. Raises NotWritable, and DamagedFile where a half batch is not what
        was stored.
        """
        made = preparation.made()
        queues = self._store.writer.append_made(made, meanwhile)
        next_offsets = {run.queue_id: queue.queue_offset for run, queue in zip(made.runs, queues, strict=True)}
        appended = []
        for half in preparation.halves:
            rows = half.rows - preparation.skipped
            appended.append(AppendedRows(next_offsets[half.queue_id], rows))
            next_offsets[half.queue_id] += rows
        return appended

    def rows_present(self, log_offset: int, halves: Collection[int]) -> dict[int, AppendedRows]:
        """Which messages of these half batches (by physical offset) are in the log from `log_offset` on.

        Messages name their half batch (preparedTransactionOffset). Those of one are next to each other in their queue.
        """
        wanted = np.fromiter(halves, np.int64, len(halves))
        found: dict[int, AppendedRows] = {}
        for batch in self._store.records.since(log_offset):
            committed = batch.sys_flags & SysFlag.TRANSACTION_MASK == SysFlag.COMMITTED
            rows = np.flatnonzero(committed & np.isin(batch.prepared_transaction_offsets, wanted))
            owners, firsts, counts = np.unique(
                batch.prepared_transaction_offsets[rows], return_index=True, return_counts=True
            )
            queue_offsets = batch.queue_offsets[rows][firsts]
            for half, queue_offset, count in zip(owners.tolist(), queue_offsets.tolist(), counts.tolist(), strict=True):
                known = found.get(half, AppendedRows(queue_offset, 0))
                found[half] = known._replace(rows=known.rows + count)
        return found

    # --- events ------------------------------------------------------------------------------------------------------

    def record(self, event: Event, *, most_bytes: int | None = None) -> int:
        """Writes an event; returns its physical offset. A disk that is full for others has room for what lets files go:
        all but a vote, which has a batch held longer. Raises NotWritable, InvalidMessage for one of more than
        `most_bytes`, or than a file of the log takes."""
        body = encode_event(event)
        if most_bytes is not None and len(body) > most_bytes:
            raise InvalidMessage(f"An event of {len(body):,} bytes is over the limit of {most_bytes:,}.")
        record = encode_record(topic=OP_HALF_BATCH_TOPIC, body=body, born_timestamp_ms=self._clock.now_ms())
        draft = Draft(OP_HALF_BATCH_TOPIC, _EVENT_QUEUE, record)
        return self._store.append([draft], makes_room=not isinstance(event, VotedFor))[0].physical_offset

    def events(self) -> list[tuple[Event, int]]:
        """The events from the newest summary on (from the first on, if there is none), with their physical offsets."""
        first, end = self._store.queues.bounds(OP_HALF_BATCH_TOPIC, _EVENT_QUEUE)
        found: list[tuple[Event, int]] = []
        while end > first and not (found and isinstance(found[0][0], Summary)):
            start = max(first, end - _EVENTS_READ_AT_ONCE)
            found = [*self._events_between(start, end), *found]
            summaries = [place for place, (event, _) in enumerate(found) if isinstance(event, Summary)]
            found, end = found[summaries[-1] if summaries else 0 :], start
        return found

    def _events_between(self, start: int, end: int) -> list[tuple[Event, int]]:
        found: list[tuple[Event, int]] = []
        for record in QueueReader(self._store, OP_HALF_BATCH_TOPIC, start).all():
            if record.queue_offset >= end:
                break
            try:
                found.append((decode_event(record.body), record.physical_offset))
            except DecodeError as error:
                raise DamagedFile(
                    f"Event {record.queue_offset} of {OP_HALF_BATCH_TOPIC} cannot be read: {error}",
                    hint=WRITTEN_LATER,
                ) from error
        return found

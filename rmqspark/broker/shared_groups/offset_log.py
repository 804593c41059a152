"""How far shared groups have come, and others behind what was decided, in the log as well as in the table.

The table of offsets is on disk every few seconds, and a slave asks for it no more often. That is soon enough for a
consumer, which may read something again; but the next member of a shared group begins where the group is, and what it
reads again of a decided batch would be written twice. So what is committed under leases, and by the coordinator of a
batch, is a record of the log, too, as safe as any message, before anybody hears of it.

The records are in queue 0 of RMQ_SYS_GROUP_OFFSET_TOPIC, each in the form of config/consumerOffset.json, with what was
committed at one moment. Up to which of them a table knows stands in the table: as what a group of the broker's own has
committed there. So both are saved together and go to slaves together, and a start as the master commits what is behind.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from rmqspark.broker.state.offsets import by_pair
from rmqspark.errors import WRITTEN_LATER, Busy, DamagedFile, DecodeError, FlushTimeout, RmqError
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable
from rmqspark.protocol.names import GROUP_OFFSET_TOPIC, OFFSET_LOG_GROUP
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.draft import Draft
from rmqspark.txn.queue_reader import QueueReader

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rmqspark.broker.state.offsets import ConsumerOffsets
    from rmqspark.clock import Clock
    from rmqspark.model import MessageQueue
    from rmqspark.protocol.records.record import Record
    from rmqspark.store.draft import Appended
    from rmqspark.store.message_store import MessageStore

_QUEUE: Final = 0
_QUEUES_OF_A_RECORD: Final = 1_000  # with the longest names 300 kB

log = structlog.get_logger("rmqspark.broker")


class Append(Protocol):
    def __call__(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Stores messages, all or none."""


class OffsetLog:
    """Commits offsets of groups, to the table and to the log. `flush_to(end_offset)` returns once the log is on
    disk up to there, and on slaves where that is promised."""

    def __init__(
        self,
        store: MessageStore,
        offsets: ConsumerOffsets,
        clock: Clock,
        *,
        append: Append,
        flush_to: Callable[[int], Awaitable[None]],
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._clock = clock
        self._append = append
        self._flush_to = flush_to
        self._end_offset = 0  # physical: of the newest record
        self._safe_offset = 0
        self.unlogged_revision = 0
        """Of the table, since when it has all that could not be written."""

    def commit(self, group: str, positions: Mapping[MessageQueue, int], *, is_decided: bool = False) -> None:
        """A group goes on there, in queues of this broker, or at their ends if these come first. Where it was reset to
        another place nothing is done; where it is already, only what was decided is written: a consumer may have said
        it, and that is in the table alone. So is what cannot be written. Raises Busy for a queue too many."""
        left = iter(positions.items())
        while piece := list(islice(left, _QUEUES_OF_A_RECORD)):
            self._commit(group, piece, is_decided=is_decided)

    def _commit(self, group: str, piece: Sequence[tuple[MessageQueue, int]], *, is_decided: bool) -> None:
        moved: dict[str, dict[int, int]] = {}
        try:
            for (topic, _, queue_id), wanted in piece:
                offset = min(wanted, self._store.queues.max_offset(topic, queue_id))
                is_news = is_decided or self._offsets.committed(group, topic, queue_id) != offset
                if is_news and self._offsets.commit(group, topic, queue_id, offset):
                    moved.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        finally:
            if moved:
                self._write(ConsumerOffsetTable(moved).encode())

    def _write(self, body: bytes) -> None:
        record = encode_record(topic=GROUP_OFFSET_TOPIC, body=body, born_timestamp_ms=self._clock.now_ms())
        try:
            (appended,) = self._append([Draft(GROUP_OFFSET_TOPIC, _QUEUE, record)])
        except RmqError as error:
            log.warning("how far a group is could not be logged, the table has it", reason=str(error))
            self.unlogged_revision = self._offsets.revision
            return
        self._note(appended.queue_offset + 1)
        self._end_offset = self._store.end_offset

    def _note(self, next_offset: int) -> None:
        """The table has what lies before. One that is full cannot say so: a start commits all of it again."""
        with suppress(Busy):
            self._offsets.commit(OFFSET_LOG_GROUP, GROUP_OFFSET_TOPIC, _QUEUE, next_offset)

    @property
    def is_safe(self) -> bool:
        """Whether nothing was written since `make_safe` has returned last."""
        return self._end_offset <= self._safe_offset

    async def make_safe(self) -> None:
        """Returns when what was written so far is on disk, and on slaves where that is promised: one that is away is
        not waited for any longer than a sender would. Raises NotWritable."""
        if self.is_safe:
            return
        end_offset = self._end_offset
        try:
            await self._flush_to(end_offset)
        except FlushTimeout as error:
            log.warning("how far a group is may be forgotten", reason=str(error))
        self._safe_offset = max(self._safe_offset, end_offset)

    def replay(self) -> None:
        """Commits what the table does not know of yet. Once, before anything is served; a slave's table is as its
        master's. Raises DamagedFile for a record nobody here can read: without it a group would go back."""
        known = self._offsets.committed(OFFSET_LOG_GROUP, GROUP_OFFSET_TOPIC, _QUEUE) or 0
        reader = QueueReader(self._store, GROUP_OFFSET_TOPIC, known, queue_id=_QUEUE)
        for record in reader.all():
            self._take(record)
        if reader.next_offset > known:
            self._note(reader.next_offset)

    def _take(self, record: Record) -> None:
        told = by_pair(_table_in(record))
        try:
            for (topic, group), queues in told.items():
                if self._store.deletions.took(topic, record.physical_offset):
                    continue
                for queue_id, offset in queues.items():
                    end = self._store.queues.max_offset(topic, queue_id)  # what lay behind may be lost
                    self._offsets.commit(group, topic, queue_id, min(offset, end))
        except RmqError as error:
            log.warning("how far a group is was left out", place=record.queue_offset, reason=str(error))


def _table_in(record: Record) -> ConsumerOffsetTable:
    """Raises DamagedFile: its checksum is right, so it is what somebody wrote who has more to say than this version."""
    try:
        return ConsumerOffsetTable.decode(record.body)
    except DecodeError as error:
        raise DamagedFile(
            f"Record {record.queue_offset} of {GROUP_OFFSET_TOPIC} cannot be read: {error}", hint=WRITTEN_LATER
        ) from error

"""Half batches becoming messages, up to the point where only their place is missing.

That is half of the work of a completion, and is done while those before are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import DamagedFile, RecordError, RmqError
from rmqspark.protocol.bulk.bulk_body import read_bulk
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.appending.made_records import Room, made_of_committed, made_of_rows
from rmqspark.store.draft import RowRun, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.store.appending.made_records import MadeRecords
    from rmqspark.txn.participant.half_batch import HalfBatch


class Rooms:
    """The memory of one preparation."""

    def __init__(self) -> None:
        self.bodies = Room()
        self.records = Room()


class Preparation:
    """The messages of some half batches; `read` fills a buffer from a place in the log. What goes wrong in `run` is
    told by `made`: whoever runs it is busy with something else."""

    def __init__(
        self, read: Callable[[memoryview, int], None], halves: Sequence[HalfBatch], skipped: int, rooms: Rooms
    ) -> None:
        self._read = read
        self._rooms = rooms
        self._outcome: MadeRecords | OSError | RmqError | None = None
        self.halves = halves
        self.skipped = skipped

    def run(self) -> None:
        """Makes the messages."""
        try:
            self._outcome = self._make()
        except (OSError, RmqError) as error:
            self._outcome = error

    def made(self) -> MadeRecords:
        """The messages. Raises DamagedFile where a half batch is not what was stored, and what reading it raised."""
        if self._outcome is None:
            self.run()
        if isinstance(self._outcome, OSError | RmqError):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome

    def _make(self) -> MadeRecords:
        bulks = [self._bulk(half, body) for half, body in zip(self.halves, self._bodies(), strict=True)]
        half, bulk = self.halves[0], bulks[0]
        if isinstance(bulk, RecordBatch):
            return self._of_records(half, bulk)
        rows = [bulk.skip(self.skipped), *bulks[1:]]
        runs = [
            RowRun(half.queue_id, of_half, half.physical_offset)
            for half, of_half in zip(self.halves, rows, strict=True)
            if isinstance(of_half, BulkRows)
        ]
        return made_of_rows(half.topic, runs, self._rooms.records)

    def _bodies(self) -> list[memoryview]:
        """The bodies of the half batches, read for the last time."""
        room = self._rooms.bodies.of(sum(half.body_bytes for half in self.halves)).data
        bodies = []
        for half in self.halves:
            body, room = room[: half.body_bytes], room[half.body_bytes :]
            self._read(body, half.body_offset)
            bodies.append(body)
        return bodies

    def _bulk(self, half: HalfBatch, body: memoryview) -> RecordBatch | BulkRows:
        try:
            return read_bulk(body, half.rows, half.record_size)
        except RecordError as error:
            raise _damaged(half, error) from error

    def _of_records(self, half: HalfBatch, records: RecordBatch) -> MadeRecords:
        if self.skipped:
            start = int(records.positions[self.skipped])
            records = RecordBatch.from_sizes(records.buffer[start:], records.sizes[self.skipped :])
        run = Run(half.topic, half.queue_id, len(records))
        try:
            return made_of_committed(run, records, half.physical_offset, has_tags=half.has_tags)
        except RecordError as error:
            raise _damaged(half, error) from error


def _damaged(half: HalfBatch, error: RecordError) -> DamagedFile:
    return DamagedFile(f"The half batch at {half.physical_offset} is damaged: {error}")

"""What a store holds: the log, and all that is made of it and goes with it, at its end and at its start."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from rmqspark.errors import DamagedFile
from rmqspark.store.deletions import Deletions
from rmqspark.store.index.index import Index
from rmqspark.store.index.index_keys import keys_of_records
from rmqspark.store.log.commit_log import CommitLog
from rmqspark.store.queues.consume_queues import ConsumeQueues
from rmqspark.store.recovery.scan import LogScan, Records


@dataclass(frozen=True, slots=True)
class Contents:
    """For those who go through all of it; who knows a part is handed that. `index` is None where there is none."""

    log: CommitLog
    queues: ConsumeQueues
    index: Index | None
    deletions: Deletions

    def load(self) -> None:
        """Finds the files of log and queues, and gives those of the log that lost their end their length back. Raises
        StoreError, OSError."""
        self.log.segments.load()
        self.queues.load()
        self.log.segments.fill_up()

    def cut(self, physical_offset: int) -> None:
        """Takes back all from a record's begin on, durably. Raises OSError; then some of it may be there still.

        Queues end first: while the log has what their entries lead to, nobody is led astray.
        """
        for queue in self.queues:
            end = queue.first_at_or_after(physical_offset)
            if end < queue.max_offset:
                queue.cut(end)
        self.log.cut(physical_offset)
        self.deletions.follow_log_end(physical_offset)
        if self.index is not None:
            self.feed_index(max(self.index.cut(physical_offset), self.log.min_offset))

    def feed_index(self, start: int, end: int | None = None, *, check_crc: bool = False) -> None:
        """Enters the keys of all records from `start` on, those before `end` if it is given; those that are there are
        left out."""
        if self.index is None:
            return
        for found in LogScan(self.log.segments, start, self.log.end_offset, check_crc=check_crc).run():
            if isinstance(found, Records):
                batch, at = found.batch, found.physical_offset
                if end is not None:
                    batch = batch.where(batch.positions + at < end)
                self.index.append_records(None, batch, batch.positions + at)

    def has_keys(self, last: int, start: int, end: int) -> bool:
        """Whether a record has any that lies in [start, end), and behind the one at `last`."""
        scan = LogScan(self.log.segments, start, end, check_crc=False)
        for found in scan.run():
            if isinstance(found, Records):
                places = found.batch.positions + found.physical_offset
                is_between = (places > last) & (places < end)
                between = found.batch.where(is_between)
                if len(between) and len(keys_of_records(None, between, places[is_between]).hashes):
                    return True
            if scan.position >= end:
                break
        return False

    def follow_log_start(self) -> list[str]:
        """Deletes the files that lead only to messages that are gone from the log; returns their paths."""
        deleted: list[str] = []
        for queue in self.queues:
            with suppress(DamagedFile):  # somebody has deleted one of its files: the next start finds out what is left
                queue.follow_log_start(self.log.min_offset)
            deleted += queue.drop_expired()
        return deleted + (self.index.expire(self.log.min_offset) if self.index is not None else [])

"""Opening a store: from whatever the last run left to a log that ends cleanly and queues that agree with it.

The log is the only truth. Where ours closed or checkpointed the store last, everything below the checkpoint's recovery
offset is on disk and in the queues: recovery goes through the log from there. A store that RocketMQ wrote last has no
such place; then RocketMQ's own rules find the file to begin with (spec: storage, section 6).

Every step can be repeated: a crash inside recovery leaves a store that recovers to the same end. What a reader may
have seen is noted (the incarnation is raised) before the evidence goes.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.errors import DamagedFile, MessageNotFound, RecordError
from rmqspark.protocol.records.record import MAGIC_BLANK, SIZE_MAGIC, check_record, decode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.queues.end_by_scan import first_contradiction, first_invalid
from rmqspark.store.reading.left_over import LeftOver
from rmqspark.store.reading.time_search import TimeSearch
from rmqspark.store.recovery.redispatch import Redispatcher, queued
from rmqspark.store.recovery.scan import Damage, LogScan, Records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.store.checkpoint import Checkpoint
    from rmqspark.store.contents import Contents
    from rmqspark.store.log.segment import Segment
    from rmqspark.store.queues.consume_queue import ConsumeQueue
    from rmqspark.store.recovery.run_marker import LastRun
    from rmqspark.store.recovery.whole_halves import WholeHalves


_KEYS_WITHIN_BYTES: Final = 64 << 20


class Recovered(NamedTuple):
    """What recovery found. `damage` are ranges of the log that were on disk and cannot be believed any more."""

    damage: tuple[Damage, ...]
    refused: int  # records of topics or queues that cannot exist
    store_timestamp_ms: int  # of the newest record gone through; 0 if there was none


class Recovery:
    """Recovers one store, whose contents are loaded. `raise_incarnation` makes it durable that messages that were read
    may be gone. What `halves` keep back at the end of the log, queues and index are not told of."""

    def __init__(
        self,
        contents: Contents,
        checkpoint: Checkpoint,
        last_run: LastRun,
        raise_incarnation: Callable[[], None],
        *,
        halves: WholeHalves,
        check_crc: bool,
    ) -> None:
        self._contents = contents
        self._log, self._queues, self._index = contents.log, contents.queues, contents.index
        self._deletions = contents.deletions
        self._left_over = LeftOver(self._deletions, self._log, TimeSearch(self._log))
        self._checkpoint = checkpoint
        self._last_run = last_run
        self._raise_incarnation = raise_incarnation
        self._check_crc = check_crc
        self._halves = halves
        self._damage: list[Damage] = []
        self._store_timestamp_ms = 0
        self._has_noted_loss = False

    def run(self) -> Recovered:
        """All of it: log, queues, index. The caller writes the checkpoint."""
        if self._last_run.may_have_lost_what_was_read:
            self._note_loss()
        start, watermark = self._find_start()
        self._miss_files(start)
        self._make_log_durable(watermark)
        settled = self._checkpoint.recovery_offset if self._checkpoint.is_sealed else None
        redispatcher = Redispatcher(self._queues, self._deletions, settled)
        self._go_through(start, watermark, redispatcher)
        self._cut_queues()
        self._cut_log()
        self._deletions.follow_log_end(self._log.end_offset)
        settled_damage = self._settled_damage()
        for queue in self._queues:
            for damage in settled_damage:
                queue.mark_lost(*damage)
            queue.follow_log_start(self._log.min_offset)
            self._left_over.hide(queue)
        self._feed_index()
        redispatcher.reserve(self._halves.waiting)
        return Recovered(tuple(self._damage), redispatcher.refused, self._store_timestamp_ms)

    def _settled_damage(self) -> list[Damage]:
        """What entries may lead into. Those from the recovery offset on have been made anew, without what is damaged:
        of that there may be a lot, if somebody's checksums are false."""
        end = self._checkpoint.recovery_offset if self._checkpoint.is_sealed else self._log.end_offset
        return [damage for damage in self._damage if damage.start < end]

    def _note_loss(self) -> None:
        """What readers could see may be gone: once a recovery is enough to say so."""
        if not self._has_noted_loss:
            self._raise_incarnation()
            self._has_noted_loss = True

    # --- where to begin

    def _find_start(self) -> tuple[int, int]:
        """Where to begin in the log, and the watermark. The queues end there afterwards."""
        oldest = self._log.min_offset
        if not self._log.segments:
            return self._forget_log()
        if not self._checkpoint.is_sealed:
            self._deletions.distrust_places()
            self._deletions.save()
            return self._find_start_as_rocketmq()
        recovery_offset = max(self._checkpoint.recovery_offset, oldest)
        watermark = max(self._checkpoint.watermark, oldest)
        are_whole = True
        for queue in list(self._queues):
            queue.mend_gaps(oldest)
            if queue.may_lack_its_start(oldest) and self._lacks_its_start(queue, watermark):
                self._queues.remove(queue.topic, [queue.queue_id])
                are_whole = False
                continue
            queue.find_end_below(recovery_offset)
        self._finish_deletions()
        # More where a deletion was cut short.
        if are_whole and self._queues.entries_total() >= self._checkpoint.entries_total:
            return recovery_offset, watermark
        self._find_ends_by_scan(below=recovery_offset)  # a queue is missing, or not what it was
        return oldest, watermark

    def _lacks_its_start(self, queue: ConsumeQueue, watermark: int) -> bool:
        """Whether the log has messages that come before all that are in the files of a queue."""
        first, (physical_offset, size, _) = queue.first_offset, queue.entry(queue.first_offset)
        end = physical_offset if size > 0 else watermark
        scan = LogScan(self._log.segments, self._log.min_offset, end, check_crc=False)
        for found in scan.run():
            if isinstance(found, Records):
                batch = found.batch
                for topic, queue_id, rows in queued(batch, batch.positions + found.physical_offset, self._deletions):
                    if (topic, queue_id) == (queue.topic, queue.queue_id) and (batch.queue_offsets[rows] < first).any():
                        return True
            if scan.position >= end:
                break
        return False

    def _forget_log(self) -> tuple[int, int]:
        """Without a log its queues lead nowhere. That there was one the checkpoint knows, if they are gone as well."""
        if self._queues.topics() or self._checkpoint.log_timestamp_ms:
            self._note_loss()
            self._queues.remove_all()
        return 0, 0

    def _find_start_as_rocketmq(self) -> tuple[int, int]:
        """All files but the newest that holds records were finished once, so their content counts as durable. Queues
        may end before the checkpoint, or not be there."""
        self._find_ends_by_scan()
        heads = [(segment.base, _first_store_timestamp(segment)) for segment in self._log.segments]
        begun = [(base, stored_ms) for base, stored_ms in heads if stored_ms is not None]
        watermark = begun[-1][0] if begun else self._log.min_offset
        reached = max((queue.end_physical_offset() for queue in self._queues), default=0)
        in_queues = [(base, stored_ms) for base, stored_ms in begun if base <= reached]
        if not self._last_run.was_closed:
            settled_ms = self._checkpoint.min_timestamp_ms
            in_queues = [(base, stored_ms) for base, stored_ms in in_queues if 0 < stored_ms <= settled_ms]
        return (in_queues[-1][0] if in_queues else self._log.min_offset), watermark

    def _finish_deletions(self) -> None:
        """Removes the queues that were to go with a topic, where its deletion was noted and then cut short."""
        for topic, queue_ids in self._left_over.whole_queues(self._queues):
            self._deletions.sync_name()
            self._queues.remove(topic, queue_ids)

    def _find_ends_by_scan(self, *, below: int | None = None) -> None:
        for queue in self._queues:
            queue.segments.fill_up()
            queue.end_at(first_invalid(queue) if below is None else first_contradiction(queue, below))
            for segment in queue.segments:
                segment.touch()  # nobody knows whether what is kept is on disk
        self._finish_deletions()

    # --- the log and the queues

    def _make_log_durable(self, watermark: int) -> None:
        """Syncs what is there above the watermark before a queue entry leads to it: of a power loss that comes now,
        queues know nothing that the log does not.

        It is written again for that: the last run may have died of a failed fsync, and its pages count as clean though
        they are on no disk (reliability, G6).
        """
        self._log.segments.sync_names()
        for segment in self._log.segments:
            if segment.base + segment.length > watermark:
                if not self._last_run.was_closed:
                    segment.rewrite(max(0, watermark - segment.base), segment.length)
                segment.file().fsync()

    def _miss_files(self, start: int) -> None:
        """What is below `start` is not gone through, and a queue leads into a file that is not there: readers could
        not step over that. Of one that lost its end they would find nothing, and nobody be told."""
        segments = self._log.segments
        cut_off = chain.from_iterable(self._damage_of(*lost, start) for lost in segments.lost_ends)
        for gap in chain(segments.gaps_below(start), cut_off):
            self._damage.append(Damage(*gap))
            if any(queue.leads_into(*gap) for queue in self._queues):
                self._note_loss()

    def _damage_of(self, lost_start: int, lost_end: int, below: int) -> Iterator[Damage]:
        """What of a file below a position is no record any more since it lost its end."""
        end = min(lost_end, below)
        if lost_start >= end:
            return
        base = lost_start - lost_start % self._log.segment_bytes
        scan = LogScan(self._log.segments, base, end, check_crc=self._check_crc)
        for found in scan.run():
            if isinstance(found, Damage):
                yield found
            if scan.position >= end:
                return

    def _go_through(self, start: int, watermark: int, redispatcher: Redispatcher) -> None:
        scan = LogScan(
            self._log.segments,
            start,
            watermark,
            check_crc=self._check_crc,
            may_be_torn=not self._last_run.was_closed,
            has_vouchers=self._checkpoint.is_sealed,
        )
        for found in scan.run():
            self._log.end_offset = scan.position
            for each in self._halves.take(found):
                self._go_on(each, redispatcher)
        self._log.end_offset = scan.position
        if not redispatcher.can_wait(self._halves.waiting):
            for each in self._halves.let_go():
                self._go_on(each, redispatcher)

    def _go_on(self, found: Records | Damage, redispatcher: Redispatcher) -> None:
        if isinstance(found, Damage):
            self._damage.append(found)
            self._note_loss()
            return
        redispatcher.dispatch((found,))
        self._store_timestamp_ms = int(found.batch.store_timestamps_ms[-1])

    def _cut_queues(self) -> None:
        """Ends every queue where the log ends. Entries beyond are word of messages that readers could see.

        After a power loss each is cut though nothing but zeros is behind its end: a recovery that died may have written
        those over entries that are still on disk.
        """
        if self._last_run.was_closed and self._checkpoint.is_sealed:
            return
        thorough = not self._last_run.same_boot
        ends = {queue: queue.first_at_or_after(self._log.end_offset) for queue in self._queues}
        beyond = {queue for queue, end in ends.items() if queue.has_written_behind(end, thorough=thorough)}
        if beyond:
            self._note_loss()
        for queue, end in ends.items():
            if thorough or queue in beyond:
                queue.cut(end)

    def _cut_log(self) -> None:
        """After a crash nothing may be left behind the end."""
        if not (self._last_run.was_closed and self._checkpoint.is_sealed):
            self._log.cut(self._log.end_offset)

    # --- the index

    def _feed_index(self) -> None:
        if self._index is None:
            return
        is_clean = self._last_run.was_closed and self._checkpoint.is_sealed and not self._damage
        feed_from = self._index.load(
            clean=is_clean,
            log_end_offset=self._log.end_offset,
            checkpoint_timestamp_ms=self._checkpoint.index_timestamp_ms,
        )
        if (lost := self._first_lost_keys()) is not None:
            feed_from = self._index.cut(lost)
        start = max(feed_from, self._log.min_offset)
        if self._checkpoint.is_sealed and feed_from >= self._checkpoint.index_offset:
            # Nothing below the recovery offset is missing but, perhaps, keys of the very last record.
            if feed_from < self._checkpoint.recovery_offset:
                self._feed_one(start)
            start = max(start, self._checkpoint.recovery_offset)
        kept = self._halves.kept
        self._contents.feed_index(start, kept.begin if kept is not None else None, check_crc=bool(self._damage))

    def _first_lost_keys(self) -> int | None:
        """Where the first file of the index begins that has not what comes before: one is missing there. None if none
        is. The keys of a whole file are not far away: of gigabytes of half batches, which have none, a few MB tell."""
        assert self._index is not None
        for last, begin in self._index.seams():
            start = max(last, self._log.min_offset)
            end = min(begin, start + _KEYS_WITHIN_BYTES)
            if start < begin and not self._is_next(last, begin) and self._contents.has_keys(last, start, end):
                return begin
        return None

    def _is_next(self, physical_offset: int, end: int) -> bool:
        """Whether nothing is between the record there and `end`. As it nearly always is, and nothing more is read."""
        segments = self._log.segments
        try:
            size, _ = SIZE_MAGIC.unpack(segments.read(physical_offset, SIZE_MAGIC.size))
            behind = physical_offset + int(size)
            if behind == end or end - behind != -behind % self._log.segment_bytes:
                return behind == end
            _, magic = SIZE_MAGIC.unpack(segments.read(behind, SIZE_MAGIC.size))
        except DamagedFile:
            return False
        return int(magic) == MAGIC_BLANK

    def _feed_one(self, physical_offset: int) -> None:
        assert self._index is not None
        try:
            record = self._log.read_record(physical_offset)
            check_record(record, check_crc=False)
        except (DamagedFile, MessageNotFound, RecordError):
            return
        batch = RecordBatch.from_sizes(record, np.array([len(record)]))
        self._index.append_records(None, batch, np.array([physical_offset]))


def _first_store_timestamp(segment: Segment) -> int | None:
    """When the first record of a file was stored; None if no record begins it."""
    size, _ = SIZE_MAGIC.unpack(segment.read(0, SIZE_MAGIC.size))
    if not 0 < size <= segment.length:
        return None
    try:
        record = decode_record(segment.read(0, size))
    except RecordError:
        return None
    return record.store_timestamp_ms if record.physical_offset == segment.base else None

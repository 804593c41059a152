"""A slave's log: what its master has in the same place, byte for byte, and what follows from it here.

A master sends bytes and knows nothing of records. Here only whole records are taken, each checked as recovery would,
its checksum too, so that the log always ends where a record does and nothing is confirmed that was not looked at. Only
where the master has it so may a checksum be false, or a part be damaged that records follow: then it comes twice the
same (`doubt.py`). A blank record is taken with all that is left of its file. Queues and index are made from the records
by the dispatcher, as for messages that were sent here; of a half batch's messages only once all are there
(`recovery/whole_halves.py`).

RocketMQ's DefaultMessageStore.appendToCommitLog takes whatever comes, and finds out later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import RecordError, StoreError
from rmqspark.protocol.records.record import BLANK_BYTES, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_BYTES, SIZE_MAGIC
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.dispatcher import Dispatch
from rmqspark.store.doubt import Doubt
from rmqspark.store.log.commit_log import Placement
from rmqspark.store.recovery.scan import (
    LONGEST_HEAD_BYTES,
    LogScan,
    Records,
    fits_its_body,
    next_record,
    whole_records,
)
from rmqspark.store.recovery.whole_halves import WholeHalves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.store.appending.write_gate import WriteGate
    from rmqspark.store.appending.writer import Writer
    from rmqspark.store.contents import Contents
    from rmqspark.store.dispatcher import Dispatcher
    from rmqspark.store.flush import Flusher
    from rmqspark.store.found_records import FoundRecords
    from rmqspark.store.lineage import Lineage
    from rmqspark.store.recovery.whole_halves import Kept
    from rmqspark.store.tail_cut import TailCut

log = structlog.get_logger("rmqspark.store")

_KNOWN_MAGICS: Final = (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)
MOST_RECORD_BYTES: Final = 32 << 20
MOST_BLANK_BYTES: Final = 256 << 20  # what found no room in a file in one piece: a batch of the smallest messages, say


class ReplicaLog:
    """Takes what a master sends, from `end_offset` on. `open_for_master` comes first."""

    def __init__(
        self,
        contents: Contents,
        dispatcher: Dispatcher,
        found: FoundRecords,
        writer: Writer,
        gate: WriteGate,
        flusher: Flusher,
        tail_cut: TailCut,
        lineage: Lineage,
    ) -> None:
        self._log, self._queues = contents.log, contents.queues
        self._dispatcher = dispatcher
        self._writer = writer
        self._gate = gate
        self._flusher = flusher
        self._tail_cut = tail_cut
        self._found = found
        self.lineage: Final = lineage
        self._doubt = Doubt()
        self._master_begin: int | None = None  # physical offset, as last heard in this life

    def open_for_master(self) -> None:
        """Nothing else is written from now on: whatever is sent here is refused. Raises OSError."""
        self.lineage.begin_following(is_empty=self.is_empty)
        self._gate.reserve_for_master("This broker is a slave, it takes no messages.", "Send to the master.")

    def master_begins_at(self, physical_offset: int) -> None:
        """Where the master's log begins by now, or later."""
        self._master_begin = physical_offset

    @property
    def spared_offset(self) -> int:
        """Physical offset from which on the master may have its log still."""
        return self._master_begin if self._master_begin is not None else 0

    @property
    def is_whole(self) -> bool:
        """Whether this log is known to begin no later than the master's."""
        return self._master_begin is not None and self.start_offset <= self._master_begin

    @property
    def start_offset(self) -> int:
        """Physical offset of the oldest byte."""
        return self._log.min_offset

    @property
    def end_offset(self) -> int:
        """Where what comes next belongs: behind the last record."""
        return self._log.end_offset

    @property
    def is_empty(self) -> bool:
        """Whether it may begin anywhere. Not where it had messages and all have expired: then what comes next belongs
        behind those, or its queues would have places for messages that are on the master alone."""
        has_no_byte = not self._log.segments or self.end_offset == self.start_offset
        return has_no_byte and not any(queue.max_offset for queue in self._queues)

    def read(self, physical_offset: int, size: int) -> bytes:
        """Bytes of the log between `start_offset` and `end_offset`. Raises DamagedFile."""
        return self._log.segments.read(physical_offset, size)

    def begin_at(self, physical_offset: int) -> None:
        """Has an empty log begin here, where a file of the master's does. Raises StoreError where no file can."""
        if not self.is_empty:
            raise ValueError("the log has begun already")
        if physical_offset % self._log.segment_bytes:
            raise StoreError(
                f"The master's log begins at {physical_offset}, where no file of {self._log.segment_bytes} bytes does.",
                hint="Set mapped_file_size_commit_log to what the master has.",
            )
        self._log.begin_at(physical_offset)
        self._dispatcher.offset = physical_offset

    def append(self, raw: bytes | memoryview) -> int:
        """Takes the records that are whole in `raw`, the bytes from `end_offset` on; returns how many bytes that is.
        Nothing looks into `raw` after that, not even an error of the disk that is kept.

        Raises RecordError, with what comes before taken, where something follows that no log has; it is `Doubtful` the
        first time, for what is the master's comes again. NotWritable.
        """
        taken = 0
        with memoryview(raw) as view:
            while taken < len(view):
                self._writer.admit_from_master()
                room = self._log.segment_bytes - self._log.end_offset % self._log.segment_bytes
                with view[taken : taken + room] as rest_of_file, view[taken + room :] as next_file:
                    size = self._append_some(rest_of_file, next_file, room)
                if not size:
                    break
                taken += size
        return taken

    def _append_some(self, view: memoryview, next_file: memoryview, room: int) -> int:
        """What `view` begins with; `room` is what the file has left."""
        sizes = whole_records(view)
        if len(sizes):
            return self._append_records(view, next_file, sizes)
        if len(view) < BLANK_BYTES:
            if len(view) == room:
                raise RecordError(f"A file of the log ends at {self._log.end_offset} without a blank record.")
            return 0
        size, magic = SIZE_MAGIC.unpack_from(view)
        is_blank = magic == MAGIC_BLANK and size == room <= MOST_BLANK_BYTES
        is_record = magic in (MAGIC_V1, MAGIC_V2) and MIN_RECORD_BYTES <= size <= min(room, MOST_RECORD_BYTES)
        if is_record and len(view) >= LONGEST_HEAD_BYTES:  # what is damaged may say that much is to come
            is_record = fits_its_body(view, size)
        if not (is_blank or is_record):
            return self._append_misfit(view, next_file, size, magic, room)
        if not is_blank or len(view) < room:
            return 0
        self._write(bytes(view), self._writer.store_timestamp_ms, (), self._found.halves.kept)
        return room

    def _append_misfit(self, view: memoryview, next_file: memoryview, size: int, magic: int, room: int) -> int:
        """Where neither a record nor a blank one begins: damage of the master's, if that can be proven."""
        what = f"no record (size {size}, magic {magic:#x}) where the file has room for {room} bytes"
        is_elsewhere = magic == MAGIC_BLANK or (magic in _KNOWN_MAGICS and size > room)
        error = RecordError(
            f"At {self._log.end_offset} the master sends {what}.",
            hint="Set mapped_file_size_commit_log to what the master has." if is_elsewhere else "",
        )
        if magic == MAGIC_BLANK:  # files of another length, of which there is more behind it
            raise error
        return self._append_damage(bytes(view), next_file, error)

    def _append_records(self, view: memoryview, next_file: memoryview, sizes: Positions) -> int:
        """Those before the first that cannot be believed, if any; returns how many bytes they are."""
        data = bytes(view[: int(sizes.sum())])
        batch = RecordBatch.from_sizes(data, sizes)
        try:
            self._check(batch)
        except RecordError as error:
            good = self._count_good(data, sizes)
            if not good:
                return self._append_as_master_has_it(bytes(view), next_file, sizes, error)
            return self._append_records(view, next_file, sizes[:good])
        return self._write_records(data, batch)

    def _append_as_master_has_it(
        self, data: bytes, next_file: memoryview, sizes: Positions, why_not: RecordError
    ) -> int:
        """Those that came before as they come now, whatever their checksums say; returns how many bytes they are."""
        begin = self._log.end_offset
        count = int(sizes.cumsum().searchsorted(self._doubt.confirmed_bytes(begin, data), "right"))
        good = self._count_good(data, sizes[:count], check_crc=False)
        if not good:
            return self._append_damage(data, next_file, why_not)
        confirmed = data[: int(sizes[:good].sum())]
        log.warning("the master has false checksums, taken as they are", behind=begin, bytes=len(confirmed))
        self._write_records(confirmed, RecordBatch.from_sizes(confirmed, sizes[:good]))
        self._doubt.settle(self._log.end_offset)
        return len(confirmed)

    def _append_damage(self, data: bytes, next_file: memoryview, why_not: RecordError) -> int:
        """What `data` begins with, as far as the next record, where all of that came before as it comes now; returns
        how many bytes that is. The next one may be the first of `next_file`."""
        begin = self._log.end_offset
        confirmed = self._doubt.confirmed_bytes(begin, data)
        size = next_record(data[:confirmed], begin)
        if not size and confirmed == len(data) and self._begins_with_record(next_file, begin + len(data)):
            size = confirmed
        if not size:
            raise self._doubt.about(why_not, begin, data)
        log.warning("the master's log is damaged, taken as it is", at=begin, bytes=size)
        self._write(data[:size], self._writer.store_timestamp_ms, self._found.halves.waiting, None)
        self._doubt.settle(self._log.end_offset)
        return size

    def _begins_with_record(self, view: memoryview, physical_offset: int) -> bool:
        """Whether a record that can be believed begins `view`, which lies there."""
        sizes = whole_records(view)[:1]
        if not len(sizes):
            return False
        batch = RecordBatch.from_sizes(bytes(view[: int(sizes[0])]), sizes)
        try:
            batch.check(check_crc=True)
        except RecordError:
            return False
        return int(batch.physical_offsets[0]) == physical_offset

    def _write_records(self, data: bytes, batch: RecordBatch) -> int:
        shown, kept = self._found.halves.after(Records(self._log.end_offset, batch))
        self._write(data, int(batch.store_timestamps_ms[-1]), shown, kept)
        return len(data)

    def _check(self, batch: RecordBatch, *, check_crc: bool = True) -> None:
        begin = self._log.end_offset
        try:
            batch.check(check_crc=check_crc)
        except RecordError as error:
            raise RecordError(f"From {begin} on the master sends what is damaged: {error.message}") from error
        if (batch.physical_offsets != batch.positions + begin).any():
            raise RecordError(f"From {begin} on the master sends records that belong elsewhere.")

    def _count_good(self, data: bytes, sizes: Positions, *, check_crc: bool = True) -> int:
        """How many records from the first on can be believed."""
        good, bad = 0, len(sizes) + 1
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                batch = RecordBatch.from_sizes(data[: int(sizes[:middle].sum())], sizes[:middle])
                self._check(batch, check_crc=check_crc)
            except RecordError:
                bad = middle
            else:
                good = middle
        return good

    def _write(self, data: bytes, store_timestamp_ms: int, shown: Sequence[Records], kept: Kept | None) -> None:
        """Into the log; `shown` may be read then, `kept` not."""
        dispatch = self._dispatch_of(shown, kept, self._log.end_offset + len(data), store_timestamp_ms)
        self._log.write([(Placement(0, 1, self._log.end_offset, 0), data)])
        self._found.halves.kept = kept
        with self._gate:
            self._writer.store_timestamp_ms = store_timestamp_ms
            if dispatch is not None:
                self._dispatcher.submit(dispatch)
            self._writer.dispatch_safe()

    def _dispatch_of(
        self, shown: Sequence[Records], kept: Kept | None, end_offset: int, store_timestamp_ms: int
    ) -> Dispatch | None:
        """None where all that came is kept."""
        if shown:
            return self._found.dispatch_of(shown, end_offset if kept is None else kept.begin)
        return Dispatch(end_offset, store_timestamp_ms, (), None) if kept is None else None

    # --- what the master does not have

    def remove_expired(self, is_kept: Callable[[str], bool]) -> None:
        """Removes the queues of topics that are not kept, the master has deleted them, once the log has none of their
        messages. Raises OSError; then some of them are left.

        Only then, for a table may be wrong about a topic: until then the next master finds it in its log.
        """
        for topic in [topic for topic in self._queues.by_topic if not is_kept(topic)]:
            if all(queue.min_offset == queue.max_offset for queue in self._queues.by_topic[topic].values()):
                self._flusher.checkpoint_without(topic)
                self._queues.remove_topic(topic)

    def record_begin(self, physical_offset: int) -> int:
        """Where the record, or blank record, begins that holds the byte at this place below `end_offset`."""
        begin = self._segment_begin(physical_offset)
        scan = LogScan(self._log.segments, begin, self._log.end_offset, check_crc=False)
        for found in scan.run():
            start = found.physical_offset if isinstance(found, Records) else found.start
            if start > physical_offset:  # of a blank record a scan says nothing
                break
            if isinstance(found, Records) and scan.position > physical_offset:
                begins = found.batch.positions + start
                return int(begins[begins.searchsorted(physical_offset, "right") - 1])
            if scan.position > physical_offset:
                return start
            begin = scan.position
        return begin

    def cut(self, physical_offset: int) -> str:
        """Takes back all from a record's begin on, which the master does not have; see `TailCut.run`. If that is within
        the messages of a half batch, all of these: the master sends them again."""
        kept = self._tail_cut.run(self._begin_of_half(physical_offset))
        self._found.halves.kept = None
        return kept

    def _begin_of_half(self, physical_offset: int) -> int:
        """Where the messages of the half batch begin that the log would end within if it ended here, in whichever file;
        else here."""
        begin = self._segment_begin(physical_offset - 1)
        while True:
            halves = WholeHalves(self._log)
            for found in self._records_between(begin, physical_offset):
                halves.take(found)
            kept, before = halves.kept, self._log.segments.segment_at(begin - 1)
            if kept is None or before is None or kept.begin >= begin + self._log.segment_bytes:
                return kept.begin if kept is not None else physical_offset
            begin = before.base

    def _records_between(self, begin: int, end: int) -> Iterator[Records]:
        for found in LogScan(self._log.segments, begin, end, check_crc=False).run():
            if isinstance(found, Records):
                batch = found.batch.where(found.batch.positions + found.physical_offset < end)
                if not len(batch):
                    return
                yield Records(found.physical_offset, batch)

    def _segment_begin(self, physical_offset: int) -> int:
        segment = self._log.segments.segment_at(physical_offset)
        return segment.base if segment is not None else physical_offset

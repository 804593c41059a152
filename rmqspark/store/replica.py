"""A slave's log: what its master has in the same place, byte for byte, and what follows from it here.

A master sends bytes and knows nothing of records. Here only whole records are taken, each checked (`arrival.py`), so
that the log always ends where a record does and nothing is confirmed that was not looked at. A blank record is taken
with all that is left of its file. Queues and index are made from the records by the dispatcher, as for messages that
were sent here; of a half batch's messages only once all are there (`recovery/whole_halves.py`).

RocketMQ's DefaultMessageStore.appendToCommitLog takes whatever comes, and finds out later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import StoreError
from rmqspark.store.arrival import Arrival
from rmqspark.store.dispatcher import Dispatch
from rmqspark.store.doubt import Doubt
from rmqspark.store.log.commit_log import Placement
from rmqspark.store.recovery.scan import LogScan, Records
from rmqspark.store.recovery.whole_halves import WholeHalves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqspark.store.appending.write_gate import WriteGate
    from rmqspark.store.appending.writer import Writer
    from rmqspark.store.arrival import Piece
    from rmqspark.store.contents import Contents
    from rmqspark.store.dispatcher import Dispatcher
    from rmqspark.store.flush import Flusher
    from rmqspark.store.found_records import FoundRecords
    from rmqspark.store.lineage import Lineage
    from rmqspark.store.recovery.whole_halves import Kept
    from rmqspark.store.tail_cut import TailCut


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
                begin = self._log.end_offset
                room = self._log.segment_bytes - begin % self._log.segment_bytes
                with view[taken : taken + room] as rest_of_file, view[taken + room :] as beyond:
                    piece = Arrival(rest_of_file, beyond, begin, room, self._doubt).first()
                if piece is None:
                    break
                self._take(piece)
                taken += len(piece.data)
        return taken

    def _take(self, piece: Piece) -> None:
        halves, store_timestamp_ms = self._found.halves, self._writer.store_timestamp_ms
        if piece.batch is not None:
            shown, kept = halves.after(Records(self._log.end_offset, piece.batch))
            self._write(piece.data, int(piece.batch.store_timestamps_ms[-1]), shown, kept)
        elif piece.is_damage:
            self._write(piece.data, store_timestamp_ms, halves.waiting, None)
        else:
            self._write(piece.data, store_timestamp_ms, (), halves.kept)
        self._doubt.settle(self._log.end_offset)

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

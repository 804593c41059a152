"""A store looked at with no broker to ask: which queues there are, where they begin and end, what was stored when.

Three states of a store, told by its files alone:

- closed: queues are complete, and end behind their last entry that leads to a record, unless the checkpoint says that
  there were more: these are found in the log, or missing in it;
- open in another process: the same; its newest messages, 256 of a queue at most, may be in that process's memory alone;
- neither, for its broker was killed: what the queues lack is found in the log (`tails.py`).

Nothing is changed, and no lock is taken.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqspark.errors import DamagedFile, StoreError
from rmqspark.protocol.names import may_be_topic
from rmqspark.protocol.records.record import MIN_RECORD_BYTES, SIZE_MAGIC_PLACE
from rmqspark.store.checkpoint import CHECKPOINT_BYTES, Checkpoint, read_checkpoint
from rmqspark.store.checkpoint import PATH as CHECKPOINT
from rmqspark.store.deletions import Deletions
from rmqspark.store.direct.holes import end_below, is_hole, with_holes
from rmqspark.store.direct.tails import NO_TAILS, Tail, find_tails, with_tail
from rmqspark.store.direct.view import StoreView, identity_of, queue_length
from rmqspark.store.inspection.layout import segment_files
from rmqspark.store.queues.consume_queue import NO_MESSAGE_SIZE, ConsumeQueue
from rmqspark.store.queues.consume_queues import DIRECTORY as QUEUES
from rmqspark.store.queues.consume_queues import queue_directory
from rmqspark.store.reading.left_over import LeftOver
from rmqspark.store.reading.time_search import TimeSearch
from rmqspark.store.recovery.run_marker import read_last_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from rmqspark.store.direct.lanes import EntrySource
    from rmqspark.store.files import FileSystem

Queue = tuple[str, int]
"""Topic and queue id."""
_LARGEST_HOLE: Final = 1 << 36  # bytes between two files of a queue: 3.4 billion entries


class OfflineStore:
    """What a store without a broker has. Raises OSError or StoreError where it cannot be read."""

    def __init__(self, files: FileSystem, *, is_open: bool) -> None:
        """`is_open` says that another process has it open."""
        found = {queue: segment_files(files, queue_directory(*queue)) for queue in _queues(files)}
        self.identity = identity_of(files)
        self.view = StoreView(files, queue_length([file for some in found.values() for file in some]))
        self._times = TimeSearch(self.view.log)
        self._checkpoint = _checkpoint_of(files)
        self._deletions = Deletions(files)
        if not self._checkpoint.is_sealed:
            self._deletions.distrust_places()
        was_closed = not is_open and read_last_run(files).was_closed
        self._left_over = LeftOver(self._deletions, self.view.log, self._times)
        self._queues = {queue: self._load(*queue) for queue, some in found.items() if some}
        is_incomplete = was_closed and self._checkpoint.is_sealed and self._lacks_entries()
        if is_incomplete:
            self._believe_queues()
            is_incomplete = self._lacks_entries()
        self._leave_out_deleted()
        self.tails: Mapping[Queue, Tail] = NO_TAILS
        if is_incomplete or not (is_open or was_closed):
            self._find_tails()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.view.close()

    def queues(self) -> list[Queue]:
        """All there are, also the system's own."""
        return sorted({*self._ends, *self.tails})

    def deleted_ms(self, topic: str) -> int:
        """When a topic of that name was deleted last; 0 if never."""
        deletion = self._deletions.get(topic)
        return deletion.deleted_ms if deletion is not None else 0

    def begin(self, queue: Queue) -> int:
        """The first offset that can be read."""
        found = self._queues.get(queue)
        return found.min_offset if found is not None else self.tails[queue].start

    def end(self, queue: Queue) -> int:
        """One past the last offset that can be read."""
        return self.tails[queue].end if queue in self.tails else self._ends[queue]

    def source(self, queue: Queue) -> EntrySource | None:
        """The queue's entries; zeros where its files lack them."""
        return with_tail(with_holes(self._queues.get(queue)), self.tails.get(queue))

    def offset_at(self, queue: Queue, timestamp_ms: int) -> int:
        """The first message stored then or later; the end if there is none. As the broker finds it."""
        found = self._queues.get(queue)
        at = self._times.offset(found, timestamp_ms, "LOWER") if found is not None else self.begin(queue)
        tail = self.tails.get(queue)
        if tail is None or at < tail.start:
            return at
        return next(
            (offset for offset in range(at, tail.end) if self._stored_ms(tail, offset) >= timestamp_ms), tail.end
        )

    def _load(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self.view.queue(topic, queue_id)
        if queue is None or any(end - start > _LARGEST_HOLE for start, end in _holes(queue)):
            directory = queue_directory(topic, queue_id)
            raise StoreError(f"The files in {directory} cannot be made out: lengths and names contradict each other.")
        self._find_end(queue, self.view.log.end_offset)
        return queue

    def _find_end(self, queue: ConsumeQueue, physical_offset: int) -> None:
        """Ends the queue behind its last entry for a message below a place. RocketMQ leaves entries behind the end
        that an earlier run of it had written; they lead to no record."""
        queue.max_offset = end_below(queue, physical_offset)
        self._find_begin(queue)
        end = queue.max_offset
        while end > queue.min_offset and not self._has_message(queue, end - 1):
            end -= 1
        queue.max_offset = end

    def _find_begin(self, queue: ConsumeQueue) -> None:
        with suppress(DamagedFile):
            queue.follow_log_start(self.view.log.min_offset)
        # A hole there has misled the search: rather what has expired is missed than the rest.
        if is_hole(queue, queue.min_offset - 1):
            queue.min_offset = queue.first_offset
        self._left_over.hide(queue)

    def _believe_queues(self) -> None:
        """Ends queues behind their last entry, though it may lead nowhere: the end of the log is gone, and who reads is
        to be told what was in it."""
        for queue in self._queues.values():
            queue.max_offset = end_below(queue, max(self.view.log.end_offset, self._checkpoint.watermark))
            self._find_begin(queue)

    def _lacks_entries(self) -> bool:
        """Whether a queue, or a part of one, is missing that there was at the checkpoint. As recovery tells it."""
        return sum(queue.max_offset for queue in self._queues.values()) < self._checkpoint.entries_total

    def _leave_out_deleted(self) -> None:
        self._queues = {name: queue for name, queue in self._queues.items() if not self._left_over.is_all_of(queue)}
        self._ends = {name: queue.max_offset for name, queue in self._queues.items()}

    def _has_message(self, queue: ConsumeQueue, offset: int) -> bool:
        try:
            physical_offset, size, _ = queue.entry(offset)
            if size == NO_MESSAGE_SIZE:
                return True  # it was lost, and keeps its place
            head = self.view.log.segments.read(physical_offset, MIN_RECORD_BYTES)
        except (OSError, StoreError):
            return False
        stored_size, _, place = SIZE_MAGIC_PLACE.unpack_from(head)
        return (stored_size, place) == (size, physical_offset)

    def _find_tails(self) -> None:
        log, found, checkpoint = self.view.log, list(self._queues.values()), self._checkpoint
        if checkpoint.is_sealed:
            start, watermark = (
                max(log.min_offset, place) for place in (checkpoint.recovery_offset, checkpoint.watermark)
            )
            for queue in found:
                queue.max_offset = end_below(queue, start)
                self._find_begin(queue)
            if self._lacks_entries():
                start = log.min_offset
        else:
            start = watermark = max([log.min_offset, *(queue.end_physical_offset() for queue in found)])
        self._leave_out_deleted()
        self.tails = find_tails(log, start, watermark, self._ends, self._deletions, has_vouchers=checkpoint.is_sealed)

    def _stored_ms(self, tail: Tail, offset: int) -> int:
        """When a message of a tail was stored; -1 of one that was lost."""
        source = with_tail(None, tail)
        assert source is not None
        (entry,) = source.entries(offset, offset + 1)
        if int(entry["size"]) == NO_MESSAGE_SIZE:
            return -1
        return self._times.store_time_of(int(entry["physical_offset"]))


def _holes(queue: ConsumeQueue) -> Iterator[tuple[int, int]]:
    return queue.segments.gaps_below(queue.segments.capacity_end)


def _queues(files: FileSystem) -> list[Queue]:
    """Topics and queue ids by the names of directories; what cannot be a topic's is left alone."""
    found = []
    for topic in files.listdir(QUEUES) if files.is_directory(QUEUES) else ():
        if may_be_topic(topic) and files.is_directory(f"{QUEUES}/{topic}"):
            names = files.listdir(f"{QUEUES}/{topic}")
            found += [(topic, int(name)) for name in names if name.isdecimal() and name == str(int(name))]
    return found


def _checkpoint_of(files: FileSystem) -> Checkpoint:
    if not files.exists(CHECKPOINT):
        return Checkpoint()
    file = files.open(CHECKPOINT, read_only=True)
    try:
        return read_checkpoint(file.pread(CHECKPOINT_BYTES, 0))
    finally:
        file.close()

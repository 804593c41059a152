"""A slave's tail that its master does not have is taken back, out of the log and all that was made of it.

What was there is kept in a file (`cut_tails.py`): it may be the only copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.store.cut_tails import keep_tail
from rmqspark.store.recovery.scan import LogScan, Records

if TYPE_CHECKING:
    from rmqspark.store.appending.write_gate import WriteGate
    from rmqspark.store.checkpoint import CheckpointFile
    from rmqspark.store.deletions import Deletions
    from rmqspark.store.dispatcher import Dispatcher
    from rmqspark.store.files import FileSystem
    from rmqspark.store.flush import Flusher
    from rmqspark.store.identity import StoreIdentity
    from rmqspark.store.index.index import Index
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queues import ConsumeQueues


class TailCut:
    """Cuts the log of one store, and what follows from it."""

    def __init__(
        self,
        files: FileSystem,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        deletions: Deletions,
        dispatcher: Dispatcher,
        gate: WriteGate,
        flusher: Flusher,
        checkpoint_file: CheckpointFile,
        identity: StoreIdentity,
    ) -> None:
        self._files = files
        self._log = log
        self._queues = queues
        self._index = index
        self._deletions = deletions
        self._dispatcher = dispatcher
        self._gate = gate
        self._flusher = flusher
        self._checkpoint_file = checkpoint_file
        self._identity = identity

    def run(self, physical_offset: int) -> str:
        """Takes back all from a record's begin on, durably; what was there is kept in the file whose path is returned.
        Offsets known from before may mean other messages then: the incarnation rises. Raises OSError; NotWritable where
        the store takes nothing; ValueError while a flush is under way.

        Each step can be followed by a kill: the checkpoint comes first, and what is left is found and cut once more.
        Where the disk refuses a step nobody can say what is there until the store is opened again.
        """
        self._gate.check(from_master=True)  # after a failed fsync another would prove nothing
        self._flusher.flush()
        if self._dispatcher.fault is not None:
            raise self._dispatcher.fault
        tail = self._log.segments.read(physical_offset, self._log.end_offset - physical_offset)
        kept = keep_tail(self._files, physical_offset, tail)
        try:
            self._take_back(physical_offset)
        except BaseException as error:
            hint = "Start the broker again: it finds what is there."
            self._gate.shut_for_good(f"A tail of the log was cut off by half: {error}.", hint)
            raise
        return kept

    def _take_back(self, physical_offset: int) -> None:
        self._identity.raise_incarnation()
        self._lower_checkpoint(physical_offset)
        for queue in self._queues:
            end = queue.first_at_or_after(physical_offset)
            if end < queue.max_offset:
                queue.cut(end)
        self._log.segments.cut(physical_offset)
        self._log.end_offset = physical_offset
        self._log.flushed_offset = min(self._log.flushed_offset, physical_offset)
        self._deletions.follow_log_end(physical_offset)
        self._dispatcher.rewind(physical_offset)
        self._cut_index(physical_offset)
        self._flusher.flush(thorough=True)

    def _lower_checkpoint(self, physical_offset: int) -> None:
        current = self._checkpoint_file.current
        recovery_offset = min(current.recovery_offset, physical_offset)
        lowered = current._replace(
            watermark=min(current.watermark, physical_offset),
            recovery_offset=recovery_offset,
            entries_total=sum(queue.first_at_or_after(recovery_offset) for queue in self._queues),
        )
        self._checkpoint_file.write(lowered)
        self._checkpoint_file.sync()

    def _cut_index(self, physical_offset: int) -> None:
        if self._index is None:
            return
        start = max(self._index.cut(physical_offset), self._log.min_offset)
        scan = LogScan(self._log.segments, start, physical_offset, check_crc=False)
        for found in scan.run():
            if isinstance(found, Records):
                self._index.append_records(None, found.batch, found.batch.positions + found.physical_offset)

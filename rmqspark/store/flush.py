"""Getting things onto the disk, in three steps: begin (owner's thread), run (any thread), finish (owner's thread).

What a flush covers is fixed when it begins; appends go on while it runs. A *thorough* flush covers queues, index and
checkpoint besides the log, so that the next recovery starts where it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.store.checkpoint import NO_INDEX, Checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.store.appending.write_gate import WriteGate
    from rmqspark.store.appending.writer import Writer
    from rmqspark.store.checkpoint import CheckpointFile
    from rmqspark.store.contents import Contents
    from rmqspark.store.dispatcher import Dispatcher
    from rmqspark.store.index.index import IndexFlush
    from rmqspark.store.log.segment import NewNames, SegmentFiles, SyncTarget


class FlushPlan(NamedTuple):
    """One flush under way. `run` may be called from any thread, once; it raises OSError if an fsync failed."""

    targets: Sequence[SyncTarget]
    names: NewNames | None
    index_flush: IndexFlush | None
    older_checkpoint: CheckpointFile | None
    checkpoint: Checkpoint
    removals: int  # of queues, when the checkpoint counted their entries
    is_thorough: bool

    def run(self) -> None:
        for target in self.targets:
            target.sync()
        if self.names is not None:
            self.names.sync()
        if self.index_flush is not None:
            self.index_flush.run()
        if self.older_checkpoint is not None:
            self.older_checkpoint.sync()


class Flusher:
    """Begins and finishes flushes, one at a time."""

    def __init__(
        self,
        contents: Contents,
        log_files: SegmentFiles,
        queue_files: SegmentFiles,
        dispatcher: Dispatcher,
        writer: Writer,
        checkpoint_file: CheckpointFile,
        gate: WriteGate,
    ) -> None:
        self._log, self._queues, self._index = contents.log, contents.queues, contents.index
        self._log_files = log_files
        self._queue_files = queue_files
        self._dispatcher = dispatcher
        self._writer = writer
        self._checkpoint_file = checkpoint_file
        self._gate = gate
        self._under_way: FlushPlan | None = None
        self._failure: OSError | None = None  # of an fsync; another would pass, and prove nothing (reliability, G6)
        self.checkpoint_refusal: OSError | None = None
        """Why the disk did not take the newest checkpoint; None if it did. A recovery begins at an older one meanwhile,
        and what that does not call durable does not expire."""

    @property
    def is_busy(self) -> bool:
        """Whether a plan is under way."""
        return self._under_way is not None

    @property
    def recovery_offset(self) -> int:
        """Physical offset from which a recovery would begin now, or behind it, after a power loss too. It moves when a
        checkpoint is on disk itself: that is synced by the thorough flush after the one that wrote it."""
        return self._checkpoint_file.synced.recovery_offset

    def begin(self, *, thorough: bool = False) -> FlushPlan | None:
        """A plan that covers all there is now, with `thorough` the queues, the index and the checkpoint, too; None if
        all is on disk, while another plan is under way, and after a failed fsync. `plan.run()` may block, and be called
        on any thread; then `finish`."""
        self._writer.dispatch_safe()  # what a full disk refused to queues and index is tried again, traffic or not
        if self._under_way is not None or self._failure is not None:
            return None
        if not thorough and self._log.flushed_offset == self._log.end_offset:
            return None
        self._under_way = self._plan_thorough() if thorough else self._plan()
        return self._under_way

    def finish(self, plan: FlushPlan, error: OSError | None = None) -> None:
        """Draws the consequences. After a failed fsync the store takes no message any more."""
        if plan is not self._under_way:
            raise ValueError("this plan is not the one under way")
        if error is not None:
            self._failure = error
            self.give_up(f"An fsync failed: {error}.", "Check the disk, then start the broker again.")
            return
        self._under_way = None
        self._log_files.end_sync([target for target in plan.targets if target.files is self._log_files])
        if plan.is_thorough:
            self._queue_files.end_sync([target for target in plan.targets if target.files is self._queue_files])
        checkpoint, holds = plan.checkpoint, plan.removals == self._queues.removals  # else it counts queues that went
        if self._index is not None and plan.index_flush is not None:
            if plan.index_flush.refusal is None:
                self._index.finish_flush(plan.index_flush)
            else:  # a full disk, where nothing is lost but the keys wait on
                holds = False
        if not holds:
            checkpoint = self._of_log(checkpoint.log_timestamp_ms, checkpoint.watermark)
        self._log.flushed_offset = checkpoint.watermark
        self._write(checkpoint)
        self._writer.dispatch_safe()

    def _write(self, checkpoint: Checkpoint) -> None:
        try:
            self._checkpoint_file.write(checkpoint)
            self.checkpoint_refusal = None
        except OSError as error:  # the one on disk is older, which is always safe; the next flush writes again
            self.checkpoint_refusal = error

    def give_up(self, reason: str, hint: str) -> None:
        """Nobody can say how far a flush has come: the store takes no message any more."""
        self._under_way = None
        self._log_files.abandon_sync()
        self._queue_files.abandon_sync()
        self._gate.shut_for_good(reason, hint)

    def flush(self, *, thorough: bool = False) -> None:
        """Begin, run and finish here and now. Raises the OSError of a failed fsync, ever after; ValueError while a plan
        is under way, which began too early to cover all there is now."""
        if self.is_busy:
            raise ValueError("a flush is under way")
        if self._failure is not None:
            raise self._failure
        if (plan := self.begin(thorough=thorough)) is None:
            return
        try:
            plan.run()
        except OSError as error:
            self.finish(plan, error)
            raise
        self.finish(plan)

    def checkpoint_without(self, topic: str) -> None:
        """Writes that a topic's entries do not count any more, before they go: a checkpoint that counts more than a
        recovery finds would have it go through all of the log. Raises OSError."""
        current = self._checkpoint_file.current
        if queues := self._queues.by_topic.get(topic):
            counted = sum(queue.first_at_or_after(current.recovery_offset) for queue in queues.values())
            self._checkpoint_file.write(current._replace(entries_total=current.entries_total - counted))

    def lower_checkpoint(self, physical_offset: int) -> None:
        """Writes, durably, that a recovery begins here or before: the log is about to end here. Raises OSError."""
        current = self._checkpoint_file.current
        recovery_offset = min(current.recovery_offset, physical_offset)
        lowered = current._replace(
            watermark=min(current.watermark, physical_offset),
            recovery_offset=recovery_offset,
            entries_total=sum(queue.first_at_or_after(recovery_offset) for queue in self._queues),
        )
        self._checkpoint_file.write(lowered)
        self._checkpoint_file.sync()

    def _plan(self) -> FlushPlan:
        checkpoint = self._of_log(self._writer.store_timestamp_ms, self._log.end_offset)
        targets = self._log_files.begin_sync()
        return FlushPlan(targets, None, None, None, checkpoint, self._queues.removals, is_thorough=False)

    def _of_log(self, log_timestamp_ms: int, watermark: int) -> Checkpoint:
        """The log alone: the watermark moves, where recovery begins does not."""
        return self._checkpoint_file.current._replace(
            log_timestamp_ms=log_timestamp_ms, watermark=watermark, is_sealed=True
        )

    def _plan_thorough(self) -> FlushPlan:
        """Everything, and the checkpoint of the flush before: on disk it may be older than the truth, never newer."""
        try:
            self._queues.write_out()
            index_flush = self._index.begin_flush() if self._index is not None else None
        except OSError:  # entries or keys wait on; where recovery begins must not move past them
            return self._plan()
        checkpoint = Checkpoint(
            log_timestamp_ms=self._writer.store_timestamp_ms,
            queues_timestamp_ms=self._dispatcher.store_timestamp_ms,
            index_timestamp_ms=self._index.sealed_timestamp_ms if self._index is not None else 0,
            watermark=self._log.end_offset,
            recovery_offset=self._dispatcher.offset,
            entries_total=self._queues.entries_total(),
            index_offset=self._index.end_physical_offset if self._index is not None else NO_INDEX,
            is_sealed=True,
        )
        targets = [*self._log_files.begin_sync(), *self._queue_files.begin_sync()]
        names = self._queue_files.begin_names()
        return FlushPlan(
            targets, names, index_flush, self._checkpoint_file, checkpoint, self._queues.removals, is_thorough=True
        )

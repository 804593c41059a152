"""Deleting what has expired: `retention.decide` says what, this does it (spec: storage, section 8).

The log's files go first, then what leads only to them. A crash in between leaves queues and index files that lead
nowhere; reads step over them, and the next round deletes them. What a slave once cut off its log goes as well, when it
is as old (`cut_tails.py`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from rmqspark.store.cut_tails import drop_old_tails
from rmqspark.store.retention import HOUR_MS, LogFile, decide, full_disk_story, fullest, local_hour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.store.appending.write_gate import WriteGate
    from rmqspark.store.checkpoint import CheckpointFile
    from rmqspark.store.config import StoreConfig
    from rmqspark.store.contents import Contents
    from rmqspark.store.files import DiskUsage, FileSystem
    from rmqspark.store.retention import RetentionPlan

_ROOM: Final = "Free some space, keep the store on another disk, or change that setting."

log = structlog.get_logger("rmqspark.store")


class ExpireReport(NamedTuple):
    """What a round of expiry did. `is_forced` says that files went before their time because the disk is full."""

    deleted: tuple[str, ...]
    min_physical_offset: int
    is_forced: bool
    is_disk_full: bool


class Expiry:
    """One round after another; each deletes at most `delete_file_batch_max` files of the log."""

    def __init__(
        self,
        config: StoreConfig,
        files: FileSystem,
        contents: Contents,
        checkpoint_file: CheckpointFile,
        gate: WriteGate,
    ) -> None:
        self._config = config
        self._files = files
        self._contents = contents
        self._log = contents.log
        self._checkpoint_file = checkpoint_file
        self._gate = gate
        self._is_disk_full = False
        self._followed_offset = -1  # the start of the log that queues and index have been cut to
        self._has_synced_names = False  # of the queues' files; those that are made from now on are

    def run(
        self, now_ms: int, *, keep_from: int | None = None, spare_from: int | None = None, at_any_hour: bool = False
    ) -> ExpireReport:
        """One round. While the disk is full beyond the warning level the store takes no messages.

        The file that holds physical offset `keep_from`, and those behind it, stay whatever their age; so do those from
        where a recovery would begin. From `spare_from` on files go only where the disk is so full that they go before
        their time, or no message is taken. `at_any_hour` what has expired goes, whatever `delete_when` says. After a
        failed fsync nothing is deleted: nobody can say what else of the store is on disk.
        """
        if self._gate.has_failed:
            return ExpireReport((), self._log.min_offset, is_forced=False, is_disk_full=self._is_disk_full)
        kept_offset = self._settled_offset if keep_from is None else min(self._settled_offset, keep_from)
        log_files = [
            LogFile(segment.base, self._written_ms(segment.path))
            for segment in self._log.segments
            if segment.base <= kept_offset
        ]
        plan = self._plan(now_ms, log_files, at_any_hour=at_any_hour)
        deleted: list[str] = []
        if old := self._unspared(plan, spare_from):
            self._make_durable()
            deleted += self._log.segments.drop_before(old[-1].base_offset + self._log.segment_bytes)
        if self._followed_offset != self._log.min_offset:
            self._log.segments.sync_names()  # refused before, perhaps: what leads to messages goes after they have gone
            deleted += self._contents.follow_log_start()
            self._followed_offset = self._log.min_offset
        deleted += drop_old_tails(self._files, now_ms - self._config.file_reserved_time * HOUR_MS)
        return ExpireReport(tuple(deleted), self._log.min_offset, plan.is_forced, plan.is_disk_full)

    def adopt(self, config: StoreConfig) -> None:
        """Goes by these settings from the next round on."""
        self._config = config

    def look_at_disk(self, now_ms: int) -> None:
        """A round that deletes nothing: only whether the disk has room for messages."""
        self._plan(now_ms, [])

    def _plan(self, now_ms: int, log_files: Sequence[LogFile], *, at_any_hour: bool = False) -> RetentionPlan:
        disks = [self._files.disk_usage(), self._files.disk_usage(self._log.segments.directory)]
        plan = decide(
            now_ms,
            local_hour(now_ms),
            log_files,
            disks,
            self._config,
            was_disk_full=self._is_disk_full,
            at_any_hour=at_any_hour,
        )
        self._note_disks(disks, is_full=plan.is_disk_full)
        return plan

    def _unspared(self, plan: RetentionPlan, spare_from: int | None) -> Sequence[LogFile]:
        if plan.is_forced or plan.is_disk_full or spare_from is None:
            return plan.delete
        return [file for file in plan.delete if file.base_offset + self._log.segment_bytes <= spare_from]

    def _written_ms(self, path: str) -> int:
        """0 of a file that somebody has deleted, to make room perhaps: it must not keep the others for ever."""
        with suppress(FileNotFoundError):
            return self._files.modified_ms(path)
        return 0

    @property
    def _settled_offset(self) -> int:
        """Below it all messages are in their queues, and these on disk: the highest offset that a queue ever gave must
        outlive its messages, for the log proves it no more. From there on messages may be in no queue yet, or rest on a
        voucher in the file before theirs (`vouchers.py`).

        It is never more than the end of the log: a write that a full disk refused may have left an empty file behind
        that. As the newest it would be kept, and the one that is written to deleted in its stead.
        """
        return self._checkpoint_file.current.recovery_offset

    def _make_durable(self) -> None:
        """That a recovery begins there, and that the files of all queues are: a process that was killed may have made
        some and not got as far as their names. Raises OSError, after which nothing is written any more."""
        try:
            if not self._has_synced_names:
                self._contents.queues.sync_names()
                self._has_synced_names = True
            self._checkpoint_file.sync()
        except OSError as error:
            self._gate.shut_for_good(f"An fsync failed: {error}.", "Check the disk, then start the broker again.")
            raise

    def _note_disks(self, disks: Sequence[DiskUsage], *, is_full: bool) -> None:
        """The operator is told when it changes, senders with each refusal."""
        if is_full:
            story = full_disk_story(fullest(disks, self._config), self._config)
            self._gate.shut(story, _ROOM)
            if not self._is_disk_full:
                log.warning("no message is taken", reason=story, hint=_ROOM)
        elif self._is_disk_full:
            self._gate.open()
            log.info("messages are taken again, the disk has room")
        self._is_disk_full = is_full

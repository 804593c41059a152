"""What a store is made of, storey upon storey, each of those below it; and how they are opened and given back together.

    files → segments → commit log → consume queues, index → dispatcher, writer → flush, reads, what goes

`MessageStore` says what may be asked of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import StoreError
from rmqspark.store.appending.write_gate import WriteGate
from rmqspark.store.appending.writer import Writer
from rmqspark.store.checkpoint import Checkpoint, CheckpointFile
from rmqspark.store.config import memory_bytes, parse_delay_levels
from rmqspark.store.contents import Contents
from rmqspark.store.deletions import Deletions
from rmqspark.store.dispatcher import Dispatcher
from rmqspark.store.expiry import Expiry
from rmqspark.store.flush import Flusher
from rmqspark.store.found_records import FoundRecords
from rmqspark.store.identity import StoreIdentity
from rmqspark.store.index.index import Index
from rmqspark.store.lineage import Lineage
from rmqspark.store.log.commit_log import CommitLog
from rmqspark.store.log.segment import SegmentFiles
from rmqspark.store.log_records import LogRecords
from rmqspark.store.queues.consume_queues import ConsumeQueues
from rmqspark.store.reading.collect import Collector
from rmqspark.store.reading.key_search import KeySearch
from rmqspark.store.reading.range_reader import RangeReader
from rmqspark.store.reading.readable_queues import ReadableQueues
from rmqspark.store.reading.reader import Reader
from rmqspark.store.reading.tag_search import TagSearch
from rmqspark.store.reading.time_search import TimeSearch
from rmqspark.store.recovery import run_marker
from rmqspark.store.recovery.recovery import Recovery
from rmqspark.store.replica import ReplicaLog
from rmqspark.store.tail_cut import TailCut
from rmqspark.store.topic_deletions import TopicDeletions

if TYPE_CHECKING:
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.store.config import StoreConfig
    from rmqspark.store.files import FileSystem
    from rmqspark.store.recovery.run_marker import LastRun
    from rmqspark.store.recovery.scan import Damage

_DLEDGER: Final = "dledger-"  # and the broker's id in its group
_IN_ROCKSDB: Final = ("topics", "subscriptionGroups", "consumerOffsets", "metadata", "rdb")  # under config/

log = structlog.get_logger("rmqspark.store")


class Storeys:
    """Of one store, in a directory that is locked. `recover` comes first, `close` last."""

    def __init__(
        self, config: StoreConfig, files: FileSystem, clock: Clock, entropy: Entropy, store_host: bytes
    ) -> None:
        """Raises StoreError, DamagedFile, OSError."""
        self._config = config
        self.files = files
        _refuse_dledgers_log(files)
        _refuse_rocksdbs_tables(files)
        self._lay_ground(entropy)
        self._lay_log(clock)
        self.writer = Writer(config, self.log, self.queues, self.index, self.dispatcher, self.found, self.gate, clock)
        self.writer.store_host = store_host
        self.flusher = Flusher(
            self.contents,
            self._log_files,
            self._queue_files,
            self.dispatcher,
            self.writer,
            self.checkpoint_file,
            self.gate,
        )
        self._lay_reads()
        self._lay_what_goes(clock)

    def _lay_ground(self, entropy: Entropy) -> None:
        """The small files, and what knows no other."""
        self.identity = StoreIdentity.open(self.files, entropy)
        if self.identity.warning:
            log.warning("the store's identity was read from its copy", reason=self.identity.warning)
        self._deletions = Deletions(self.files)
        if self._deletions.warning:
            log.warning("the deleted topics were read from their copy", reason=self._deletions.warning)
        self.checkpoint_file = CheckpointFile(self.files)
        self.gate = WriteGate()
        self.dispatcher = Dispatcher()

    def _lay_log(self, clock: Clock) -> None:
        """And what is derived from it."""
        config, files = self._config, self.files
        self._log_files = SegmentFiles(files, config.max_open_files)
        self._queue_files = SegmentFiles(files, config.max_open_files, config.max_unsynced_files, names_wait=True)
        self.log = CommitLog(files, self._log_files, "commitlog", config.mapped_file_size_commit_log)
        levels = parse_delay_levels(config.message_delay_level)
        self.queues = ConsumeQueues(files, self._queue_files, config.consume_queue_segment_bytes, levels)
        self.index = Index(files, config, clock) if config.message_index_enable else None
        self.contents = Contents(self.log, self.queues, self.index, self._deletions)
        self.found = FoundRecords(self.contents)

    def _lay_reads(self) -> None:
        collector = Collector(self.log.segments)
        self.reader = Reader(self.log, self.queues, collector)
        self.range_reader = RangeReader(self.log, self.queues, collector)
        self.key_search = KeySearch(self.log, self.index)
        self.times = TimeSearch(self.log)
        self.tag_search = TagSearch(self.log, self.queues, self.times)
        recent_bytes = memory_bytes() * self._config.access_message_in_memory_max_ratio // 100
        self.readable_queues = ReadableQueues(self.queues, self.log, self.times, recent_bytes)
        self.log_records = LogRecords(self.log, self.readable_queues, self._config.max_message_size)

    def _lay_what_goes(self, clock: Clock) -> None:
        """Topics, what a master does not have, and what has had its time."""
        contents, dispatcher, flusher, writer = self.contents, self.dispatcher, self.flusher, self.writer
        self.topic_deletions = TopicDeletions(contents, dispatcher, flusher, writer, self.times, clock)
        self.lineage = Lineage(self.files, self.identity)
        tail_cut = TailCut(self.files, contents, dispatcher, self.gate, flusher, self.identity)
        self.replica = ReplicaLog(contents, dispatcher, self.found, writer, self.gate, flusher, tail_cut, self.lineage)
        self.expiry = Expiry(self._config, self.files, contents, self.checkpoint_file, self.gate)

    def recover(self) -> tuple[Damage, ...]:
        """From whatever the last run left to a store in order; returns what was on disk and cannot be believed."""
        self.contents.load()
        checkpoint = self.checkpoint_file.current
        last_run = self._last_run(checkpoint)
        run_marker.mark_recovering(self.files, last_run)
        recovered = Recovery(
            self.contents,
            checkpoint,
            last_run,
            self.identity.raise_incarnation,
            halves=self.found.halves,
            check_crc=self._config.check_crc_on_recover,
        ).run()
        if recovered.refused:
            log.warning("messages of the log are in no queue, there is none as they say", count=recovered.refused)
        newest_ms = recovered.store_timestamp_ms or checkpoint.log_timestamp_ms
        self.writer.store_timestamp_ms = self.dispatcher.store_timestamp_ms = newest_ms
        self.dispatcher.offset = self.log.end_offset
        self._keep_back()
        self._flush_to_disk()
        self.identity.begin_opening()
        run_marker.mark_running(self.files, self._config.flush_disk_type)
        return recovered.damage

    def _last_run(self, checkpoint: Checkpoint) -> LastRun:
        """How it ended. Whoever deletes `abort` after a crash takes the word of it along, but ours closes a store with
        nothing in the log behind the watermark. Nobody closes one with messages and no checkpoint: without that nothing
        says how far the queues are."""
        said = run_marker.read_last_run(self.files)
        if not said.was_closed:
            return said
        if checkpoint.is_sealed and self.log.segments.has_bytes_from(checkpoint.watermark):
            log.warning("the store was not closed in order, though the file abort is not there")
            return run_marker.UNKNOWN
        is_lost = not checkpoint.is_sealed and not checkpoint.log_timestamp_ms and bool(self.log.segments)
        return run_marker.NOT_CLOSED if is_lost else said

    def _keep_back(self) -> None:
        """What is at the end of the log of a half batch, until the rest is appended, or something else: then there is
        no rest."""
        if (kept := self.found.halves.kept) is not None:
            self.dispatcher.offset = kept.begin
            self.writer.store_timestamp_ms = kept.store_timestamp_ms

    def make_all_durable(self) -> None:
        """So that the next opening has nothing to do, where the disk has not failed. Raises OSError."""
        self.log.segments.stop_next()
        if self.gate.has_failed or self.flusher.is_busy:
            return
        self.log.clear_tail()  # or the next start would believe what was refused
        self._flush_to_disk()
        if self.index is not None:
            self.index.close()
        self.log.segments.remove_next()
        kept = self.found.halves.kept
        if self.checkpoint_file.current.recovery_offset == (self.log.end_offset if kept is None else kept.begin):
            run_marker.mark_closed(self.files)

    def _flush_to_disk(self) -> None:
        self.flusher.flush()  # in SYNC_FLUSH this is what makes the last messages readable
        self.flusher.flush(thorough=True)
        self.checkpoint_file.sync()

    def close(self) -> None:
        """Gives the files back."""
        self.gate.shut_for_good("The store is closed.")
        self._log_files.close()
        self._queue_files.close()
        if self.index is not None:
            self.index.abandon()
        self.checkpoint_file.close()


def _refuse_dledgers_log(files: FileSystem) -> None:
    """The queues of such a store lead into a log that is not here: they would be taken for what a lost log has left,
    and removed."""
    found = [name for name in files.listdir("") if name.startswith(_DLEDGER) and files.is_directory(name)]
    if found:
        raise StoreError(
            f"The log of this store is in {found[0]}/, where RocketMQ's DLedger keeps it: that is not read.",
            hint="Give this broker a directory of its own, and have RocketMQ's broker serve what is here.",
        )


def _refuse_rocksdbs_tables(files: FileSystem) -> None:
    """What is there of them as JSON is older, if anything: groups would be made anew by use, and begin where they have
    never been."""
    found = [name for name in _IN_ROCKSDB if files.exists(f"config/{name}/CURRENT")]
    if found:
        raise StoreError(
            f"RocketMQ keeps tables of this store in RocksDB, in config/{found[0]}/: that is not read.",
            hint="Have its broker write topics, subscriptionGroups and consumerOffsets as JSON "
            f"(mqadmin rocksDBConfigToJson), then move {' and '.join(found)} out of config/.",
        )

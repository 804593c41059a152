"""The key index: finds messages by unique id or key (spec: storage, section 4; RocketMQ's IndexService).

A row of index files, each with room for so many keys; only the newest is written. All of it is derived from the log.

Keys enter in the order of their physical offsets, all keys of a record together, so the index is always exactly "every
record up to `end_physical_offset`". What is fed to it twice is known by its offset and left out; recovery may feed
generously. After a kill or a power loss the entries that the headers count are replayed, not trusted (index_file.py),
the last record's are dropped, and feeding goes on from that record. So recovery costs the replay of one file
(some 30 ns an entry) and the feeding of what came after the last flush, and ends with the very bytes that an
undisturbed store would have written.

Keys wait in memory and are entered a few thousand at a time, before every lookup and flush at the latest. If the disk
refuses them the OSError goes to the caller, and they wait on.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from rmqspark.errors import StoreError
from rmqspark.store.files import make_directories
from rmqspark.store.index.index_file import HeaderFlush, IndexFile, IndexLayout
from rmqspark.store.index.index_keys import KeyBatch, SingleKeys, key_hash, keys_of_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.clock import Clock
    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.store.config import StoreConfig
    from rmqspark.store.files import FileSystem

MAX_FOUND = 64  # RocketMQ's maxMsgsNumBatch
FROM_THE_END = (1 << 63) - 1
_NAME = re.compile(r"\d{17}", re.ASCII)
_NAME_LENGTH = 17  # yyyyMMddHHmmssSSS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DRAIN_AT = 4096  # waiting keys
_LARGEST_WRITE = 1 << 16  # keys; what is touched for as many stays in the processor's cache


class IndexFlush:
    """A flush under way: `run` on any thread, then `Index.finish_flush` on the owner's.

    `refusal` is why a header could not be written; then nothing of the flush counts. An OSError from `run` is worse: an
    fsync has failed.
    """

    def __init__(self, steps: list[tuple[IndexFile, HeaderFlush]]) -> None:
        self.steps = steps
        self.refusal: OSError | None = None

    def run(self) -> None:
        """Oldest file first, so that what is durable is always a prefix."""
        for _, step in self.steps:
            self.refusal = step.run()
            if self.refusal is not None:
                return


class Index:
    """All index files of a store. Call `load` first."""

    def __init__(self, files: FileSystem, config: StoreConfig, clock: Clock, directory: str = "index") -> None:
        self._disk = files
        self._clock = clock
        self._directory = directory
        self._layout = IndexLayout(config.max_hash_slot_num, config.max_index_num)
        self._files: list[IndexFile] = []
        self._waiting = SingleKeys()
        self._unwritten: list[KeyBatch] = []  # hashed, older than those that wait
        self._accepted_offset = -1
        self.sealed_timestamp_ms = 0  # for the checkpoint: files that end at or before it are complete on disk

    # --- start

    def load(self, *, clean: bool, log_end_offset: int, checkpoint_timestamp_ms: int = 0) -> int:
        """Opens what is there and returns the physical offset from which records must be fed: that of the last record
        in the index, or of the last that was, 0 if there is none.

        `clean`: the store was closed in order, the files are as they were left. Otherwise those that are not full, or
        whose end is after `checkpoint_timestamp_ms` (the checkpoint's indexMsgTimestamp), are replayed. Entries at or
        beyond `log_end_offset`, where the recovered log ends, are dropped.
        """
        self._open_files()
        feed_from: int | None = None
        if not (clean and self._is_as_closed(log_end_offset)):
            self._replay(checkpoint_timestamp_ms)
            feed_from = self._drop_last_record(log_end_offset)
        self._accepted_offset = self._files[-1].header.end_physical_offset if self._files else -1
        self._note_sealed()
        return max(0, self._accepted_offset) if feed_from is None else feed_from

    def seams(self) -> list[tuple[int, int]]:
        """For each file, where the last record lies of the file before it (-1: there is none), and the first of its
        own: none that has keys is between them, or a file is missing."""
        headers = [file.header for file in self._files]
        lasts = [-1, *(header.end_physical_offset for header in headers)]
        return [(last, header.begin_physical_offset) for last, header in zip(lasts, headers, strict=False)]

    # --- keys in

    @property
    def end_physical_offset(self) -> int:
        """The last record fed, -1 if there was none. Its keys may still wait."""
        return self._accepted_offset

    def append(self, keys: Sequence[bytes], physical_offsets: Sequence[int], store_timestamp_ms: int) -> None:
        """Takes single keys, each `topic#key` in UTF-8, of records stored at the same time; ascending, and all those of
        a record in one call. Cheap: they are entered later."""
        if keys and physical_offsets[0] <= self._accepted_offset:
            first = bisect_right(physical_offsets, self._accepted_offset)
            keys, physical_offsets = keys[first:], physical_offsets[first:]
        if keys:
            self._waiting.add(keys, physical_offsets, store_timestamp_ms)
            self._accepted_offset = physical_offsets[-1]
        self._drain_if_many()

    def append_records(self, topic: str | None, records: RecordBatch, physical_offsets: Positions) -> None:
        """Enters the keys of many checked records, of one topic or (None) of several."""
        if not len(records) or int(physical_offsets[-1]) <= self._accepted_offset:
            self._drain_if_many()
            return
        self.append_keys(keys_of_records(topic, records, physical_offsets), int(physical_offsets[-1]))

    def append_keys(self, keys: KeyBatch, last_physical_offset: int) -> None:
        """Enters the keys of records, the last of which lies at `last_physical_offset` and may have none."""
        self.append_hashed(keys)
        self._accepted_offset = max(self._accepted_offset, last_physical_offset)

    def append_hashed(self, keys: KeyBatch) -> None:
        """Enters keys that are hashed already, all those of a record in one call."""
        self._take_waiting()
        keys = keys.rows(int(keys.physical_offsets.searchsorted(self._accepted_offset, "right")))
        if len(keys.hashes):
            self._unwritten.append(keys)
            self._accepted_offset = int(keys.physical_offsets[-1])
        self._drain_if_many()

    def drain(self) -> None:
        """Enters all keys that wait."""
        self._take_waiting()
        self._write_out()

    # --- lookup

    def find(
        self,
        topic: str,
        key: str,
        begin_ms: int,
        end_ms: int,
        max_count: int = MAX_FOUND,
        below: int = FROM_THE_END,
    ) -> list[int]:
        """Physical offsets, ascending, of at most `max_count` (and 64) of the newest records that were stored in
        [begin_ms, end_ms], below that offset, under a key with the hash of this one. Times count in whole seconds from
        a file's begin."""
        with suppress(OSError):  # the next append or flush meets the same error, and reports it
            self.drain()
        wanted, limit = key_hash(topic, key), min(max_count, MAX_FOUND)
        found: list[int] = []
        for file in reversed(self._files):
            if file.may_hold(begin_ms, end_ms) and file.header.begin_physical_offset < below:
                found += file.find(wanted, begin_ms, end_ms, limit - len(found), below)
                below = min([below, *found])  # keys of one record may lie in two files
            if file.header.begin_timestamp_ms < begin_ms or len(found) >= limit:
                break
        return sorted(found)

    # --- flush, expiry, end

    def begin_flush(self) -> IndexFlush | None:
        """What makes all keys so far durable; None if they are."""
        self.drain()
        steps = [(file, file.begin_flush()) for file in self._files if file.is_dirty]
        return IndexFlush(steps) if steps else None

    def finish_flush(self, flush: IndexFlush) -> None:
        """`flush` has run without an error or a refusal."""
        for file, step in flush.steps:
            file.header_on_disk = step.header
        self._note_sealed()

    def flush(self) -> None:
        """Begins, runs and finishes a flush here and now."""
        if (flush := self.begin_flush()) is not None:
            flush.run()
            self.finish_flush(flush)

    def expire(self, min_physical_offset: int) -> list[str]:
        """Deletes files that lead only to records below this offset, never the newest; returns their paths."""
        expired = [
            file
            for file in self._files[:-1]
            if file.header.end_physical_offset < min_physical_offset and not file.is_dirty  # a flush may be at it
        ]
        for file in expired:
            self._remove(file)
        if expired:
            self._disk.sync_directory(self._directory)
        return [file.path for file in expired]

    def cut(self, log_end_offset: int) -> int:
        """Drops what leads to `log_end_offset` or beyond, durably; returns from where records must be fed, as `load`
        does."""
        self.drain()
        feed_from = self._drop_last_record(log_end_offset)
        self._accepted_offset = self._files[-1].header.end_physical_offset if self._files else -1
        return feed_from

    def close(self) -> None:
        """Writes everything, so that the next `load` finds it clean, and gives the files back."""
        self.drain()
        for file in self._files:
            file.seal()
        self._note_sealed()
        self.abandon()

    def abandon(self) -> None:
        """Gives the files back as they are."""
        for file in self._files:
            file.close()

    # --- how

    def _open_files(self) -> None:
        if not self._disk.exists(self._directory):
            return
        for name in self._disk.listdir(self._directory):
            if _NAME.fullmatch(name):
                file = IndexFile(self._disk.open(f"{self._directory}/{name}"), self._layout)
                self._files.append(file)
                if file.is_oversized:
                    raise StoreError(
                        f"{file.path} is longer than this store is configured for ({self._layout.file_bytes} bytes).",
                        hint="Set max_hash_slot_num and max_index_num to what the store was made with, "
                        f"or delete {self._directory}/: it is made anew from the log.",
                    )
        self._disk.sync_directory(self._directory)  # of the log's files the same: `SegmentLog.sync_names`

    def _is_as_closed(self, log_end_offset: int) -> bool:
        """Whether the files can be what a close leaves."""
        return all(
            file.is_whole and not file.is_empty and file.header.end_physical_offset < log_end_offset
            for file in self._files
        )

    def _replay(self, checkpoint_timestamp_ms: int) -> None:
        """Keeps the files up to the first that does not prove itself, and of that one what does."""
        for number, file in enumerate(self._files):
            is_trusted = file.is_whole and not file.room and file.header.end_timestamp_ms <= checkpoint_timestamp_ms
            is_proven = is_trusted or file.replay()
            if file.is_empty or not is_proven:
                self._remove_from(number if file.is_empty else number + 1)
                return
            if not file.room:
                file.seal()

    def _drop_last_record(self, log_end_offset: int) -> int:
        """Drops the entries of the last record that the log still has, and all behind: some of its keys may be
        missing, and its exact time is not in the entries. Feeding it again puts both right. Returns its offset."""
        resume_offset = self._last_offset_below(log_end_offset)
        while self._files and self._files[-1].header.begin_physical_offset >= resume_offset:
            self._remove_from(len(self._files) - 1)
        for file in reversed(self._files):
            if file.header.end_physical_offset < resume_offset:
                break
            file.cut(file.first_at_or_after(resume_offset))
        return resume_offset

    def _last_offset_below(self, log_end_offset: int) -> int:
        for file in reversed(self._files):
            entry = file.first_at_or_after(log_end_offset) - 1
            if entry > 0:
                return file.physical_offset(entry)
        return 0

    def _note_sealed(self) -> None:
        for file in self._files:
            if not file.is_sealed:
                break
            self.sealed_timestamp_ms = file.header.end_timestamp_ms

    def _drain_if_many(self) -> None:
        if len(self._waiting) + sum([len(keys.hashes) for keys in self._unwritten]) >= _DRAIN_AT:
            self.drain()

    def _take_waiting(self) -> None:
        if self._waiting:
            self._unwritten.append(self._waiting.hashed())
            self._waiting = SingleKeys()

    def _write_out(self) -> None:
        if len(self._unwritten) > 1:
            self._unwritten = [KeyBatch(*map(np.concatenate, zip(*self._unwritten, strict=True)))]
        while self._unwritten:
            keys = self._unwritten[0]
            file = self._writable_file()
            count = min(len(keys.hashes), file.room, _LARGEST_WRITE)
            file.append(keys.rows(0, count))
            if count < len(keys.hashes):
                self._unwritten[0] = keys.rows(count)
            else:
                del self._unwritten[0]

    def _writable_file(self) -> IndexFile:
        """The newest file, or a new one when that is full."""
        if self._files:
            if self._files[-1].room:
                return self._files[-1]
            self._files[-1].save_slots()
        make_directories(self._disk, self._directory)
        file = IndexFile.make(self._disk.open(f"{self._directory}/{self._new_name()}", create=True), self._layout)
        self._disk.sync_directory(self._directory)
        self._files.append(file)
        return file

    def _new_name(self) -> str:
        """The time, or the number after the newest name: the order of names is the order of the files."""
        now = _EPOCH + timedelta(milliseconds=self._clock.now_ms())
        name = now.strftime("%Y%m%d%H%M%S%f")[:_NAME_LENGTH]
        if self._files:
            name = max(name, f"{int(self._files[-1].path[-_NAME_LENGTH:]) + 1:0{_NAME_LENGTH}}")
        return name

    def _remove_from(self, number: int) -> None:
        for file in self._files[number:]:
            self._remove(file)
        self._disk.sync_directory(self._directory)

    def _remove(self, file: IndexFile) -> None:
        with suppress(FileNotFoundError):  # somebody has
            self._disk.unlink(file.path)
        self._files.remove(file)
        file.close()

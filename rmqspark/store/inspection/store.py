"""Inspects a whole store, in one pass over its log (spec: storage; `recovery.py` is the same way, with a cure).

    names and lengths → checkpoint → index files → the log, with its queues and keys → the log's tail → tables

Nothing is changed, nothing is locked: every file is opened for reading alone. Memory is bounded by one chunk of the log
and a few figures for each queue.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from rmqspark.errors import StoreError
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.protocol.records.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rmqspark.store.checkpoint import PATH as CHECKPOINT
from rmqspark.store.config import parse_delay_levels
from rmqspark.store.cut_tails import cut_tails
from rmqspark.store.inspection.findings import Finding, Kind, StoreReport
from rmqspark.store.inspection.index_entries import IndexEntries
from rmqspark.store.inspection.index_files import check_index
from rmqspark.store.inspection.layout import LOG, Layout, find_layout
from rmqspark.store.inspection.queues import QueueCheck
from rmqspark.store.inspection.read_only import ReadOnlyFiles
from rmqspark.store.inspection.tables import check_tables, read_checkpoint, read_deletions, read_identity
from rmqspark.store.log.segment import SegmentFiles
from rmqspark.store.log.segment_log import SegmentLog
from rmqspark.store.posix_files import PosixFileSystem
from rmqspark.store.queues.consume_queue import ConsumeQueue
from rmqspark.store.queues.consume_queues import queue_directory
from rmqspark.store.queues.entries import entries_of
from rmqspark.store.recovery.redispatch import queued
from rmqspark.store.recovery.run_marker import read_last_run
from rmqspark.store.recovery.scan import LogScan, Records
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rmqspark.protocol.bodies.route import TopicConfigTable
    from rmqspark.store.checkpoint import Checkpoint
    from rmqspark.store.deletions import Deletion
    from rmqspark.store.files import File, FileSystem
    from rmqspark.store.recovery.scan import Damage

    OnProgress = Callable[[int, int], None]
    """Told how many bytes of the log are behind us, and how many there are."""

_LOCKED: Final = ("lock", CHECKPOINT)  # a RocketMQ broker locks the first alone; somebody may have deleted that
_OPEN_FILES: Final = 64
_CHUNK_BYTES: Final = 1 << 20
_MULTI_DISPATCH_PREFIX: Final = "%LMQ%"  # RocketMQ's queues of messages that are stored under another topic
_MOST_HOMELESS: Final = 10_000
_OF_THE_DISK: Final = "lost+found"  # at the root of a file system, for its owner's eyes only
_USUAL_DELAYS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def is_store(files: FileSystem) -> bool:
    """Whether a broker, ours or RocketMQ's, has kept its messages here. One that got none yet has no log."""
    has_checkpoint = files.exists(CHECKPOINT) and not files.is_directory(CHECKPOINT)
    return files.is_directory(LOG) or has_checkpoint


def stores_at(directory: Path) -> list[Path]:
    """The directory itself, or else those in it that are stores. OSError where it is none, or where one may not be
    looked into: it could be a store, and be missed without a word."""
    if _is_store_at(directory):
        return [directory]
    within = [path for path in sorted(directory.iterdir()) if path.is_dir() and path.name != _OF_THE_DISK]
    return [path for path in within if _is_store_at(path)]


def _is_store_at(path: Path) -> bool:
    with suppress(FileNotFoundError):
        os.stat(path / LOG)  # unlike `exists` it does not take for absent what it may not see
    return is_store(PosixFileSystem(path))


def is_in_use(files: PosixFileSystem) -> bool:
    """Whether a broker, ours or RocketMQ's, has the store open now."""
    return any(files.exists(path) and files.is_locked(path) for path in _LOCKED)


def inspect_store(files: FileSystem, path: str, *, is_open: bool, on_progress: OnProgress) -> StoreReport:
    """Everything about the store at the root of `files`; `path` is what to call it.

    `is_open` says that another process has it open: then what is new may be half there, and is no finding. Raises
    OSError where something cannot be read at all.
    """
    report = StoreReport(path, is_open, read_last_run(files).was_closed)
    layout = find_layout(files, report.findings, was_closed=report.was_closed)
    return _Inspection(ReadOnlyFiles(files, layout.lengths), layout, report, on_progress).run()


class _Inspection:
    """One pass over one store."""

    def __init__(self, files: ReadOnlyFiles, layout: Layout, report: StoreReport, on_progress: OnProgress) -> None:
        self._files = files
        self._layout = layout
        self._report = report
        self._findings = report.findings
        self._on_progress = on_progress
        self._log_files = SegmentFiles(files, _OPEN_FILES)
        self._queue_files = SegmentFiles(files, _OPEN_FILES)
        self._log = SegmentLog(files, self._log_files, LOG, layout.log_bytes)
        self._queues: dict[tuple[str, int], QueueCheck] = {}
        self._deletions: Mapping[str, Deletion] = {}
        self._homeless: dict[tuple[str, int], int] = {}  # records of queues that have no directory

    def run(self) -> StoreReport:
        try:
            self._go_on()
        finally:
            self._log_files.close()
            self._queue_files.close()
        return self._report

    def _go_on(self) -> None:
        report = self._report
        read_identity(self._files, report)
        tails = cut_tails(self._files)
        report.cut_files, report.cut_bytes = len(tails), sum(tail.size_bytes for tail in tails)
        self._load_log()
        checkpoint = read_checkpoint(self._files, self._findings, has_log=bool(self._log))
        report.written_by = "rmqspark" if checkpoint.is_sealed else "rocketmq"
        self._deletions = read_deletions(self._files, is_trusted=checkpoint.is_sealed)
        self._load_queues(checkpoint)
        report.start, report.watermark = self._log.start, self._watermark(checkpoint)
        index = self._check_index()
        self._go_through_log(index)
        if not report.is_open:
            self._check_tail()
        self._finish_queues(checkpoint, check_tables(self._files, report))
        if index is not None:
            index.finish(is_open=report.is_open)

    # --- the log

    def _load_log(self) -> None:
        try:
            self._log.load()
        except StoreError:
            return  # names that contradict each other: said by the layout
        self._report.segments = sum(1 for _ in self._log)

    def _watermark(self, checkpoint: Checkpoint) -> int:
        """Below this every byte was on disk once, so what is invalid there is damage and no torn tail.

        RocketMQ notes no such place: all but the newest file, and what the queues lead to in a store that was closed.
        """
        if checkpoint.is_sealed:
            return max(checkpoint.watermark, self._log.start)
        begun = [segment.base for segment in self._log if _begins_a_file(segment.read(0, 8))]
        watermark = begun[-1] if begun else self._log.start
        if self._report.was_closed:
            reached = max((check.end_in_log() for check in self._queues.values()), default=0)
            watermark = max(watermark, min(reached, self._log.capacity_end))
        return watermark

    def _go_through_log(self, index: IndexEntries | None) -> None:
        report = self._report
        scan = LogScan(
            self._log,
            report.start,
            report.watermark,
            check_crc=True,
            may_be_torn=not report.was_closed,
            has_vouchers=report.written_by == "rmqspark",
        )
        is_known = report.written_by == "rmqspark" and report.was_closed
        whole = (report.watermark if is_known else self._log.capacity_end) - report.start
        for found in scan.run():
            if isinstance(found, Records):
                self._take(found)
                if index is not None:
                    index.compare(found.batch, found.physical_offset)
            else:
                self._report_damage(found)
                if index is not None:
                    index.skip(found.end)
            self._on_progress(scan.position - report.start, whole)
        report.end = scan.position

    def _report_damage(self, damage: Damage) -> None:
        segment_bytes = self._log.segment_bytes
        base = damage.start - damage.start % segment_bytes
        why = "though they are all there: checksums came false"
        if damage.start < self._report.watermark:
            why = f"below the watermark {self._report.watermark:,}: they were on disk once"
        detail = (
            f"{damage.end - damage.start:,} bytes from {damage.start:,} to {damage.end:,} hold no valid record, {why}."
        )
        path = f"{LOG}/{base:020d}"
        self._findings.add(Finding(Kind.INVALID_RECORDS, path, damage.start - base, detail))

    def _take(self, found: Records) -> None:
        report, batch = self._report, found.batch
        timestamps_ms = batch.store_timestamps_ms
        if report.first_timestamp_ms < 0:
            report.first_timestamp_ms = int(timestamps_ms[0])
        report.last_timestamp_ms = int(timestamps_ms[-1])
        report.records += len(batch)
        report.unqueued += len(batch)
        places = batch.positions + found.physical_offset
        entries = entries_of(places, batch.sizes, batch.tags_codes())
        for topic, queue_id, members in queued(batch, places, self._deletions):
            report.unqueued -= len(members)
            queue = topic, queue_id
            check = self._queues.get(queue)
            if check is not None:
                check.compare(batch.queue_offsets[members], entries[members], timestamps_ms[members])
            elif queue in self._homeless or len(self._homeless) < _MOST_HOMELESS:
                self._homeless[queue] = self._homeless.get(queue, 0) + len(members)

    def _check_tail(self) -> None:
        """What is written behind the end of the log."""
        report = self._report
        end, segment = report.end, self._log.segment_at(report.end)
        at = _first_written(segment.file(), end - segment.base, segment.length) if segment is not None else None
        if segment is None or at is None:
            return
        told = f"The log ends at {end:,}, and bytes follow."
        if not report.was_closed:
            kind, is_broken, why = Kind.TORN_TAIL, False, "A crash left them; the next start of a broker clears them."
        elif report.written_by == "rocketmq":
            kind, is_broken, why = Kind.STALE_TAIL, False, "RocketMQ leaves them, and writes over them."
        else:
            kind, is_broken, why = Kind.STALE_TAIL, True, "After an orderly stop there should be none."
        self._findings.add(Finding(kind, segment.path, at, f"{told} {why}", is_broken))

    # --- the queues

    def _load_queues(self, checkpoint: Checkpoint) -> None:
        report = self._report
        settled = checkpoint.recovery_offset if report.is_open or not report.was_closed else 1 << 62
        delays_ms = parse_delay_levels(_USUAL_DELAYS)
        for topic, queue_id in self._layout.queues:
            directory = queue_directory(topic, queue_id)
            segments = SegmentLog(self._files, self._queue_files, directory, self._layout.queue_bytes)
            queue = ConsumeQueue(segments, topic, queue_id)
            if topic == SCHEDULE_TOPIC:
                queue.delay_ms = delays_ms[min(queue_id, len(delays_ms) - 1)]
            try:
                queue.segments.load()
            except StoreError:
                continue  # said by the layout
            if queue.segments and not topic.startswith(_MULTI_DISPATCH_PREFIX):
                self._queues[topic, queue_id] = QueueCheck(queue, self._start_of(topic), settled)

    def _start_of(self, topic: str) -> int:
        """Where in the log the topic's messages begin, as far as places tell: what the queues have from before has
        expired, or was deleted with the last topic of that name, and the disk would not let it go."""
        deletion = self._deletions.get(topic)
        if deletion is None or not deletion.only_ours_since:
            return self._log.start
        return max(self._log.start, deletion.log_end_offset)

    def _finish_queues(self, checkpoint: Checkpoint, topics: TopicConfigTable | None) -> None:
        report = self._report
        is_exact = report.was_closed and report.written_by == "rmqspark"
        for check in self._queues.values():
            check.finish(report.end, is_open=report.is_open, is_exact=is_exact)
            for finding in check.findings():
                self._findings.add(finding)
            report.queues.append(check.figures)
        report.queues.sort(key=lambda queue: (queue.topic, queue.queue_id))
        total = sum(queue.max_offset for queue in report.queues)
        report.unqueued += sum(self._homeless.values())
        if is_exact and total == checkpoint.entries_total:
            return  # no queue has been lost: those without a directory were deleted with their topics
        for (topic, queue_id), count in self._homeless.items():
            if topics is not None and topic in topics.topicConfigTable:
                detail = f"Is not there, but the log has {counted(count, 'message')} of this queue."
                path = queue_directory(topic, queue_id)
                self._findings.add(Finding(Kind.MISSING_QUEUE, path, -1, detail, is_broken=is_exact))

    # --- the index

    def _check_index(self) -> IndexEntries | None:
        """Each file by itself; then what is in them, in order, to be compared with the log. None if that is not there,
        or in no order."""
        layout, report = self._layout, self._report
        has_slots = report.was_closed and not report.is_open
        for path in layout.index_files:
            with closing(self._files.open(path)) as file:
                if layout.index_layout is None or file.size() != layout.index_layout.file_bytes:
                    detail = f"Has {file.size():,} bytes, which no index of the usual proportions has; not looked into."
                    self._findings.add(Finding(Kind.WRONG_LENGTH, path, -1, detail, is_broken=False))
                    return None
                figures = check_index(file, layout.index_layout, self._findings, has_slots=has_slots)
            if figures is not None:
                report.index.append(figures)
        if layout.index_layout is None or len(report.index) < len(layout.index_files):
            return None
        return IndexEntries(
            self._files,
            layout.index_files,
            layout.index_layout,
            self._findings,
            log_start=report.start,
            is_exact=has_slots,
        )


def _first_written(file: File, start: int, end: int) -> int | None:
    """Where the first byte of [start, end) is that is not zero."""
    while (start := file.next_data(start)) < end:
        chunk = file.pread(min(_CHUNK_BYTES, end - start), start)
        written = chunk.lstrip(b"\0")
        if written:
            return start + len(chunk) - len(written)
        start += len(chunk)
    return None


def _begins_a_file(head: bytes) -> bool:
    return int.from_bytes(head[4:8], "big") in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)

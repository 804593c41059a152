"""Bugs of the kind that others have shipped, each planted by changing one step of the store while a test runs.

The product knows nothing of this: a step is one small method, and a bug is another method in its place.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.store.appending.placed_drafts import PlacedDrafts
from rmqspark.store.appending.writer import Writer
from rmqspark.store.checkpoint import CheckpointFile
from rmqspark.store.deletions import Deletion, Deletions
from rmqspark.store.expiry import Expiry
from rmqspark.store.files import make_directories
from rmqspark.store.flush import Flusher, FlushPlan
from rmqspark.store.identity import StoreIdentity
from rmqspark.store.index.index import Index
from rmqspark.store.json_table import JsonTable
from rmqspark.store.log.commit_log import CommitLog
from rmqspark.store.log.next_file import NextFile
from rmqspark.store.log.segment import Segment, SegmentFiles, SyncTarget, make_file
from rmqspark.store.log.segment_log import SegmentLog
from rmqspark.store.queues.consume_queue import ConsumeQueue
from rmqspark.store.queues.consume_queues import ConsumeQueues
from rmqspark.store.recovery import recovery
from rmqspark.store.recovery.recovery import Recovery
from rmqspark.store.recovery.scan import LogScan

if TYPE_CHECKING:
    import pytest


class Change(NamedTuple):
    """Another thing in the place of an attribute."""

    owner: Any
    attribute: str
    replacement: Any


class PlantedBug(NamedTuple):
    """`lesson` is who has shipped it; `seed` begins a run that meets it early, of the model (where `makes_files_ahead`,
    of the one that does) or, with `in_sweep`, of the crash points."""

    name: str
    lesson: str
    seed: int
    change: Change
    in_sweep: bool = False
    makes_files_ahead: bool = False

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(*self.change)


def _bug(name: str, lesson: str, seed: int, *change: Any, **how: bool) -> PlantedBug:
    return PlantedBug(name, lesson, seed, Change(*change), **how)


def _nothing(*_args: object, **_kwargs: object) -> None:
    """The step is left out."""


def _cut_without_syncing(log: SegmentLog, position: int) -> None:
    for segment in log:
        if segment.base + segment.length > position:
            segment.zero(max(0, position - segment.base), segment.length)
            segment.writes_synced = segment.writes
            if segment in segment._files._dirty:
                del segment._files._dirty[segment]
                segment._files._clean[segment] = None


class _ScanWithoutWatermark(LogScan):
    def __init__(self, segments: SegmentLog, start: int, watermark: int, **options: bool) -> None:
        del watermark
        super().__init__(segments, start, start, **options)


_begin_sync = SegmentFiles.begin_sync
_place = PlacedDrafts.place
_end_at = ConsumeQueue.end_at
_find_start = Recovery._find_start
_read = LogScan._read
_begin_flush = Flusher.begin
_run_flush = FlushPlan.run
_put_entries = ConsumeQueue.put


def _begin_with_the_watermark_first(flusher: Flusher, *, thorough: bool = False) -> FlushPlan | None:
    plan = _begin_flush(flusher, thorough=thorough)
    if plan is not None:
        flusher._checkpoint_file.write(plan.checkpoint)
        flusher._checkpoint_file.sync()
    return plan


def _run_with_the_checkpoint_first(plan: FlushPlan) -> None:
    if plan.older_checkpoint is not None:
        plan.older_checkpoint.write(plan.checkpoint)
        plan.older_checkpoint.sync()
    _run_flush(plan)


def _run_and_never_mind(plan: FlushPlan) -> None:
    with suppress(OSError):
        _run_flush(plan)


def _make_without_name(files: SegmentFiles, path: str, length: int, *, reserve: bool) -> None:
    make_file(files._files, path, length, reserve=reserve)


def _make_first_without_names(files: SegmentFiles, path: str, length: int) -> None:
    make_directories(files._files, path.rpartition("/")[0], _nothing)
    make_file(files._files, path, length, reserve=False)


def _make_ahead_without_name(file: NextFile) -> None:
    with suppress(OSError):
        make_file(file._files, file.path, file._length, reserve=True)
        file._is_made = True


def _write_and_never_mind(segment: Segment, data: Any, at: int) -> None:
    segment.touch()
    with suppress(OSError):
        segment.file().pwrite(data, at)


def _forget_to_tidy(log: CommitLog) -> None:
    log._untidy_end = 0


def _show_at_once(writer: Writer) -> None:
    writer._dispatcher.advance(writer._log.end_offset)


def _save_in_place(table: JsonTable, text: str) -> None:
    file = table._files.open(table.path, create=True)
    file.truncate(0)
    file.pwrite(text.encode(), 0)
    file.fsync()
    file.close()
    table._files.sync_directory(table._directory)


def _drop_in_one_go(log: SegmentLog, position: int) -> list[str]:
    old = [segment for segment in log if segment.base + segment.length <= min(position, log.capacity_end - 1)]
    for segment in old:
        log._remove(segment)
    log._files.sync_directory(log.directory)
    return [segment.path for segment in old]


def _up_to_the_watermark(expiry: Expiry) -> int:
    return expiry._checkpoint_file.current.watermark


def _all_records_are_whole(_scan: LogScan, batch: Any) -> int:
    return len(batch)


def _put_repeated_entries_too(queue: ConsumeQueue, queue_offset: int, entries: Any) -> int:
    return _put_entries(queue, max(queue_offset, queue.max_offset), entries)


def _load_without_replay(index: Index, **_said: object) -> int:
    index._open_files()
    index._accepted_offset = index._files[-1].header.end_physical_offset if index._files else -1
    return max(0, index._accepted_offset)


def _sync_the_newest_alone(files: SegmentFiles) -> list[SyncTarget]:
    targets = _begin_sync(files)
    return [target._replace(file=targets[-1].file) for target in targets]


def _refuse_nothing(log: CommitLog, _error: OSError) -> None:
    log.tidy()


def _place_and_put(placed: PlacedDrafts, drafts: Any, physical_offset: int) -> None:
    _place(placed, drafts, physical_offset)
    placed.queued.put()


def _end_one_too_far(queue: ConsumeQueue, offset: int) -> None:
    _end_at(queue, offset)
    queue.next_offset += offset > 0


def _begin_in_the_newest_file(recovery: Recovery) -> tuple[int, int]:
    start, watermark = _find_start(recovery)
    written = [segment.base for segment in recovery._log.segments if any(segment.read(0, 8))]
    return max([start, *written[-1:]]), watermark


def _spare_what_seems_later(deletion: Deletion, physical_offsets: Any, store_timestamps_ms: Any) -> Any:
    return (physical_offsets >= deletion.log_end_offset) | (store_timestamps_ms > deletion.deleted_ms)


def _read_no_blank(scan: LogScan, segment: Segment, wanted_bytes: int) -> Any:
    return _read(scan, segment, wanted_bytes)._replace(is_blank=False)


BUGS = [
    _bug("tail not zeroed", "RocketMQ #10666", 3, Recovery, "_cut_log", _nothing),
    _bug("tail zeroed, not synced", "RocketMQ #10666", 12, SegmentLog, "cut", _cut_without_syncing),
    _bug("watermark ignored", "nats-server #7549", 1, recovery, "LogScan", _ScanWithoutWatermark),
    _bug("watermark before fsync", "-", 5, Flusher, "begin", _begin_with_the_watermark_first),
    _bug("fsync error swallowed", "RocketMQ #3129, #5235", 2, FlushPlan, "run", _run_and_never_mind),
    _bug("kept tail not written again", "fsyncgate", 1, Recovery, "_make_log_durable", _nothing),
    _bug("group offsets not clamped", "RocketMQ #4771", 3, ConsumerOffsets, "clamp", lambda *_: []),
    _bug("incarnation not raised", "RocketMQ #8239", 1, StoreIdentity, "raise_incarnation", _nothing),
    _bug("index loaded as it is", "RocketMQ #3868", 1, Index, "load", _load_without_replay),
    _bug("checkpoint ahead of its files", "-", 1, FlushPlan, "run", _run_with_the_checkpoint_first, in_sweep=True),
    _bug("name of a new file not synced", "ALICE", 2, SegmentFiles, "make", _make_without_name),
    _bug("name of a first file not synced", "ALICE", 2, SegmentFiles, "make_first", _make_first_without_names),
    _bug("short write taken for whole", "-", 9, Segment, "write", _write_and_never_mind),
    _bug("failed write not put back", "-", 4, CommitLog, "tidy", _forget_to_tidy),
    _bug("readable before it is on disk", "RocketMQ #8239", 3, Writer, "dispatch_safe", _show_at_once),
    _bug("queues not cut to the log", "RocketMQ #495", 12, Recovery, "_cut_queues", _nothing),
    _bug("table saved in place", "RocketMQ #3401", 2, JsonTable, "save", _save_in_place),
    _bug("deletions synced together", "-", 4, SegmentLog, "drop_before", _drop_in_one_go),
    _bug("offsets not on disk at expiry", "-", 19, Expiry, "_settled_offset", property(_up_to_the_watermark)),
    _bug("watermark not synced before vouchers expire", "-", 1, CheckpointFile, "sync", _nothing),
    _bug("torn properties believed", "-", 4, LogScan, "_count_whole", _all_records_are_whole, in_sweep=True),
    _bug("no vouchers", "-", 1, Writer, "_vouch", _nothing),
    _bug("entries in memory at the checkpoint", "-", 1, ConsumeQueues, "write_out", _nothing),
    _bug("entries dispatched twice", "RocketMQ #7355", 9, ConsumeQueue, "put", _put_repeated_entries_too),
    _bug("fsync of the wrong file", "-", 2, SegmentFiles, "begin_sync", _sync_the_newest_alone),
    _bug("answered before it is appended", "-", 2, CommitLog, "_give_up", _refuse_nothing),
    _bug("queue entries before the log", "-", 2, PlacedDrafts, "place", _place_and_put),
    _bug("next offset one too high after a start", "-", 2, ConsumeQueue, "end_at", _end_one_too_far),
    _bug("only the newest file gone through", "RocketMQ #1434", 2, Recovery, "_find_start", _begin_in_the_newest_file),
    _bug("blank record not skipped", "-", 2, LogScan, "_read", _read_no_blank),
    _bug("deletion not finished by the next start", "-", 24, Recovery, "_finish_deletions", _nothing),
    _bug("deleted topics not noted", "-", 2, Deletions, "add", _nothing),
    _bug("deletion told by the clock", "-", 3, Deletion, "spares", _spare_what_seems_later),
    _bug("name made ahead not synced", "-", 1, NextFile, "run", _make_ahead_without_name, makes_files_ahead=True),
]

"""The open files of segments against a model of a few lines: writes, syncs and deletions in any order, disks that fail.

A handle in these tests knows whether it was written since its last fsync, so one that is closed too early says so.
"""

from __future__ import annotations

from errno import EIO, EMFILE
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rmqspark.store.log.segment import Segment, SegmentFiles
from rmqspark.testing.memory_files import MemoryFile, MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.store.files import Buffer
    from rmqspark.store.log.segment import SyncTarget

CAPACITY = 2
MOST_UNSYNCED = 3
NAMES = 8
LENGTH = 64
BROKEN, TOO_MANY = OSError(EIO, "refused"), OSError(EMFILE, "Too many open files")

names = st.integers(0, NAMES - 1)
marks = st.integers(1, 255)


class Watched(MemoryFile):
    """An open file that knows whether it is open, and whether it was written since its last fsync."""

    is_open = True
    is_unsynced = False

    def pwrite(self, data: Buffer | Sequence[Buffer], offset: int) -> None:
        self.is_unsynced = True
        super().pwrite(data, offset)

    def fsync(self) -> None:
        super().fsync()
        self.is_unsynced = False

    def close(self) -> None:
        self.is_open = False
        super().close()


class WatchedFiles(MemoryFileSystem):
    """Keeps every handle it has given."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: list[Watched] = []

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> Watched:
        file = super().open(path, create=create, read_only=read_only)
        self.handles.append(Watched(self._machine, path, file._content, read_only=read_only))
        return self.handles[-1]

    def open_handles(self) -> list[Watched]:
        """Those that nobody has closed."""
        return [handle for handle in self.handles if handle.is_open]


class SegmentFilesMachine(RuleBasedStateMachine):
    """One owner, and a flush at a time that may go on meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = WatchedFiles()
        self.disk.make_directory("log")
        self.files = SegmentFiles(self.disk, CAPACITY, MOST_UNSYNCED)
        self.segments: dict[int, Segment] = {}
        self.seen: dict[Segment, int] = {}  # the mark that was written last; 0: none
        self.deleted: set[Watched] = set()  # handles of files that were deleted while a flush was at them
        self.plan: list[SyncTarget] | None = None
        self.not_run: list[SyncTarget] = []
        self.begun_with: dict[Segment, int] = {}
        self.syncs: int | None = None  # when one had failed
        self.abandoned = 0

    def syncs_so_far(self) -> int:
        return sum(operation.name == "fsync" for operation in self.disk.log)

    def segment(self, name: int) -> Segment:
        """The segment of this name, made if it is not there."""
        if name not in self.segments:
            path = f"log/{name}"
            self.files.make(path, LENGTH, reserve=False)
            self.segments[name] = Segment(self.files, path, 0, LENGTH)
            self.seen[self.segments[name]] = 0
        return self.segments[name]

    # --- what its owner does

    @rule(name=names, mark=marks)
    def write(self, name: int, mark: int) -> None:
        segment = self.segment(name)
        segment.write(bytes([mark]), 0)
        self.seen[segment] = mark

    @rule(name=names)
    def cannot_be_opened(self, name: int) -> None:
        """Nothing is written then, and nothing counts as written."""
        segment = self.segment(name)
        self.disk.fail_next("open", TOO_MANY)
        writes, is_open = segment.writes, segment._file is not None
        try:
            segment.write(bytes([self.seen[segment]]), 0)
            assert is_open
        except OSError:
            assert (segment.writes, is_open) == (writes, False)
        self.disk.heal()

    @rule(name=names, mark=marks)
    def is_written_in_vain(self, name: int, mark: int) -> None:
        """A write that failed may have changed anything, so it is to be synced like others."""
        segment = self.segment(name)
        self.disk.fail_next("pwrite", BROKEN, after_bytes=1)
        with pytest.raises(OSError, match="refused"):
            segment.write(bytes([mark]), 0)
        assert segment.is_dirty
        self.seen[segment] = mark

    @rule(name=names)
    def read(self, name: int) -> None:
        segment = self.segment(name)
        assert segment.read(0, 1) == bytes([self.seen[segment]])

    @rule(name=names, is_gone=st.booleans())
    def remove(self, name: int, is_gone: bool) -> None:
        """Whether or not somebody has deleted the file before. It stays open where a flush is at it, and not else."""
        segment = self.segment(name)
        handles = [handle for handle in self.disk.open_handles() if handle is segment._file]
        if is_gone:
            self.disk.unlink(segment.path)
        self.files.remove(self.segments.pop(name))
        self.deleted |= {handle for handle in handles if handle.is_open}
        assert self.deleted <= {target.file for target in self.plan or ()}
        for handle in handles:
            handle.is_unsynced = False  # of a file that is no more there is nothing to bring to the disk

    @rule(name=names)
    def cannot_be_removed(self, name: int) -> None:
        """It stays as it is."""
        segment = self.segment(name)
        self.disk.fail_next("unlink", BROKEN)
        with pytest.raises(OSError, match="refused"):
            self.files.remove(segment)

    # --- a flush

    @precondition(lambda self: self.plan is None)
    @rule()
    def begin_sync(self) -> None:
        self.plan = self.files.begin_sync()
        self.not_run = [*self.plan]
        dirty = {segment for segment in self.segments.values() if segment.is_dirty}
        assert {target.segment for target in self.plan} == dirty
        self.begun_with = {target.segment: target.segment.writes for target in self.plan}

    @precondition(lambda self: self.not_run and self.files.failure is None)
    @rule()
    def sync_one(self) -> None:
        self.not_run.pop(0).sync()

    @precondition(lambda self: self.plan is not None and not self.not_run)
    @rule()
    def end_sync(self) -> None:
        """What was written before it began is on disk, what has been written since is not known to be."""
        assert self.plan is not None
        self.files.end_sync(self.plan)
        for segment in self.segments.values():
            if segment in self.begun_with:
                assert segment.is_dirty == (segment.writes != self.begun_with[segment])
        self.forget_plan()

    @precondition(lambda self: self.plan is not None)
    @rule()
    def abandon_sync(self) -> None:
        """What it was to cover is covered by the next."""
        self.files.abandon_sync()
        self.abandoned += 1
        assert all(segment.is_dirty for segment in self.segments.values() if segment in self.begun_with)
        self.forget_plan()

    def forget_plan(self) -> None:
        """Whatever was deleted meanwhile is closed by now."""
        assert not any(handle.is_open for handle in self.deleted)
        self.deleted.clear()
        self.plan, self.not_run, self.begun_with = None, [], {}

    @precondition(lambda self: self.files.failure is None)
    @rule(name=names, mark=marks)
    def cannot_be_synced(self, name: int, mark: int) -> None:
        """Where one was to be closed for another; the next flush fails then."""
        segment = self.segment(name)
        self.disk.fail_next("fsync", BROKEN)
        segment.write(bytes([mark]), 0)
        self.seen[segment] = mark
        self.disk.heal()
        if self.files.failure is not None:
            self.syncs = self.syncs_so_far()

    @precondition(lambda self: self.not_run and self.files.failure is not None)
    @rule()
    def fail_as_before(self) -> None:
        with pytest.raises(OSError, match="refused"):
            self.not_run[0].sync()

    # --- what holds whatever happens

    @invariant()
    def each_open_file_counts_once(self) -> None:
        opened = [segment._file for segment in self.segments.values() if segment._file is not None]
        assert len(opened) == self.files.open_count
        assert {*opened, *self.deleted} == {*self.disk.open_handles()}

    @invariant()
    def nothing_is_closed_before_it_is_on_disk(self) -> None:
        """An error of a late write-back is told to the handle that wrote, and to no other."""
        for segment in self.segments.values():
            assert not segment.is_dirty or segment._file is not None
        assert all(handle.is_open for handle in self.disk.handles if handle.is_unsynced)

    @invariant()
    def clean_means_synced(self) -> None:
        unsynced = {handle for handle in self.disk.handles if handle.is_unsynced}
        assert all(segment.is_dirty for segment in self.segments.values() if segment._file in unsynced)

    @invariant()
    def nothing_is_synced_after_a_failure(self) -> None:
        """It would pass, and prove nothing."""
        assert self.syncs in (None, self.syncs_so_far())

    @invariant()
    def few_are_open(self) -> None:
        """As many as may be unsynced, and one more where a flush keeps all that are; more only after a failure."""
        most = MOST_UNSYNCED + self.abandoned + (self.plan is not None)
        assert self.files.failure is not None or self.files.open_count <= most

    def teardown(self) -> None:
        """A store may be closed while a flush is under way: no file is left open."""
        self.files.close()
        self.files.abandon_sync()
        assert not self.disk.open_handles()


TestSegmentFiles = pytest.mark.property(SegmentFilesMachine.TestCase)
TestSegmentFiles.settings = settings(stateful_step_count=40)

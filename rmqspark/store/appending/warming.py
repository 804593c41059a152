"""Memory and disk for what is written next, taken before they are needed.

A page of a file that was never touched is dear: in a virtual machine the host may first have to find the memory, which
costs ten times as much as writing to it. Taking it can be left to another thread while the owner goes on, and changes
nothing that is written. RocketMQ writes zeros over a whole new file for the same reason
(MappedFile.warmMappedFile).

How far ahead: as much as was written since the store was opened, so that a store with little traffic takes nothing.

Where memory is not dear, taking it ahead is double work. So each plan tells what it cost, and after a cheap one there
are only small ones now and then, to see whether that has changed.

Room on disk is taken for a whole file, in one go: while the system looks for it, nobody can write to that file. Files
that follow a full one have it when they are made, which is ahead of need, too (`next_file.py`): once the one before is
half full, and as much was written since the store was opened. The one that it was opened with gets its room once there
is traffic.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rmqspark.store.log.next_file import NextFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.clock import Clock
    from rmqspark.store.files import File
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.log.segment import Segment

LEAST_WRITTEN_BYTES: Final = 4 << 20
MOST_AHEAD_BYTES: Final = 32 << 20
TRIED_EVERY_BYTES: Final = 64 << 20
RESERVED_AFTER_BYTES: Final = 16 << 20
DEAR_NS_PER_MIB: Final = 1_000_000
"""Of processor time. Memory at hand takes 0.3 to 0.6 ms a MiB, memory that the host has to find 2.5."""


class WarmingPlan(NamedTuple):
    """Memory for the bytes [start, end) of a file, and room on disk for all up to `reserve_end`, unless that is 0.
    `run` may be called from any thread, also when the file is closed."""

    file: File
    start: int
    end: int
    reserve_end: int
    clock: Clock
    tell_cost: Callable[[int], None]

    def begin(self, call: Callable[[WarmingPlan], object]) -> None:
        """Has `call` see to it that `run` is called; nobody waits for it."""
        call(self)

    def run(self) -> None:
        if self.reserve_end:
            self.file.reserve(self.start, self.reserve_end)
        begun_ns = self.clock.thread_cpu_ns()
        with suppress(OSError):
            self.file.warm(self.start, self.end)
        self.tell_cost((self.clock.thread_cpu_ns() - begun_ns) * (1 << 20) // (self.end - self.start))


Ahead: TypeAlias = WarmingPlan | NextFile
"""What is to be done ahead of need: its `run`, on any thread."""
BeginAhead: TypeAlias = "Callable[[Ahead], Callable[[], object]]"
"""Begins it; what this returns waits for the end, and does it where nobody has got to that."""


class Warming:
    """Decides what is taken. There is something to do once the log has come to `due_offset`."""

    def __init__(self, log: CommitLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._is_dear = True
        self._opened_at: int | None = None
        self._has_room = False
        self._warm_end = 0
        self._memory_due = 0
        self.due_offset = 0

    def begin(self) -> Ahead | None:
        """What to take or to make now; the next append may be told of something else."""
        end = self._log.end_offset
        if self._opened_at is None:
            self._opened_at = end
        if end - self._opened_at < LEAST_WRITTEN_BYTES:
            self.due_offset = self._opened_at + LEAST_WRITTEN_BYTES
            return None
        segment = self._log.segments.segment_at(end)
        if segment is None:  # the next file is taken by the next append
            self.due_offset = end + 1
            return None
        file_due = self._file_due(segment, self._opened_at)
        if end >= file_due:
            return self._log.segments.begin_next()
        plan = self._memory(segment, end, end - self._opened_at) if end >= self._memory_due else None
        self.due_offset = min(self._memory_due, file_due)
        return plan

    def _file_due(self, segment: Segment, opened_at: int) -> int:
        """Where the log has to come for the next file to be made; this one's end, where there is nothing to do."""
        segments, segment_end = self._log.segments, segment.base + segment.length
        if segments.has_next or segments.capacity_end != segment_end:
            return segment_end
        return min(max(segment.base, opened_at) + segment.length // 2, segment_end)

    def _memory(self, segment: Segment, end: int, written: int) -> WarmingPlan | None:
        segment_end = segment.base + segment.length
        ahead = min(written, MOST_AHEAD_BYTES) if self._is_dear else LEAST_WRITTEN_BYTES
        start, self._warm_end = max(end, self._warm_end), min(end + ahead, segment_end)
        next_due = self._warm_end - ahead // 2 if self._is_dear else end + TRIED_EVERY_BYTES
        self._memory_due = segment_end if self._warm_end == segment_end else min(next_due, segment_end)
        if start >= self._warm_end:
            return None
        at, until = start - segment.base, self._warm_end - segment.base
        reserve_end = segment.length if self._lacks_room(segment.base, written) else 0
        return WarmingPlan(segment.file(), at, until, reserve_end, self._clock, self._heed_cost)

    def _lacks_room(self, base: int, written: int) -> bool:
        """Whether room is to be taken now for the file at `base`: once, for the one the store was opened with."""
        if self._has_room or self._opened_at is None or written < RESERVED_AFTER_BYTES:
            return False
        self._has_room = True
        return base <= self._opened_at

    def _heed_cost(self, ns_per_mib: int) -> None:
        """Called by whichever thread has run a plan."""
        self._is_dear = ns_per_mib >= DEAR_NS_PER_MIB

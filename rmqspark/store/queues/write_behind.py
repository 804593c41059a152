"""A segment log whose last bytes wait in memory, so that many small appends cost one system call.

What waits is one run of bytes inside one file that is there (`WaitingTail`): an append that begins a file, crosses into
the next or is long goes to the disk at once, and takes along what waits. Readers see both as one. If the disk refuses
the bytes they wait on, and what was to be added behind them is refused: so it is for whoever writes as if each write
went to the disk.

A run is bounded so that readers of the files alone miss little of a busy queue, and all runs together so that memory
is: there is room for full ones of some 800 queues, for shorter ones of more.

Only for what is derived: a kill takes what waits with it. Whoever notes how far things are on disk writes it out first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.store.log.segment_log import SegmentLog

if TYPE_CHECKING:
    from rmqspark.store.files import Buffer, FileSystem
    from rmqspark.store.log.segment import Segment, SegmentFiles

LONG_BYTES: Final = 64 * 20  # of one append: 64 entries of a consume queue are worth a call of their own
MOST_WAITING_BYTES: Final = 256 * 20  # of one log
_MOST_WAITING_TOGETHER_BYTES: Final = 4 << 20


class WaitingTail:
    """Bytes that stand at [start, end) of a log and wait. More may be added behind them, up to `limit`; where nothing
    waits, nothing may be added, and all of it is zero.

    Whoever adds a few bytes to each of many logs does so here (`single_entries.py`), having asked
    `WaitingBytes.make_room` for all of them at once.
    """

    __slots__ = ("data", "end", "limit", "start")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.data = bytearray()
        self.start = self.end = self.limit = 0


class WaitingBytes:
    """The logs of a store that have bytes waiting, and how many more may wait in all of them together.

    At least as many are counted as wait, and no more than that when all has been written out.
    """

    def __init__(self, limit_bytes: int = _MOST_WAITING_TOGETHER_BYTES) -> None:
        self._limit_bytes = self._room_bytes = limit_bytes
        self._logs: dict[WriteBehindLog, None] = {}

    def write_out(self) -> None:
        """Writes all of it to the files, which says nothing about the disk. Raises OSError; the rest waits on."""
        for log in list(self._logs):
            log.write_out()
        self._room_bytes = self._limit_bytes

    def make_room(self, size_bytes: int) -> None:
        """Counts so many bytes, about to be added to logs that have some waiting; writes all out before, if these would
        be too many. Raises OSError."""
        if size_bytes > self._room_bytes:
            self.write_out()
        self._room_bytes -= size_bytes

    def take(self, log: WriteBehindLog, size_bytes: int) -> bool:
        """Whether there is room for so many bytes of a log to wait, from now on."""
        if size_bytes > self._room_bytes:
            return False
        self._room_bytes -= size_bytes
        self._logs[log] = None
        return True

    def give_back(self, log: WriteBehindLog, size_bytes: int) -> None:
        """All that waited of a log, so many bytes, waits no more."""
        self._room_bytes += size_bytes
        self._logs.pop(log, None)


class WriteBehindLog(SegmentLog):
    """A segment log that writes a little later than it is told. Iterating over it shows the files as they are."""

    def __init__(
        self,
        files: FileSystem,
        segment_files: SegmentFiles,
        directory: str,
        segment_bytes: int,
        all_waiting: WaitingBytes,
    ) -> None:
        super().__init__(files, segment_files, directory, segment_bytes)
        self._all_waiting = all_waiting
        self.tail = WaitingTail()

    def read(self, position: int, size: int) -> bytes:
        tail = self.tail
        at = position - tail.start
        if at >= 0 and position + size <= tail.end:
            return bytes(tail.data[at : at + size])
        if position + size <= tail.start or not tail.data:
            return super().read(position, size)
        buffer = bytearray(size)
        self.read_into(memoryview(buffer), position)
        return bytes(buffer)

    def read_into(self, buffer: memoryview, position: int) -> None:
        super().read_into(buffer, position)
        tail = self.tail
        start, end = max(position, tail.start), min(position + len(buffer), tail.end)
        if start < end:
            buffer[start - position : end - position] = tail.data[start - tail.start : end - tail.start]

    def write(self, data: Buffer, position: int) -> None:
        """As `SegmentLog.write`, but short data may wait. Of data that is refused (OSError) nothing waits."""
        tail, end = self.tail, position + len(data)
        is_next, is_short = position == tail.end and bool(tail.data), len(data) <= LONG_BYTES
        if is_next and is_short and end <= tail.limit and self._all_waiting.take(self, len(data)):
            tail.data += data
            tail.end = end
        elif is_next:
            super().write(b"".join((tail.data, data)), tail.start)
            self._drop_waiting()
        else:
            self.write_out()
            self._begin(data, position, end)

    def write_out(self) -> None:
        """Writes what waits. Raises OSError; then it waits on."""
        if self.tail.data:
            super().write(self.tail.data, self.tail.start)
            self._drop_waiting()

    def is_zero_from(self, position: int) -> bool:
        self.write_out()
        return super().is_zero_from(position)

    def cut(self, position: int) -> None:
        self.write_out()
        super().cut(position)

    def _remove(self, segment: Segment) -> None:
        if self.tail.data and segment.base <= self.tail.start < segment.base + segment.length:
            self._drop_waiting()
        super()._remove(segment)

    def _begin(self, data: Buffer, start: int, end: int) -> None:
        """Nothing waits: these bytes do, if they may, or are written."""
        segment = self.segment_at(start)
        limit = min(start + MOST_WAITING_BYTES, segment.base + segment.length) if segment is not None else 0
        if len(data) <= LONG_BYTES and end <= limit and self._all_waiting.take(self, len(data)):
            tail = self.tail
            tail.data += data
            tail.start, tail.end, tail.limit = start, end, limit
        else:
            super().write(data, start)

    def _drop_waiting(self) -> None:
        self._all_waiting.give_back(self, len(self.tail.data))
        self.tail.clear()

"""A segment log whose last bytes wait in memory, so that many small appends cost one system call.

What waits is one run of bytes inside one file that is there: an append that begins a file, crosses into the next or is
long goes to the disk at once, and takes along what waits. Readers see both as one. If the disk refuses the bytes they
wait on, and what was to be added behind them is refused: so it is for whoever writes as if each write went to the disk.

Only for what is derived: a kill takes what waits with it. Whoever notes how far things are on disk writes it out first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.store.segment_log import SegmentLog

if TYPE_CHECKING:
    from rmqspark.store.files import Buffer, FileSystem
    from rmqspark.store.segment import Segment, SegmentFiles

MOST_WAITING_BYTES: Final = 64 * 20  # of one log: 64 entries of a consume queue
_MOST_WAITING_TOGETHER_BYTES: Final = 1 << 20


class WaitingBytes:
    """The logs of a store that have bytes waiting, and how many more may wait in all of them together."""

    def __init__(self, limit_bytes: int = _MOST_WAITING_TOGETHER_BYTES) -> None:
        self._room_bytes = limit_bytes
        self._logs: dict[WriteBehindLog, None] = {}

    def write_out(self) -> None:
        """Writes all of it to the files, which says nothing about the disk. Raises OSError; the rest waits on."""
        for log in list(self._logs):
            log.write_out()

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
        self._waiting = bytearray()
        self._at = 0  # position of the first byte that waits
        self._end = 0  # behind the last one
        self._limit = 0  # up to where bytes may wait

    def read(self, position: int, size: int) -> bytes:
        at = position - self._at
        if at >= 0 and position + size <= self._end:
            return bytes(self._waiting[at : at + size])
        if position + size <= self._at or not self._waiting:
            return super().read(position, size)
        buffer = bytearray(size)
        self.read_into(memoryview(buffer), position)
        return bytes(buffer)

    def read_into(self, buffer: memoryview, position: int) -> None:
        super().read_into(buffer, position)
        start, end = max(position, self._at), min(position + len(buffer), self._end)
        if start < end:
            buffer[start - position : end - position] = self._waiting[start - self._at : end - self._at]

    def write(self, data: Buffer, position: int) -> None:
        """As `SegmentLog.write`, but short data may wait. Of data that is refused (OSError) nothing waits."""
        end = position + len(data)
        if position == self._end and end <= self._limit and self._all_waiting.take(self, len(data)):
            self._waiting += data
            self._end = end
        elif position == self._end and self._waiting:
            super().write(b"".join((self._waiting, data)), self._at)
            self._drop_waiting()
        else:
            self.write_out()
            self._begin(data, position, end)

    def write_out(self) -> None:
        """Writes what waits. Raises OSError; then it waits on."""
        if self._waiting:
            super().write(self._waiting, self._at)
            self._drop_waiting()

    def is_zero_from(self, position: int) -> bool:
        self.write_out()
        return super().is_zero_from(position)

    def cut(self, position: int) -> None:
        self.write_out()
        super().cut(position)

    def _remove(self, segment: Segment) -> None:
        if self._waiting and segment.base <= self._at < segment.base + segment.length:
            self._drop_waiting()
        super()._remove(segment)

    def _begin(self, data: Buffer, start: int, end: int) -> None:
        """Nothing waits: these bytes do, if they may, or are written."""
        segment = self.segment_at(start)
        limit = min(start + MOST_WAITING_BYTES, segment.base + segment.length) if segment is not None else 0
        if end <= limit and self._all_waiting.take(self, len(data)):
            self._waiting += data
            self._at, self._end, self._limit = start, end, limit
        else:
            super().write(data, start)

    def _drop_waiting(self) -> None:
        self._all_waiting.give_back(self, len(self._waiting))
        self._waiting = bytearray()
        self._at = self._end = self._limit = 0

"""How far messages with a deliver time have been delivered, as it is kept: our note, and RocketMQ's.

Ours says enough to deliver each message once (config/timerOffset.json, `TimerTable`). RocketMQ's says enough for its
broker to go on (config/timercheck; spec: storage, section 11): it is written when a broker stops, so that a store can
be opened by either. We seal what we write of it, in the part that RocketMQ leaves alone: where the seal does not fit
any more, RocketMQ had the store since, and its note counts, until ours says that it is accounted for.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from rmqspark.protocol.bodies.admin import TimerTable
from rmqspark.store.files import make_directories, write_whole

if TYPE_CHECKING:
    from rmqspark.store.files import FileSystem

_PATH: Final = "config/timercheck"
_FILE_BYTES: Final = 4096
_CHECK: Final = struct.Struct(">qqqqqqq")
_SEAL_AT: Final = 64  # a copy of the note


class TimerCheck(NamedTuple):
    """RocketMQ's note (TimerCheckpoint). What was due before `last_read_time_ms` is delivered, of the messages before
    `last_timer_queue_offset`; the others it reads when it starts. 0 where nothing was noted."""

    last_read_time_ms: int = 0
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0
    master_timer_queue_offset: int = 0
    state_version: int = 0
    timestamp_ms: int = 0
    counter: int = 0

    @classmethod
    def decode(cls, raw: bytes) -> TimerCheck:
        return cls(*_CHECK.unpack_from(raw)) if len(raw) >= _CHECK.size else cls()

    def encode(self) -> bytes:
        return _CHECK.pack(*self)


def read_timer_check(files: FileSystem) -> bytes:
    """What RocketMQ's note says, undecoded; empty where there is none."""
    if not files.exists(_PATH):
        return b""
    file = files.open(_PATH, read_only=True)
    try:
        return file.pread(_SEAL_AT + _CHECK.size, 0)
    finally:
        file.close()


def write_timer_check(files: FileSystem, check: TimerCheck) -> None:
    """Durable when this returns; raises OSError."""
    make_directories(files, "config")
    temporary_path = f"{_PATH}.tmp"
    content = check.encode().ljust(_SEAL_AT, b"\0") + check.encode()
    write_whole(files, temporary_path, content.ljust(_FILE_BYTES, b"\0"))
    files.rename(temporary_path, _PATH)
    files.sync_directory("config")


class TimerProgress:
    """Our note, which holds what is on disk at most, beside RocketMQ's as it lies in the store."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        raw = read_timer_check(files)
        self._check, self._seal = raw[: _CHECK.size], raw[_SEAL_AT:]
        self._noted = TimerTable()
        self.revision = 0

    def load(self, table: TimerTable) -> None:
        self._noted = table

    def table(self) -> TimerTable:
        return self._noted

    @property
    def known(self) -> TimerTable:
        """What is known when a broker starts."""
        if self._check == self._seal or self._check.hex() == self._noted.timerCheck:
            return self._noted
        check = TimerCheck.decode(self._check)
        return TimerTable(readTimeMs=check.last_read_time_ms, queueOffset=check.last_timer_queue_offset)

    def note(self, progress: TimerTable) -> None:
        noted = msgspec.structs.replace(progress, timerCheck=self._check.hex())
        self.revision += noted != self._noted
        self._noted = noted

    def forget(self) -> None:
        """Ours was about a log whose end is cut off: what was delivered by the rest of it that says itself. (But not of
        what RocketMQ delivered, which comes again: so nothing is forgotten without need.)"""
        if self.known is self._noted:
            self.note(TimerTable())

    def hand_over(self, progress: TimerTable, now_ms: int) -> None:
        """Notes it in RocketMQ's way, too. Raises OSError.

        Its broker then reads the timer topic from the first message that waits, and delivers again what came behind it.
        """
        before = TimerCheck.decode(self._check)
        check = before._replace(
            last_read_time_ms=progress.readTimeMs,
            last_timer_queue_offset=progress.firstOffset,
            master_timer_queue_offset=progress.firstOffset,
            timestamp_ms=now_ms,
            counter=before.counter + 1,
        )
        write_timer_check(self._files, check)
        self._check = self._seal = check.encode()
        self.note(progress)

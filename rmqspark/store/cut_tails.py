"""What a slave cut off its log since its master does not have it: one file for each tail, in RocketMQ's format.

It may be the only copy of messages that a master took and lost. So a tail is kept as long as the log keeps messages,
`file_reserved_time`; of many only the newest, up to `MOST_KEPT_BYTES`. What goes is named in the log.
"""

from __future__ import annotations

import re
from itertools import chain, count
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from rmqspark.store.files import make_directories, read_whole, write_whole

if TYPE_CHECKING:
    from rmqspark.store.files import FileSystem

DIRECTORY: Final = "cut"
MOST_KEPT_BYTES: Final = 1 << 30  # a tail has 64 MiB at most
# With a number at the end where another tail was cut off there before.
_NAME: Final = re.compile(r"(\d{20})-(\d{20})(\.\d+)?", re.ASCII)

log = structlog.get_logger("rmqspark.store")


class CutTail(NamedTuple):
    """Bytes [start, end) of a log, kept in the file `path`."""

    path: str
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


def cut_tails(files: FileSystem) -> list[CutTail]:
    """Those that are there, by where they begin."""
    if not files.exists(DIRECTORY):
        return []
    names = [found for name in files.listdir(DIRECTORY) if (found := _NAME.fullmatch(name))]
    return [CutTail(f"{DIRECTORY}/{found[0]}", int(found[1]), int(found[2])) for found in names]


def keep_tail(files: FileSystem, start: int, tail: bytes) -> str:
    """Keeps what a log has from `start` on to its end; durable when this returns the file's path. Raises OSError."""
    make_directories(files, DIRECTORY)
    path = _path_for(files, f"{DIRECTORY}/{start:020d}-{start + len(tail):020d}", tail)
    write_whole(files, path, tail)
    files.sync_directory(DIRECTORY)
    return path


def _path_for(files: FileSystem, path: str, tail: bytes) -> str:
    """Messages of the same sizes make tails of the same name. What is there may be the beginning of this one, from a
    try that a full disk ended; another tail stays."""
    names = chain([path], (f"{path}.{number}" for number in count(1)))
    return next(name for name in names if not files.exists(name) or tail.startswith(read_whole(files, name)))


def drop_old_tails(files: FileSystem, expired_before_ms: int, most_bytes: int = MOST_KEPT_BYTES) -> list[str]:
    """Deletes those that were cut off before a time, and the oldest of more than `most_bytes`; returns their paths.
    Raises OSError."""
    dropped: list[str] = []
    kept_bytes = 0
    tails = [(files.modified_ms(tail.path), tail) for tail in cut_tails(files)]
    for cut_ms, tail in sorted(tails, reverse=True):
        kept_bytes += tail.size_bytes
        if cut_ms > expired_before_ms and kept_bytes <= most_bytes:
            continue
        files.unlink(tail.path)
        log.warning("what was cut off once is deleted, it has had its time", path=tail.path, bytes=tail.size_bytes)
        dropped.append(tail.path)
    if dropped:
        files.sync_directory(DIRECTORY)
    return dropped

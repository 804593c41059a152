"""How long the files of a store are, found out from the store itself: whoever inspects one need not know its settings.

Files of a kind all have one length, and their names are multiples of it. A file that was cut is shorter than the
others; what was cut reads as zeros and is found as damage.
"""

from __future__ import annotations

import re
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.store.config import CONSUME_QUEUE_ENTRY_BYTES, StoreConfig
from rmqspark.store.index.index_file import HEADER, IndexLayout
from rmqspark.store.index.index_slots import SLOT_BYTES
from rmqspark.store.inspection.findings import Finding, Findings, Kind
from rmqspark.store.queues.consume_queues import DIRECTORY as QUEUES
from rmqspark.store.queues.consume_queues import queue_directory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.store.files import FileSystem

LOG = "commitlog"
INDEX = "index"
_SEGMENT = re.compile(r"\d{20}", re.ASCII)
_INDEX_FILE = re.compile(r"\d{17}", re.ASCII)
_USUAL = StoreConfig()
_ENTRIES_PER_SLOT = _USUAL.max_index_num // _USUAL.max_hash_slot_num


class SegmentFile(NamedTuple):
    """A file as it lies there: the position of its first byte, and its length."""

    path: str
    base: int
    length: int


class Layout(NamedTuple):
    """The lengths of the files of a store, and the queues it has directories for."""

    log_bytes: int
    queue_bytes: int
    queues: tuple[tuple[str, int], ...]
    index_layout: IndexLayout | None
    index_files: tuple[str, ...]

    @property
    def lengths(self) -> dict[str, int]:
        """By the first directory of a path."""
        return {
            LOG: self.log_bytes,
            QUEUES: self.queue_bytes,
            INDEX: self.index_layout.file_bytes if self.index_layout else 0,
        }


def find_layout(files: FileSystem, findings: Findings, *, was_closed: bool) -> Layout:
    """Looks at names and lengths of all files; what contradicts the rest is a finding. After a crash files may be
    short: if more than zeros is missing, the log tells."""
    log = segment_files(files, LOG)
    queues = list(_queues(files))
    queue_files = [segment_files(files, queue_directory(*queue)) for queue in queues]
    log_bytes = length_of(log, _USUAL.mapped_file_size_commit_log, 1)
    queue_bytes = length_of(
        [file for some in queue_files for file in some], _USUAL.consume_queue_segment_bytes, CONSUME_QUEUE_ENTRY_BYTES
    )
    for some, length in ((log, log_bytes), *((some, queue_bytes) for some in queue_files)):
        _check(some, length, findings, was_closed=was_closed)
    index_files = [f"{INDEX}/{name}" for name in _names(files, INDEX) if _INDEX_FILE.fullmatch(name)]
    sizes = [_size(files, path) for path in index_files]
    return Layout(
        log_bytes,
        queue_bytes,
        tuple(queue for queue, some in zip(queues, queue_files, strict=True) if some),
        index_layout_of(max(sizes, default=0)),
        tuple(index_files),
    )


def index_layout_of(size: int) -> IndexLayout | None:
    """The layout of index files of that size: the usual one, or one with as many entries for each slot. None if it is
    neither."""
    usual = IndexLayout(_USUAL.max_hash_slot_num, _USUAL.max_index_num)
    if size == usual.file_bytes:
        return usual
    slots, rest = divmod(size - HEADER.size, SLOT_BYTES + _ENTRIES_PER_SLOT * CONSUME_QUEUE_ENTRY_BYTES)
    return IndexLayout(slots, slots * _ENTRIES_PER_SLOT) if slots > 0 and not rest else None


def _queues(files: FileSystem) -> Iterable[tuple[str, int]]:
    for topic in _names(files, QUEUES):
        for name in _names(files, f"{QUEUES}/{topic}"):
            if name.isdecimal() and name == str(int(name)):
                yield topic, int(name)


def segment_files(files: FileSystem, directory: str) -> list[SegmentFile]:
    """The segments of a directory, in order; none where it is not there."""
    found = []
    for name in _names(files, directory):
        if _SEGMENT.fullmatch(name):
            path = f"{directory}/{name}"
            with suppress(FileNotFoundError):  # its owner has removed it since it was listed
                found.append(SegmentFile(path, int(name), _size(files, path)))
    return found


def length_of(segments: list[SegmentFile], usual: int, unit: int) -> int:
    """The length they all should have: what the longest has, unless the next file's name says that there was more."""
    longest = max((segment.length for segment in segments), default=0)
    bases = [segment.base for segment in segments if segment.base]
    if longest == 0 or longest % unit or any(base % longest for base in bases):
        return usual if not bases else min(bases)
    return longest


def _check(segments: list[SegmentFile], length: int, findings: Findings, *, was_closed: bool) -> None:
    """Segments of one directory, in order."""
    due = segments[0].base if segments else 0
    for segment in segments:
        if segment.base % length:
            detail = f"Begins at {segment.base}, which is no multiple of {length}, the length of the files beside it."
            findings.add(Finding(Kind.WRONG_LENGTH, segment.path, -1, detail))
            continue
        if segment.length != length:
            detail = f"Has {segment.length:,} of {length:,} bytes."
            findings.add(Finding(Kind.WRONG_LENGTH, segment.path, segment.length, detail, is_broken=was_closed))
        if segment.base > due:
            missing = f"{segment.path[:-20]}{due:020d}"
            detail = f"{segment.path[-20:]} follows, but this is not there."
            findings.add(Finding(Kind.MISSING_FILE, missing, -1, detail, is_broken=was_closed))
        due = segment.base + length


def _names(files: FileSystem, directory: str) -> list[str]:
    return files.listdir(directory) if files.is_directory(directory) else []


def _size(files: FileSystem, path: str) -> int:
    with closing(files.open(path, read_only=True)) as file:
        return file.size()

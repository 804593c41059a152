"""The files of one store as another process finds them, opened for reading alone.

A broker may be running on them, may have been killed while they were read, may be recovering them or deleting what has
expired. So a view says who the store is, and where things lie; whether what lies there is the message looked for, is
for `read.py` to decide, record by record.

A view belongs to one task and is closed with it: a file that is held open keeps its room on the disk when it expires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import DamagedFile, StoreError
from rmqspark.store import identity
from rmqspark.store.config import CONSUME_QUEUE_ENTRY_BYTES, StoreConfig
from rmqspark.store.deletions import PATH as DELETIONS
from rmqspark.store.deletions import Deletions
from rmqspark.store.files import read_whole
from rmqspark.store.inspection.layout import LOG, length_of, segment_files
from rmqspark.store.inspection.read_only import ReadOnlyFiles
from rmqspark.store.json_table import JsonTable
from rmqspark.store.log.commit_log import CommitLog
from rmqspark.store.log.segment import SegmentFiles
from rmqspark.store.log.segment_log import SegmentLog
from rmqspark.store.queues.consume_queue import ConsumeQueue
from rmqspark.store.queues.consume_queues import DIRECTORY as QUEUES
from rmqspark.store.queues.consume_queues import queue_directory
from rmqspark.store.recovery.run_marker import read_last_run

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rmqspark.store.files import FileSystem
    from rmqspark.store.inspection.layout import SegmentFile

_OPEN_FILES: Final = 64
_USUAL: Final = StoreConfig()


class Identity(NamedTuple):
    """What a store says of itself (`store/identity`). `opening` is "" of one that only older versions have opened."""

    store_id: str
    incarnation: int
    opening: str


def identity_of(files: FileSystem) -> Identity | None:
    """Who the store at the root of `files` is; None where there is no store of ours."""
    try:
        stored = JsonTable(files, identity.PATH).load(identity.parse)
    except (DamagedFile, OSError):
        return None
    return Identity(stored.store_id, stored.incarnation, stored.opening) if stored is not None else None


def queue_length(found: list[SegmentFile]) -> int:
    """How long the files of queues are, which all have one length."""
    return length_of(found, _USUAL.consume_queue_segment_bytes, CONSUME_QUEUE_ENTRY_BYTES)


class StoreView:
    """The log and the queues of the store at the root of `files`.

    Raises OSError or StoreError for a log that cannot be read. Its `end_offset` is the end of its last file.
    """

    def __init__(self, files: FileSystem, queue_bytes: int = 0) -> None:
        """`queue_bytes` is the length of the queues' files; 0: that of the first queue asked for."""
        self._files = files
        self._queue_files: SegmentFiles | None = None
        self._queue_bytes = queue_bytes
        self._deletions: Deletions | None = None
        self._deletions_text: bytes | None = None
        log_bytes = length_of(segment_files(files, LOG), _USUAL.mapped_file_size_commit_log, 1)
        read_only = ReadOnlyFiles(files, {LOG: log_bytes})
        self._log_files = SegmentFiles(read_only, _OPEN_FILES)
        self.log = CommitLog(read_only, self._log_files, LOG, log_bytes)
        self.log.segments.load()
        self.log.end_offset = self.log.segments.capacity_end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pages_may_come_late(self) -> bool:
        """Whether the store is open, and not under this very boot of this machine. There every byte written is seen, in
        the order of writing; over a network a page may come late, and records be there in part."""
        try:
            last = read_last_run(self._files)
        except OSError:
            return True
        return not (last.was_closed or last.same_boot)

    def deletions(self) -> Deletions:
        """The deletions of topics as they are noted now. Raises OSError, DamagedFile."""
        text = self._text_of(DELETIONS)  # first: what is taken apart may be newer, and is then once more
        if self._deletions is None or text is None or text != self._deletions_text:
            self._deletions, self._deletions_text = Deletions(self._files), text
        return self._deletions

    def _text_of(self, path: str) -> bytes | None:
        return read_whole(self._files, path) if self._files.exists(path) else None

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, its ends not yet found out; None if it has no files, or none that can be made out."""
        directory = queue_directory(topic, queue_id)
        try:
            segments = self._queue_log(directory)
            segments.load()
        except (OSError, StoreError):
            return None
        return ConsumeQueue(segments, topic, queue_id) if segments else None

    def _queue_log(self, directory: str) -> SegmentLog:
        if self._queue_files is None:
            self._queue_bytes = self._queue_bytes or queue_length(segment_files(self._files, directory))
            self._queue_files = SegmentFiles(ReadOnlyFiles(self._files, {QUEUES: self._queue_bytes}), _OPEN_FILES)
        read_only = ReadOnlyFiles(self._files, {QUEUES: self._queue_bytes})
        return SegmentLog(read_only, self._queue_files, directory, self._queue_bytes)

    def close(self) -> None:
        self._log_files.close()
        if self._queue_files is not None:
            self._queue_files.close()

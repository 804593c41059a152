"""The message store: what may be asked of a store, each thing answered by the storey that it is about (`storeys.py`).

It belongs to one thread; only what it gives away to be done may be done on another: `FlushPlan.run`, large writes
(`beside.py`), what comes ahead of need (`warming.py`). README.md beside it has the tour.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, Unpack

from rmqspark.protocol.buffers.spans import as_bytes
from rmqspark.protocol.records.message_id import ZERO_HOST
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.disk_errors import as_store_errors
from rmqspark.store.figures import StoreFigures
from rmqspark.store.identity import FIRST_INCARNATION
from rmqspark.store.storeys import Storeys

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.protocol.bulk.topic_ranges import FoundRanges, TopicRange
    from rmqspark.store.appending.beside import Begin
    from rmqspark.store.appending.warming import BeginAhead
    from rmqspark.store.config import StoreConfig
    from rmqspark.store.dispatcher import OnReadable
    from rmqspark.store.draft import Appended, BulkAppended, Draft
    from rmqspark.store.expiry import ExpireReport
    from rmqspark.store.files import Buffer, DiskUsage, File, FileSystem
    from rmqspark.store.reading.key_search import Walked, WalkLimits
    from rmqspark.store.reading.reader import BulkReadResult, ReadResult, Scattered, Wanted
    from rmqspark.store.recovery.scan import Damage


class MessageStore:
    """Messages of one broker on disk. Made by `open`, given back by `close`."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        config: StoreConfig,
        lock: File,
        storeys: Storeys,
        damage: tuple[Damage, ...],
    ) -> None:
        self._root = root  # for messages
        self._config = config
        self._lock = lock
        self._storeys = storeys
        self._log = storeys.log
        self._dispatcher = storeys.dispatcher
        self._reader = storeys.reader
        self.writer: Final = storeys.writer
        self.flusher: Final = storeys.flusher
        self.queues: Final = storeys.readable_queues
        self.records: Final = storeys.log_records
        self.deletions: Final = storeys.topic_deletions
        self.replica: Final = storeys.replica
        self.lineage: Final = storeys.lineage
        self.damage: Final = damage

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        config: StoreConfig,
        *,
        files: FileSystem,
        clock: Clock,
        entropy: Entropy,
        store_host: bytes = ZERO_HOST,
    ) -> MessageStore:
        """Locks and loads the store at `root`, or makes one, and recovers it from whatever happened to it.

        Raises StoreLocked if another process has it, StoreError if it cannot be used.
        """
        files = files.within(root)
        with as_store_errors("opened", root, files), ExitStack() as given_back:  # after Ctrl-C in a recovery, too
            files.make_root()
            lock = files.lock("lock")
            given_back.callback(lock.close)
            lock.pwrite(b"lock", 0)
            storeys = Storeys(config, files, clock, entropy, store_host)
            given_back.callback(storeys.close)
            store = cls(root, config, lock, storeys, storeys.recover())
            given_back.pop_all()
        return store

    def close(self) -> None:
        """Makes everything durable and gives the files back. What cannot be made durable is recovered next time.

        Raises StoreError if the disk refused something; the files are given back all the same.
        """
        try:
            with as_store_errors("closed in order", self._root, self._storeys.files, "The next start recovers it."):
                self._storeys.make_all_durable()
        finally:
            self._storeys.close()
            self._lock.close()

    # --- who it is

    @property
    def store_id(self) -> str:
        """32 hex characters, drawn when the store was first made."""
        return self._storeys.identity.store_id

    @property
    def incarnation(self) -> int:
        """Raised when a recovery cut what may have been read: offsets known from before may mean other messages."""
        return self._storeys.identity.incarnation

    @property
    def opening(self) -> str:
        """Drawn anew at each opening: a copy that has been opened since it was made has another one."""
        return self._storeys.identity.opening

    def may_have_lost(self, topic: str) -> bool:
        """Whether it had messages that are gone, with the end of the log or with the topic, and others may have come in
        their places: who is ahead of a queue of it knows those that are gone."""
        return self.incarnation > FIRST_INCARNATION or self.deletions.deleted_ms(topic) > 0

    def set_store_host(self, host: bytes) -> None:
        """The broker's address (8 bytes, see `message_id.pack_host`), written into every record from now on."""
        self.writer.store_host = host

    @property
    def on_readable(self) -> OnReadable | None:
        """Called with what has become readable: for each queue (topic, queue id, new max offset, tags codes)."""
        return self._dispatcher.on_readable

    @on_readable.setter
    def on_readable(self, call: OnReadable | None) -> None:
        self._dispatcher.on_readable = call

    @property
    def on_safe(self) -> Callable[[], object] | None:
        """Called when `safe_offset` has moved."""
        return self._dispatcher.on_safe

    @on_safe.setter
    def on_safe(self, call: Callable[[], object] | None) -> None:
        self._dispatcher.on_safe = call

    def tell_readers(self) -> None:
        """Calls `on_readable` with what it has raised an error for, if anything. Raises what it raises."""
        self._dispatcher.tell()

    def work_ahead(self, begin: BeginAhead) -> None:
        """Has what is done ahead of need done by whom `begin` asks (`warming.py`)."""
        self.writer.ahead = begin

    def write_beside(self, begin: Begin) -> None:
        """Has large appends written by whom `begin` asks (`beside.py`)."""
        self.writer.beside = begin

    # --- messages in; in other forms than these they go to the `writer` itself

    def append(
        self, drafts: Sequence[Draft], *, together: bool = False, again: bool = False, makes_room: bool = False
    ) -> list[Appended]:
        """Stores messages in this order, all or none, with one write; see `Writer.append`."""
        return self.writer.append(drafts, together=together, again=again, makes_room=makes_room)

    def append_bulk(
        self, topic: str, queue_id: int, records: RecordBatch | Buffer, sizes: NDArray[np.int32] | None = None
    ) -> BulkAppended:
        """Stores finished records of one queue, in a writable buffer, all or none; see `Writer.append_bulk`.

        A buffer comes with the `sizes` of its records, or they are found by walking it.
        """
        if not isinstance(records, RecordBatch):
            buffer = as_bytes(records)
            records = RecordBatch.scan(buffer) if sizes is None else RecordBatch.from_sizes(buffer, sizes)
        return self.writer.append_bulk(topic, queue_id, records)

    @contextmanager
    def publishing_together(self) -> Iterator[None]:
        """What is appended inside becomes readable at once, at the end (in SYNC_FLUSH once all is flushed), and so does
        what anybody else appends meanwhile."""
        self._dispatcher.hold()
        try:
            yield
        finally:
            self._dispatcher.release()
            self.writer.dispatch_safe()

    # --- onto the disk

    @property
    def end_offset(self) -> int:
        """Physical offset at which the next append begins."""
        return self._log.end_offset

    @property
    def min_physical_offset(self) -> int:
        """Physical offset of the oldest record there is."""
        return self._log.min_offset

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which everything is on disk."""
        return self._log.flushed_offset

    @property
    def safe_offset(self) -> int:
        """Physical offset below which everything is as safe as the flush mode promises: on disk in SYNC_FLUSH."""
        return self._log.flushed_offset if self._config.syncs_flush else self._log.end_offset

    @property
    def is_writable(self) -> bool:
        return self._storeys.gate.is_open

    def flush(self) -> None:
        """Brings the log onto the disk, here and now. Raises OSError; ValueError while a plan is under way."""
        self.flusher.flush()

    def checkpoint(self) -> None:
        """Brings everything onto the disk, here and now, so that a recovery would begin here; after a power loss, from
        the second of two on. Raises OSError; ValueError while a plan is under way."""
        self.flusher.flush(thorough=True)

    # --- messages out

    def read(self, topic: str, queue_id: int, queue_offset: int, **wanted: Unpack[Wanted]) -> ReadResult:
        """Records from `queue_offset` on, as a pull is answered; see `Reader.read`."""
        return self._reader.read(topic, queue_id, queue_offset, **wanted)

    def read_bulk(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        end_offset: int,
        *,
        unchecked: bool = False,
        **wanted: Unpack[Wanted],
    ) -> BulkReadResult:
        """Records of [queue_offset, end_offset) with their sizes; see `Reader.read_bulk`."""
        return self._reader.read_bulk(topic, queue_id, queue_offset, end_offset, unchecked=unchecked, **wanted)

    def read_ranges(
        self,
        ranges: Sequence[TopicRange],
        *,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None = None,
        unchecked: bool = False,
    ) -> FoundRanges:
        """Records of the first of these ranges, of any queues; see `RangeReader.read`."""
        return self._storeys.range_reader.read(
            ranges, max_count=max_count, max_bytes=max_bytes, tag_codes=tag_codes, unchecked=unchecked
        )

    def read_at_offsets(self, topic: str, queue_id: int, queue_offsets: Sequence[int]) -> Scattered | None:
        """The messages at these offsets of a queue, neighbours together; see `Reader.read_at_offsets`."""
        return self._reader.read_at_offsets(topic, queue_id, queue_offsets)

    def read_range(self, physical_offset: int, size: int) -> bytes:
        """Bytes of the log, within one record that is known to be there. Raises DamagedFile."""
        return self._log.segments.read(physical_offset, size)

    def read_range_last(self, buffer: memoryview, physical_offset: int) -> None:
        """Fills `buffer` as `read_range` would, for the last time: their memory is better used for what is appended."""
        self._log.segments.read_into(buffer, physical_offset)
        self._log.segments.forget(physical_offset, physical_offset + len(buffer))

    @property
    def has_index(self) -> bool:
        """Whether messages can be queried: without an index `query` finds nothing, whatever is there."""
        return self._storeys.index is not None

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, max_count: int, *, max_bytes: int | None = None
    ) -> list[bytes]:
        """Records stored in [begin_ms, end_ms] under a key with the hash of this one; see `KeySearch.run`."""
        return self._storeys.key_search.run(topic, key, begin_ms, end_ms, max_count, max_bytes)

    def query_tags(
        self, topic: str, tags: str, begin_ms: int, end_ms: int, max_count: int, *, max_bytes: int
    ) -> list[bytes]:
        """The newest records stored in [begin_ms, end_ms] with these tags; see `TagSearch.run`."""
        return self._storeys.tag_search.run(topic, tags, begin_ms, end_ms, max_count, max_bytes)

    def walk_key(self, topic: str, key: str, begin_ms: int, end_ms: int, limits: WalkLimits) -> Walked:
        """The same from a place in the log downwards; see `KeySearch.walk`."""
        return self._storeys.key_search.walk(topic, key, begin_ms, end_ms, limits)

    # --- what there is

    def figures(self) -> StoreFigures:
        """How much there is, for operators."""
        index, log = self._storeys.index, self._log
        return StoreFigures(
            min_physical_offset=log.min_offset,
            end_physical_offset=log.end_offset,
            flushed_physical_offset=log.flushed_offset,
            readable_physical_offset=self._dispatcher.offset,
            earliest_timestamp_ms=log.earliest_timestamp_ms(),
            newest_timestamp_ms=self.writer.store_timestamp_ms,
            indexed_physical_offset=index.end_physical_offset if index is not None else -1,
            disk=self.disk_usage(),
            refusal=self._storeys.gate.refusal,
        )

    def disk_usage(self) -> DiskUsage:
        """Room on the partition of the log, for messages."""
        return self._storeys.files.disk_usage(self._log.segments.directory)

    # --- what goes

    def expire(
        self, now_ms: int, *, keep_from: int | None = None, spare_from: int | None = None, at_any_hour: bool = False
    ) -> ExpireReport:
        """Deletes what has had its time, a few files a call, and shuts or opens the store for writes as the disk
        fills or empties; see `Expiry.run`. Nothing from physical offset `keep_from` on goes, nor from `spare_from` on
        unless the disk is full."""
        return self._storeys.expiry.run(now_ms, keep_from=keep_from, spare_from=spare_from, at_any_hour=at_any_hour)

    def adopt(self, config: StoreConfig) -> None:
        """Goes by these settings from now on, as far as they say what goes: the others are for the next start."""
        self._storeys.expiry.adopt(config)

    def look_at_disk(self, now_ms: int) -> None:
        """Shuts or opens the store for writes as the disk has room, and deletes nothing; see `expire`."""
        self._storeys.expiry.look_at_disk(now_ms)

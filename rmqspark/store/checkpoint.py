"""The checkpoint: up to where things are known to be on disk (spec: storage, section 5; RocketMQ's StoreCheckpoint).

RocketMQ's file has 4096 bytes and uses the first 40: three store times, `masterFlushedOffset`, `confirmPhyOffset`. Ours
has the same, with the durable watermark in `masterFlushedOffset`, and behind them a seal:

    64   8   b"rmqspark"
    72   8   recovery offset: below it all records are in their queues and the index, and all of that is on disk
    80   8   the sum of all queues' max offsets when that was so
    88   8   physical offset of the last record in the index when that was so, -1 if none; 2^63 - 1 if there is no index
    96   4   CRC-32 of bytes 0 to 95
   128 100   the checkpoint that is being written, or was, in the same form
   228 100   the one that it takes the place of

How we know that ours wrote it last: RocketMQ maps the file and changes the first 40 bytes alone, at the latest when it
recovers (confirmPhyOffset becomes the start of the last record, not its end, as ours is) or flushes. Then the CRC is
wrong, and the two offsets, which say nothing about a log that somebody else has cut or continued, are not believed; the
store times still are. All of it lies in one sector of the disk, so a power loss leaves the old or the new one.

A process that dies in the middle of a write, or a disk that refuses there, may leave the beginning of the new one and
the end of the old. The CRC is wrong then, too, but what is there is made of these two, and the new one counts. RocketMQ
leaves the end of the new one, behind a beginning of its own. What was torn is finished before anything else is written.
"""

from __future__ import annotations

from contextlib import ExitStack
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from zlib_ng.zlib_ng import crc32

if TYPE_CHECKING:
    from rmqspark.store.files import FileSystem

CHECKPOINT_BYTES: Final = 4096
PATH: Final = "checkpoint"
_STOCK: Final = Struct(">qqqqq")
_SEAL: Final = Struct(">8sqqq")
_SEAL_AT: Final = 64
_CRC_AT: Final = _SEAL_AT + _SEAL.size
_CRC: Final = Struct(">I")
_SEALED_BYTES: Final = _CRC_AT + _CRC.size
_NEW_AT: Final = 128
_OLD_AT: Final = _NEW_AT + _SEALED_BYTES
_END: Final = _OLD_AT + _SEALED_BYTES
_PRODUCT: Final = b"rmqspark"
_CLOCK_SLACK_MS: Final = 3_000

NO_INDEX: Final = (1 << 63) - 1
"""In the place of an `index_offset`, and behind every one: whatever index there is lacks what was stored meanwhile."""


class Checkpoint(NamedTuple):
    """The store times are those of the newest record in the log, the queues and the index that is on disk; 0 if none.

    `watermark` and `recovery_offset` are physical offsets; 0, and `is_sealed` false, where ours did not write it last.
    """

    log_timestamp_ms: int = 0
    queues_timestamp_ms: int = 0
    index_timestamp_ms: int = 0
    watermark: int = 0
    recovery_offset: int = 0
    entries_total: int = 0
    index_offset: int = -1
    is_sealed: bool = False

    def encode(self) -> bytes:
        """As it lies in the file, up to and with the CRC."""
        stock = _STOCK.pack(
            self.log_timestamp_ms, self.queues_timestamp_ms, self.index_timestamp_ms, self.watermark, self.watermark
        )
        sealed = stock.ljust(_SEAL_AT, b"\0") + self._seal()
        return sealed + _CRC.pack(crc32(sealed))

    def _seal(self) -> bytes:
        return _SEAL.pack(_PRODUCT, self.recovery_offset, self.entries_total, self.index_offset)

    @classmethod
    def decode(cls, data: bytes) -> Checkpoint:
        """What the bytes of one say; of one that is too short nothing, of one that is not ours the store times."""
        if len(data) < _STOCK.size:
            return cls()
        log_ms, queues_ms, index_ms, watermark, _ = _STOCK.unpack_from(data)
        stock = cls(max(log_ms, 0), max(queues_ms, 0), max(index_ms, 0))
        if len(data) < _SEALED_BYTES or _CRC.unpack_from(data, _CRC_AT)[0] != crc32(data[:_CRC_AT]):
            return stock
        product, recovery_offset, entries_total, index_offset = _SEAL.unpack_from(data, _SEAL_AT)
        if product != _PRODUCT or not 0 <= recovery_offset <= watermark:
            return stock
        return stock._replace(
            watermark=watermark,
            recovery_offset=recovery_offset,
            entries_total=entries_total,
            index_offset=index_offset,
            is_sealed=True,
        )

    @property
    def min_timestamp_ms(self) -> int:
        """Records stored at or before this are on disk with their queue entries (RocketMQ's getMinTimestamp)."""
        return max(0, min(self.log_timestamp_ms, self.queues_timestamp_ms) - _CLOCK_SLACK_MS)


class CheckpointFile:
    """The checkpoint file of a store, open while the store is. Writing and syncing are two steps: a watermark that is
    written and not synced is merely older after a power loss. `current` is what is written, `synced` what surely is on
    disk, that or something newer.

    It is locked as long as it is open: somebody may delete the store's `lock` while a broker runs, and the next would
    lock a new one and write the same files. Raises StoreLocked.
    """

    def __init__(self, files: FileSystem) -> None:
        is_new = not files.exists(PATH)
        self.synced = Checkpoint()
        self._failure: OSError | None = None
        self._torn: Checkpoint | None = None
        self._file = files.lock(PATH)
        with ExitStack() as given_back:
            given_back.callback(self._file.close)  # or a next try in this process would find it locked
            self.current = self._read()
            if self._file.size() < CHECKPOINT_BYTES:
                self._file.truncate(CHECKPOINT_BYTES)
            if is_new:
                files.sync_directory("")
            given_back.pop_all()

    def _read(self) -> Checkpoint:
        data = self._file.pread(CHECKPOINT_BYTES, 0)
        if (torn := torn_checkpoint(data)) is not None:
            self._torn = torn
            return torn
        there = Checkpoint.decode(data)
        if not there.is_sealed and any(data[_SEAL_AT:_END]):
            self._file.pwrite(bytes(_END - _SEAL_AT), _SEAL_AT)  # or it would count for ours once that is torn
            self._file.fsync()
        return there

    def write(self, checkpoint: Checkpoint) -> None:
        """Raises OSError; then what was there counts, or this."""
        if self._torn is not None:
            self._put(self._torn)
        if self.current.is_sealed:
            self._file.pwrite(checkpoint.encode() + self.current.encode(), _NEW_AT)
        self._put(checkpoint)

    def _put(self, checkpoint: Checkpoint) -> None:
        self._torn = checkpoint
        self._file.pwrite(checkpoint.encode(), 0)
        self._torn = None
        self.current = checkpoint

    def sync(self) -> None:
        """May be called from any thread. Raises OSError, and the same ever after: a second try would prove nothing."""
        if self._failure is not None:
            raise self._failure
        written = self.current
        try:
            self._file.fsync()
        except OSError as error:
            self._failure = error
            raise
        self.synced = written

    def close(self) -> None:
        self._file.close()


def read_checkpoint(data: bytes) -> Checkpoint:
    """What a whole file says, also where ours died while it wrote it."""
    return torn_checkpoint(data) or Checkpoint.decode(data)


def torn_checkpoint(data: bytes) -> Checkpoint | None:
    """What ours was writing into this file, and did not end; None if it had, or if RocketMQ came since."""
    there, new, old = data[:_SEALED_BYTES], data[_NEW_AT:_OLD_AT], data[_OLD_AT:_END]
    if Checkpoint.decode(there).is_sealed or not Checkpoint.decode(old).is_sealed:
        return None
    is_torn = any(there == new[:cut] + old[cut:] for cut in range(_SEALED_BYTES))
    checkpoint = Checkpoint.decode(new)
    return checkpoint if is_torn and checkpoint.is_sealed else None

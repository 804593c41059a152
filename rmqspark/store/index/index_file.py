"""One file of the key index: header, hash slots, entries (spec: storage, section 4; RocketMQ's IndexFile).

All integers big-endian. Entry numbers start at 1; 0 means "none", and the place of entry 0 is never used.

    header          40   see HEADER
    slots            4 x max_hash_slot_num: number of the newest entry whose key hash falls on the slot
    entries         20 x max_index_num, see ENTRY

An order of writing makes every file provable after a crash: entries first, fsync, then the header that counts them. So
entries below the header's count are on disk whenever the header is. The slots follow from the entries: they are written
only when the file is full or closed, before the header that says so. What is behind the header's count is never
believed.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import closing
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from rmqspark.store.index.index_slots import SLOT_BYTES, SlotTable

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from rmqspark.store.files import File
    from rmqspark.store.index.index_keys import KeyBatch

HEADER = Struct(
    ">q"  # begin timestamp: store time of the first entry, ms
    "q"  # end timestamp: store time of the last entry
    "q"  # begin physical offset
    "q"  # end physical offset
    "i"  # slots in use
    "i"  # number of the next entry: 1 in an empty file
)
ENTRY = Struct(
    ">i"  # key hash: absolute value of Java's hashCode of topic#key
    "q"  # physical offset of the record
    "i"  # seconds since the begin timestamp
    "i"  # the entry that was newest in the slot before this one, 0 if none
)
ENTRY_DTYPE = np.dtype([("key_hash", ">i4"), ("physical_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
_INT32_MAX = 2**31 - 1
_REPLAY_ENTRIES = 1 << 16
_SCANNED_ENTRIES = 1 << 16
MOST_HOPS = 1 << 10  # along one chain: some milliseconds


class IndexLayout(NamedTuple):
    """Where things are in an index file; follows from the two settings, which StoreConfig has checked."""

    slot_count: int
    entry_count: int  # places for entries, the unused first one included

    @property
    def file_bytes(self) -> int:
        return self.entry_at(self.entry_count)

    def entry_at(self, entry: int) -> int:
        """The file position of an entry."""
        return HEADER.size + self.slot_count * SLOT_BYTES + entry * ENTRY.size


class IndexHeader(msgspec.Struct, gc=False):
    """What a file says of itself. Field by field as in HEADER."""

    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    used_slots: int = 0
    next_entry: int = 1

    def encode(self) -> bytes:
        return HEADER.pack(*msgspec.structs.astuple(self))

    @classmethod
    def decode(cls, data: bytes) -> IndexHeader:
        """The header, or that of an empty file where the bytes cannot be one."""
        header = cls(*HEADER.unpack(data)) if len(data) == HEADER.size else cls()
        has_times = min(header.begin_timestamp_ms, header.end_timestamp_ms) >= 0
        has_places = 0 <= header.begin_physical_offset <= header.end_physical_offset
        return header if has_times and has_places and header.next_entry > 1 else cls()


class IndexFile:
    """An open index file. It has its slots in memory from the first entry until `save_slots`."""

    def __init__(self, file: File, layout: IndexLayout) -> None:
        self._file = file
        self._layout = layout
        self._slots: SlotTable | None = None
        self.header = IndexHeader.decode(file.pread(HEADER.size, 0))
        self.header_on_disk = self.header.encode()
        self.is_oversized = file.size() > layout.file_bytes
        self.is_whole = file.size() == layout.file_bytes and self.header.next_entry <= layout.entry_count
        self.header.next_entry = min(self.header.next_entry, layout.entry_count)

    @classmethod
    def make(cls, file: File, layout: IndexLayout) -> IndexFile:
        """Gives a new file its length, sparse, and an empty header."""
        file.truncate(layout.file_bytes)
        return cls(file, layout)

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def room(self) -> int:
        """How many more entries fit."""
        return self._layout.entry_count - self.header.next_entry

    @property
    def is_empty(self) -> bool:
        return self.header.next_entry == 1

    @property
    def is_dirty(self) -> bool:
        """Whether the header on disk does not yet count every entry."""
        return self.header.encode() != self.header_on_disk

    @property
    def is_sealed(self) -> bool:
        """Whether the file on disk is all there is: nothing of it is only in memory."""
        return self._slots is None and not self.is_dirty

    # --- writing

    def append(self, keys: KeyBatch) -> None:
        """Enters keys, not more than there is room for. After an OSError nothing has been entered."""
        table = self._table()
        header, count = self.header, len(keys.hashes)
        first = header.next_entry
        begin_ms = int(keys.store_timestamps_ms[0]) if self.is_empty else header.begin_timestamp_ms
        slots = keys.hashes % np.int32(self._layout.slot_count)
        previous = table.chain(slots, first)
        entries = np.empty(count, ENTRY_DTYPE)
        entries["key_hash"] = keys.hashes
        entries["physical_offset"] = keys.physical_offsets
        entries["seconds"] = _seconds_since(begin_ms, keys.store_timestamps_ms)
        entries["previous"] = previous
        try:
            self._file.pwrite(entries.data.cast("B"), self._layout.entry_at(first))
        except OSError:
            table.unchain(slots, previous)
            raise
        if self.is_empty:
            header.begin_timestamp_ms, header.begin_physical_offset = begin_ms, int(keys.physical_offsets[0])
        header.end_timestamp_ms = int(keys.store_timestamps_ms[-1])
        header.end_physical_offset = int(keys.physical_offsets[-1])
        header.used_slots += count - int(np.count_nonzero(previous))
        header.next_entry += count

    def save_slots(self) -> None:
        """Writes the slots and gives their memory back; they are durable with the next fsync."""
        if self._slots is not None:
            self._slots.save(self._file, HEADER.size)
            self._slots = None

    def begin_flush(self) -> HeaderFlush:
        """The slots of a full file are written first: a header that says full, says complete."""
        if not self.room:
            self.save_slots()
        return HeaderFlush(self._file, self.header.encode())

    def flush(self) -> None:
        """Makes all entries durable, then the header that counts them."""
        step = self.begin_flush()
        if (refusal := step.run()) is not None:
            raise refusal
        self.header_on_disk = step.header

    def seal(self) -> None:
        """Writes and flushes what there is in memory only."""
        if not self.is_sealed:
            self.save_slots()
            self.flush()

    def close(self) -> None:
        self._file.close()

    # --- reading

    def find(self, key_hash: int, begin_ms: int, end_ms: int, limit: int, below: int) -> list[int]:
        """Physical offsets below that one, of records stored in [begin_ms, end_ms] under a key of this hash, the
        newest first, each once: two keys of a record may have one hash."""
        found: dict[int, None] = {}
        with closing(self._entered(key_hash, begin_ms, end_ms, below)) as entered:
            for physical_offset in entered:
                if len(found) >= limit:
                    break
                found[physical_offset] = None
        return list(found)

    def _entered(self, key_hash: int, begin_ms: int, end_ms: int, below: int) -> Generator[int]:
        """The same one by one. Each hop along a chain is a read: where a key has a long one, of millions perhaps, its
        entries are looked for among all."""
        entry = self._newest(key_hash % self._layout.slot_count)
        above = self.header.next_entry
        for _ in range(MOST_HOPS):
            if not 0 < entry < above:  # a chain leads to older entries only; what does not is damage
                return
            stored_hash, physical_offset, seconds, previous = self._entry(entry)
            stored_ms = self.header.begin_timestamp_ms + seconds * 1000
            if stored_ms < begin_ms:
                return
            if stored_hash == key_hash and stored_ms <= end_ms and physical_offset < below:
                yield physical_offset
            entry, above = previous, entry
        if 0 < entry < above:
            yield from self._scan(min(entry, self.first_at_or_after(below) - 1), key_hash, begin_ms, end_ms)

    def _scan(self, newest: int, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """What a chain leads to from this entry's number downwards, without following it."""
        slot_count = self._layout.slot_count
        for last in range(newest, 0, -_SCANNED_ENTRIES):
            entries = self._entries(max(1, last - _SCANNED_ENTRIES + 1), last + 1)[::-1]
            hashes = entries["key_hash"].astype(np.int32)
            chain = np.flatnonzero(hashes % np.int32(slot_count) == key_hash % slot_count)
            stored_ms = self.header.begin_timestamp_ms + entries["seconds"][chain].astype(np.int64) * 1000
            too_old = np.flatnonzero(stored_ms < begin_ms)
            chain = chain[: too_old[0]] if len(too_old) else chain
            wanted = chain[(hashes[chain] == key_hash) & (stored_ms[: len(chain)] <= end_ms)]
            yield from entries["physical_offset"][wanted].tolist()
            if len(too_old):
                return

    def may_hold(self, begin_ms: int, end_ms: int) -> bool:
        """Whether its entries' times and [begin_ms, end_ms] have a moment in common. None is before its first, though
        the clock that its last was stored by had been set back."""
        first_ms = self.header.begin_timestamp_ms
        return first_ms <= end_ms and begin_ms <= max(first_ms, self.header.end_timestamp_ms)

    def first_at_or_after(self, physical_offset: int) -> int:
        """The first entry of a record at this physical offset or behind; the next entry's number if there is none."""
        entries = range(1, self.header.next_entry)
        return 1 + bisect_left(entries, physical_offset, key=self.physical_offset)

    def physical_offset(self, entry: int) -> int:
        return int(self._entry(entry)[1])

    # --- recovery

    def replay(self) -> bool:
        """Builds the slots anew from the entries and keeps the longest run of these that proves itself: offsets ascend
        within the header's bounds, and each entry follows the one its hash says. Tells whether that was all of them."""
        if not self.is_whole:
            self._file.truncate(self._layout.file_bytes)
        self._slots = table = SlotTable(self._layout.slot_count)
        named, floor = self.header.next_entry, self.header.begin_physical_offset
        first = 1
        self.header.used_slots = 0
        while first < named:
            entries = self._entries(first, min(named, first + _REPLAY_ENTRIES))
            slots = entries["key_hash"].astype(np.int32) % np.int32(self._layout.slot_count)
            previous = table.chain(slots, first)
            offsets = entries["physical_offset"].astype(np.int64)
            good = _proven(entries, offsets, previous, floor, self.header.end_physical_offset)
            self.header.used_slots += good - int(np.count_nonzero(previous[:good]))
            first += good
            if good < len(entries) or not good:
                table.unchain(slots[good:], previous[good:])
                break
            floor = int(offsets[-1])
        if first < named:
            self._settle(first)
        return first == named

    def cut(self, entry: int) -> None:
        """Drops this entry and all after it, durably: the header stops counting them before their bytes go."""
        table = self._table()
        for first in reversed(range(entry, self.header.next_entry, _REPLAY_ENTRIES)):
            dropped = self._entries(first, min(self.header.next_entry, first + _REPLAY_ENTRIES))
            previous = dropped["previous"].astype(np.int32)
            table.unchain(dropped["key_hash"].astype(np.int32) % np.int32(self._layout.slot_count), previous)
            self.header.used_slots -= len(dropped) - int(np.count_nonzero(previous))
        self._settle(entry)
        self.flush()
        self._file.truncate(self._layout.entry_at(entry))
        self._file.truncate(self._layout.file_bytes)

    def _settle(self, next_entry: int) -> None:
        """Makes the header end before `next_entry`. The end timestamp is known to the second only; feeding the last
        record again, as recovery does, puts it right."""
        self.header.next_entry = next_entry
        if next_entry > 1:
            _, physical_offset, seconds, _ = self._entry(next_entry - 1)
            self.header.end_physical_offset = physical_offset
            self.header.end_timestamp_ms = self.header.begin_timestamp_ms + seconds * 1000

    def _table(self) -> SlotTable:
        if self._slots is None:
            self._slots = SlotTable(self._layout.slot_count)
            if not self.is_empty:
                self._slots.load(self._file, HEADER.size, self.header.next_entry)
        return self._slots

    def _newest(self, slot: int) -> int:
        if self._slots is not None:
            return self._slots[slot]
        return int.from_bytes(self._file.pread(SLOT_BYTES, HEADER.size + slot * SLOT_BYTES), signed=True)

    def _entry(self, entry: int) -> tuple[int, int, int, int]:
        data = self._file.pread(ENTRY.size, self._layout.entry_at(entry))
        return ENTRY.unpack(data) if len(data) == ENTRY.size else (0, 0, 0, 0)

    def _entries(self, first: int, end: int) -> NDArray[np.void]:
        data = self._file.pread((end - first) * ENTRY.size, self._layout.entry_at(first))
        return np.frombuffer(data[: len(data) - len(data) % ENTRY.size], ENTRY_DTYPE)


class HeaderFlush(NamedTuple):
    """What makes one file's entries durable. `run` may be called from any thread."""

    file: File
    header: bytes

    def run(self) -> OSError | None:
        """Raises the OSError of a failed fsync; returns the one of a header that was not taken (a full disk). The file
        is then what it was: the header before counts fewer entries, all of them durable."""
        self.file.fsync()
        try:
            self.file.pwrite(self.header, 0)
        except OSError as refusal:
            return refusal
        self.file.fsync()
        return None


def _seconds_since(begin_ms: int, timestamps_ms: NDArray[np.int64]) -> NDArray[np.int64] | int:
    if begin_ms <= 0:
        return 0
    return np.clip((timestamps_ms - begin_ms) // 1000, 0, _INT32_MAX)


def _proven(
    entries: NDArray[np.void], offsets: NDArray[np.int64], previous: NDArray[np.int32], floor: int, ceiling: int
) -> int:
    """How many entries from the first on are as they must be."""
    sound = (entries["previous"] == previous) & (entries["key_hash"] >= 0) & (offsets <= ceiling)
    sound &= offsets >= np.concatenate(([floor], offsets[:-1]))
    return len(entries) if sound.all() else int(np.argmin(sound))

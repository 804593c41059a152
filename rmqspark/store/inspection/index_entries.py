"""The entries of all index files compared with the keys of the records, as the log is gone through.

Keys enter an index in the order of the log, all of a record together, so both are walked side by side: for each piece
of the log, each key of its records must have an entry, and each entry that leads into it a record. (RocketMQ 5.5 enters
tags besides; so an entry of a record is not held against the keys that we know of.) What was never indexed, where an
index begins later than the log or ends before it, is told as a note: it may have been switched off.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.store.index.index_file import ENTRY_DTYPE, HEADER, IndexHeader
from rmqspark.store.index.index_keys import keys_of_records
from rmqspark.store.inspection.findings import Finding, Findings, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.store.index.index_file import IndexLayout
    from rmqspark.store.inspection.read_only import ReadOnlyFiles

_CHUNK_ENTRIES: Final = 1 << 16


class _Chunk(NamedTuple):
    """Entries that follow each other in one file."""

    path: str
    byte: int  # where the first of them stands
    offsets: NDArray[np.int64]
    hashes: NDArray[np.int64]

    def split(self, count: int) -> tuple[_Chunk, _Chunk]:
        """The first `count` entries, and the rest."""
        rest_at = self.byte + count * ENTRY_DTYPE.itemsize
        rest = _Chunk(self.path, rest_at, self.offsets[count:], self.hashes[count:])
        return self._replace(offsets=self.offsets[:count], hashes=self.hashes[:count]), rest


class IndexEntries:
    """All entries, in order. `compare` them with the records of the log as they come, then `finish`."""

    def __init__(
        self,
        files: ReadOnlyFiles,
        paths: Sequence[str],
        layout: IndexLayout,
        findings: Findings,
        *,
        log_start: int,
        is_exact: bool,
    ) -> None:
        """Entries of records before `log_start` are those of expired files, and left out. `is_exact`: the store was
        closed, so what is wrong is not what a crash leaves."""
        self._files = files
        self._layout = layout
        self._findings = findings
        self._is_exact = is_exact
        self._headers = [(path, header) for path in paths if (header := self._header(path)).next_entry > 1]
        self._chunks = self._read()
        self._chunk = next(self._chunks, None)
        self._before = self._behind = 0  # keys that no index covers
        self.skip(log_start)

    def compare(self, records: RecordBatch, physical_offset: int) -> None:
        """Records that follow each other from `physical_offset` on."""
        if not self._headers:
            return
        end = physical_offset + int(records.sizes.sum())
        places = records.positions + physical_offset
        expected = keys_of_records(None, records, places)
        is_covered = self._covers(expected.physical_offsets)
        due = _as_numbers(expected.physical_offsets, expected.hashes.astype(np.int64), physical_offset)[is_covered]
        parts = list(self._take(end))
        found = [_as_numbers(part.offsets, part.hashes, physical_offset) for part in parts]
        stored = np.concatenate(found) if found else np.empty(0, np.int64)
        if len(stored) == len(due) and (stored == due).all():
            return
        for part in parts:
            self._report_extra(part, ~np.isin(part.offsets, places))
        if missing := int(np.count_nonzero(~np.isin(due, stored))):
            detail = f"{missing:,} keys of the records from {physical_offset:,} to {end:,} have no entry."
            path, _ = self._headers[0]
            self._findings.add(Finding(Kind.INDEX_ENTRIES, path, -1, detail, self._is_exact))

    def skip(self, end: int) -> None:
        """Leaves out what leads below `end`: into damage that ends there."""
        for _ in self._take(end):
            pass

    def finish(self, *, is_open: bool) -> None:
        """The log has ended. What leads behind its end leads to messages that are gone, or (`is_open`) to new ones."""
        for path, count, where in (("first", self._before, "begins"), ("last", self._behind, "ends")):
            if count and not is_open:
                place = self._headers[0 if path == "first" else -1][0]
                detail = f"The index {where} here, and {count:,} keys of the log are in none."
                self._findings.add(Finding(Kind.INDEX_ENTRIES, place, -1, detail, is_broken=False))
        if not is_open:
            for part in self._take(1 << 62):
                self._report_extra(part, np.ones(len(part.offsets), np.bool_))

    def _covers(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which records the index should know; counts the others."""
        before = offsets < self._headers[0][1].begin_physical_offset
        behind = offsets > self._headers[-1][1].end_physical_offset
        self._before += int(np.count_nonzero(before))
        self._behind += int(np.count_nonzero(behind))
        return ~(before | behind)

    def _report_extra(self, part: _Chunk, is_extra: NDArray[np.bool_]) -> None:
        if count := int(np.count_nonzero(is_extra)):
            row = int(is_extra.argmax())
            detail = f"{count:,} entries of no record; the first leads to {int(part.offsets[row]):,} in the log."
            byte = part.byte + row * ENTRY_DTYPE.itemsize
            self._findings.add(Finding(Kind.INDEX_ENTRIES, part.path, byte, detail, self._is_exact))

    def _take(self, end: int) -> Iterator[_Chunk]:
        """The entries from where we stand that lead below `end`."""
        while self._chunk is not None:
            taken, self._chunk = self._chunk.split(int(np.searchsorted(self._chunk.offsets, end)))
            if len(taken.offsets):
                yield taken
            if len(self._chunk.offsets):
                return
            self._chunk = next(self._chunks, None)

    def _read(self) -> Iterator[_Chunk]:
        for path, header in self._headers:
            with closing(self._files.open(path)) as file:
                for first in range(1, header.next_entry, _CHUNK_ENTRIES):
                    count, at = min(_CHUNK_ENTRIES, header.next_entry - first), self._layout.entry_at(first)
                    entries = np.frombuffer(file.pread(count * ENTRY_DTYPE.itemsize, at), ENTRY_DTYPE)
                    yield _Chunk(
                        path, at, entries["physical_offset"].astype(np.int64), entries["key_hash"].astype(np.int64)
                    )

    def _header(self, path: str) -> IndexHeader:
        with closing(self._files.open(path)) as file:
            return IndexHeader.decode(file.pread(HEADER.size, 0))


def _as_numbers(offsets: NDArray[np.int64], hashes: NDArray[np.int64], start: int) -> NDArray[np.int64]:
    """One number for each entry: where it leads, from `start` on, and the hash of its key. Those that lead before
    `start` are negative, and no record's."""
    return np.where(offsets < start, -1, (offsets - start) << 32 | (hashes & 0xFFFFFFFF))

"""The hash slots of an index file that is being written: for each slot the number of its newest entry.

They are kept in memory and written when the file is full or the store is closed. In between nothing is lost: the slots
follow from the entries, and `chain` is how they do, both when entries are appended and when they are replayed. An entry
points to the one that was newest in its slot before it, so the slots are the heads of chains through the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.store.files import File

SLOT_BYTES = 4
_PAGE_SLOTS = 1 << 10
_CHUNK_SLOTS = 64 * _PAGE_SLOTS


class SlotTable:
    """`count` slots, all empty (0) at first. Memory is taken as slots are used."""

    def __init__(self, count: int) -> None:
        self._newest = np.zeros(count, np.int32)

    def __getitem__(self, slot: int) -> int:
        return int(self._newest[slot])

    def chain(self, slots: NDArray[np.int32], first_entry: int) -> NDArray[np.int32]:
        """Enters entries `first_entry`, `first_entry` + 1, ... into these slots; returns which one each follows."""
        previous = self._newest[slots]
        entries = np.arange(first_entry, first_entry + len(slots), dtype=np.int32)
        self._newest[slots] = entries  # of several in one slot the last one stays
        newest = self._newest[slots]
        if (crowded := np.flatnonzero(newest != entries)).size:
            _chain_within(slots, entries, previous, crowded, newest[crowded] - first_entry)
        return previous

    def unchain(self, slots: NDArray[np.int32], previous: NDArray[np.int32]) -> None:
        """Takes back the newest entries, given as `chain` was given and returned them."""
        self._newest[slots[::-1]] = previous[::-1]  # of several in one slot the first one's predecessor stays

    def load(self, file: File, offset: int, entry_limit: int) -> None:
        """Reads the slots as a file has them. What does not name an entry below `entry_limit` counts as empty."""
        for start, chunk in self.chunks():
            stored = np.frombuffer(file.pread(chunk.nbytes, offset + start * SLOT_BYTES), ">i4")
            if stored.any():
                chunk[: len(stored)] = np.where((stored > 0) & (stored < entry_limit), stored, 0)

    def save(self, file: File, offset: int) -> None:
        """Writes the pages that differ from the file's, so that empty ones take no room."""
        for start, chunk in self.chunks():
            wanted = chunk.astype(">i4")
            stored = np.zeros_like(wanted)
            file.pread_into(stored.data.cast("B"), offset + start * SLOT_BYTES)
            for first, last in _runs(np.unique(np.flatnonzero(stored != wanted) // _PAGE_SLOTS)):
                pages = wanted[first * _PAGE_SLOTS : last * _PAGE_SLOTS]
                file.pwrite(pages.data.cast("B"), offset + (start + first * _PAGE_SLOTS) * SLOT_BYTES)

    def chunks(self) -> list[tuple[int, NDArray[np.int32]]]:
        """All slots in pieces: the number of each piece's first slot, and the newest entries."""
        starts = range(0, len(self._newest), _CHUNK_SLOTS)
        return [(start, self._newest[start : start + _CHUNK_SLOTS]) for start in starts]


def _runs(numbers: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges: the first, and one past the last, of each run without a gap."""
    if not len(numbers):
        return []
    gaps = np.flatnonzero(np.diff(numbers) > 1)
    firsts, lasts = numbers[np.append(0, gaps + 1)], numbers[np.append(gaps, -1)] + 1
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _chain_within(
    slots: NDArray[np.int32],
    entries: NDArray[np.int32],
    previous: NDArray[np.int32],
    overtaken: NDArray[np.int64],
    last: NDArray[np.int32],
) -> None:
    """Where several of a batch share a slot, points each at the one before it. Few do: only those are sorted."""
    shares = np.zeros(len(slots), bool)  # marked, for numpy.unique takes longer than all the rest
    shares[overtaken] = shares[last] = True
    rows = np.flatnonzero(shares)
    rows = rows[np.argsort(slots[rows], kind="stable")]
    follows = slots[rows[1:]] == slots[rows[:-1]]
    previous[rows[1:][follows]] = entries[rows[:-1][follows]]

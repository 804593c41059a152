"""Index files looked at without their records: do header, chains and slots agree with the entries?

After a crash none of it is believed by a broker that starts, so only in a store that was closed is a file broken.

Slots and chains follow from the key hashes of the entries, in order; so they are built again and compared (see
`index_slots`). A slot table of the usual size takes 20 MB; entries are read a chunk at a time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.store.index.index_file import ENTRY_DTYPE, HEADER, IndexHeader
from rmqspark.store.index.index_slots import SLOT_BYTES, SlotTable
from rmqspark.store.inspection.findings import Finding, Findings, IndexFigures, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from rmqspark.store.files import File
    from rmqspark.store.index.index_file import IndexLayout

    Found = Callable[[Kind, int, str], None]

_CHUNK_ENTRIES: Final = 1 << 16


def check_index(file: File, layout: IndexLayout, findings: Findings, *, has_slots: bool) -> IndexFigures | None:
    """Checks one file; None if its entries cannot be read in order. `has_slots`: the store was closed, so the slots are
    in the file and not only in memory."""
    found = partial(_add, findings, file.path, is_broken=has_slots)
    header = IndexHeader.decode(file.pread(HEADER.size, 0))
    is_blank = file.next_data(0) >= file.size()
    if header.next_entry > layout.entry_count or (header.next_entry == 1 and not is_blank and has_slots):
        detail = f"Counts {header.next_entry - 1:,} entries; there is room for {layout.entry_count - 1:,}."
        found(Kind.INDEX_HEADER, 0, detail)
        return None
    table = SlotTable(layout.slot_count)
    used = _check_chains(file, layout, header, table, found)
    if used is None:
        return None
    if used != header.used_slots:
        detail = f"Counts {header.used_slots:,} slots in use where {used:,} are."
        found(Kind.INDEX_HEADER, 0, detail)
    if has_slots:
        _check_slots(file, table, found)
    return IndexFigures(file.path, header.next_entry - 1, used)


def _check_chains(file: File, layout: IndexLayout, header: IndexHeader, table: SlotTable, found: Found) -> int | None:
    """How many slots are in use; None if an entry is wrong, for what follows it follows from it."""
    used, floor = 0, header.begin_physical_offset
    for first, entries in _entries(file, layout, header.next_entry):
        slots = entries["key_hash"].astype(np.int32) % np.int32(layout.slot_count)
        previous = table.chain(slots, first)
        offsets = entries["physical_offset"].astype(np.int64)
        wrong = (
            (entries["previous"] != previous)
            | (entries["key_hash"] < 0)
            | (offsets > header.end_physical_offset)
            | (offsets < np.concatenate(([floor], offsets[:-1])))
        )
        if wrong.any():
            row = int(wrong.argmax())
            told = ", ".join(f"{name} {entries[name][row]}" for name in ENTRY_DTYPE.names or ())
            detail = f"Entry {first + row} cannot be ({told}); its slot's entry before is {int(previous[row])}."
            found(Kind.INDEX_CHAIN, layout.entry_at(first + row), detail)
            return None
        used += len(entries) - int(np.count_nonzero(previous))
        floor = int(offsets[-1])
    return used


def _check_slots(file: File, table: SlotTable, found: Found) -> None:
    """Whether each slot in the file names its newest entry."""
    for start, due in table.chunks():
        stored = np.frombuffer(file.pread(due.nbytes, HEADER.size + start * SLOT_BYTES), ">i4")
        wrong = np.flatnonzero(stored != due)
        if len(wrong):
            slot = start + int(wrong[0])
            detail = f"Slot {slot} names entry {int(stored[wrong[0]])} instead of {int(due[wrong[0]])}."
            found(Kind.INDEX_SLOTS, HEADER.size + slot * SLOT_BYTES, detail)


def _add(findings: Findings, path: str, kind: Kind, offset: int, detail: str, *, is_broken: bool) -> None:
    findings.add(Finding(kind, path, offset, detail, is_broken))


def _entries(file: File, layout: IndexLayout, next_entry: int) -> Iterator[tuple[int, NDArray[np.void]]]:
    for first in range(1, next_entry, _CHUNK_ENTRIES):
        count = min(_CHUNK_ENTRIES, next_entry - first)
        yield first, np.frombuffer(file.pread(count * ENTRY_DTYPE.itemsize, layout.entry_at(first)), ENTRY_DTYPE)

"""Where a queue ends by what its files hold, when nothing says how far they were right (spec: storage, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.store.queues.consume_queue import ENTRY_BYTES, ENTRY_DTYPE, NO_MESSAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqspark.store.log.segment import Segment
    from rmqspark.store.queues.consume_queue import ConsumeQueue, Entries

_NEWEST_FILES: Final = 3


def first_invalid(queue: ConsumeQueue) -> int:
    """The queue offset of the first entry that leads nowhere, in the last three files: RocketMQ's rule."""
    return _first(_are_invalid, list(queue.segments)[-_NEWEST_FILES:], 0)


def first_contradiction(queue: ConsumeQueue, below: int) -> int:
    """The queue offset of the first entry, in all files, that leads nowhere, behind the physical offset `below`, or
    beyond where the next one leads: of two that cannot both be right nobody knows which one is."""
    return _first(lambda entries: _are_invalid(entries) | _overlap(entries, below), list(queue.segments), 1)


def _first(are_bad: Callable[[Entries], NDArray[np.bool_]], segments: Sequence[Segment], carried_count: int) -> int:
    """The first entry that is bad; where there is none, the end. So many of a file are looked at again with the next
    one's."""
    end = segments[0].base // ENTRY_BYTES if segments else 0
    carried = np.empty(0, ENTRY_DTYPE)
    for segment in _unbroken(segments):
        of_file = np.frombuffer(segment.read(0, segment.length), ENTRY_DTYPE)
        entries = np.concatenate([carried, of_file], dtype=ENTRY_DTYPE)  # else NumPy turns every number round
        begin, end = end - len(carried), end + segment.length // ENTRY_BYTES
        if (bad := are_bad(entries)).any():
            return begin + int(bad.argmax())
        carried = entries[len(entries) - carried_count :]
    return end


def _unbroken(segments: Sequence[Segment]) -> Iterator[Segment]:
    """Up to where a file is missing."""
    for number, segment in enumerate(segments):
        if number and segment.base != segments[number - 1].base + segments[number - 1].length:
            return
        yield segment


def _are_invalid(entries: Entries) -> NDArray[np.bool_]:
    invalid: NDArray[np.bool_] = (entries["physical_offset"] < 0) | (entries["size"] <= 0)
    return invalid


def _overlap(entries: Entries, below: int) -> NDArray[np.bool_]:
    """Which end behind where the next one begins, if that is valid, or behind `below`."""
    places, sizes = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
    ends = places + np.where(sizes == NO_MESSAGE_SIZE, 0, sizes)
    next_places = np.append(np.where(_are_invalid(entries[1:]), below, places[1:]), below)
    overlapping: NDArray[np.bool_] = (places > below) | (ends > np.minimum(next_places, below))
    return overlapping

"""Entries of several queues, merged into the order of the log.

Busy queues take turns in the log, so whoever reads several of them reads it once, from front to back, instead of once
for each. Each queue is a *lane*: its entries come a window at a time, and what is handed out together ends where the
first lane would have to be refilled. Memory is bounded by the windows, however long the ranges are.

An entry that cannot be (zeros, where the broker has not written it yet; bytes of a damaged file) ends its lane: what is
left of it is `unread`, and somebody else's to get. Where there is nobody else it is stepped over and leaves a gap. Lost
and blank entries stand for no message, and are stepped over as the broker does; they leave a gap where all messages are
wanted, for then it is known that one is missing. Which tags it had is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from rmqspark.errors import StoreError
from rmqspark.protocol.commands.frame import MAX_FRAME_BYTES
from rmqspark.protocol.records.record import MIN_RECORD_BYTES
from rmqspark.store.queues.consume_queue import NO_MESSAGE_SIZE
from rmqspark.store.reading.wanted_entries import may_have_tags

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.store.queues.consume_queue import Entries

_FEWEST_IN_WINDOW: Final = 64
_NO_MORE: Final = np.iinfo(np.int64).max


class EntrySource(Protocol):
    """A queue, as far as its entries go."""

    def entries(self, start: int, end: int) -> Entries:
        """Entries [start, end); zeros where nothing is written. Raises OSError or StoreError."""


class Block(NamedTuple):
    """Entries in log order; `lanes` has the number of each one's lane."""

    physical_offsets: Positions
    sizes: Positions
    queue_offsets: Positions
    lanes: Positions

    def __len__(self) -> int:
        return len(self.sizes)

    def rows(self, first: int, end: int) -> Block:
        return Block(*(column[first:end] for column in self))


_NOTHING: Final = Block(*(np.empty(0, np.int64) for _ in range(4)))


class Lane:
    """The entries [start, end) of one queue that fit the tags. `unread` is where they cannot be gone on with, in this
    process; `end` if that is nowhere. `gaps` are what is known to be missing before that: messages that were lost, and
    what was stepped over, if it `steps_over`."""

    def __init__(
        self,
        number: int,
        queue: EntrySource | None,
        start: int,
        end: int,
        wanted: NDArray[np.int32] | None,
        *,
        steps_over: bool = False,
    ) -> None:
        self.number = number
        self.gaps: list[tuple[int, int]] = []
        self._steps_over = steps_over
        self.end = end
        self.unread = end if queue is not None else start
        self._queue = queue
        self._wanted = wanted
        self._at = start  # the first offset that was not looked at yet
        self._pending = _NOTHING

    def fill(self, window: int, segment_bytes: int) -> bool:
        """Sees to it that entries wait to be taken; False when there are no more."""
        while not len(self._pending) and self._at < self.unread:
            self._read(min(window, self.unread - self._at), segment_bytes)
        return len(self._pending) > 0

    @property
    def horizon(self) -> int:
        """Up to which physical offset all entries are known, while some wait."""
        return int(self._pending.physical_offsets[-1]) if self._at < self.unread else _NO_MORE

    def take(self, horizon: int) -> Block:
        """The entries that wait for messages up to that physical offset."""
        count = int(np.searchsorted(self._pending.physical_offsets, horizon, side="right"))
        taken = self._pending.rows(0, count)
        self._pending = self._pending.rows(count, len(self._pending))
        return taken

    def _read(self, count: int, segment_bytes: int) -> None:
        assert self._queue is not None
        try:
            entries = self._queue.entries(self._at, self._at + count)
        except (OSError, StoreError):
            self.unread = self._at
            return
        possible = _count_possible(entries, segment_bytes)
        if possible < count and not self._steps_over:
            self.unread = self._at + possible
        elif possible == 0:
            self._step_over(entries, segment_bytes)
            return
        self._pending = self._messages(entries[:possible])
        self._at += possible

    def _step_over(self, entries: Entries, segment_bytes: int) -> None:
        """To the next entry that could be; the first of these could not."""
        could_be = _are_possible(entries, segment_bytes)
        passed = int(could_be.argmax()) or len(entries)
        self._add_gap(self._at, self._at + passed)
        self._at += passed

    def _add_gap(self, start: int, end: int) -> None:
        if self.gaps and self.gaps[-1][1] == start:
            start = self.gaps.pop()[0]
        self.gaps.append((start, end))

    def _messages(self, entries: Entries) -> Block:
        sizes = entries["size"].astype(np.int64)
        chosen = sizes != NO_MESSAGE_SIZE
        if self._wanted is not None:
            chosen &= may_have_tags(entries, self._wanted)
        else:
            for offset in (self._at + np.flatnonzero(~chosen)).tolist():
                self._add_gap(offset, offset + 1)
        queue_offsets = np.arange(self._at, self._at + len(entries))
        physical_offsets = entries["physical_offset"].astype(np.int64)
        block = Block(physical_offsets, sizes, queue_offsets, np.full(len(entries), self.number))
        return block if chosen.all() else Block(*(column[chosen] for column in block))


def in_log_order(lanes: Sequence[Lane], *, window: int, segment_bytes: int) -> Iterator[Block]:
    """The entries of all lanes, some `window` of them at a time. Those of one lane stay in their order."""
    each = max(_FEWEST_IN_WINDOW, window // max(1, len(lanes)))
    live = list(lanes)
    while live := [lane for lane in live if lane.fill(each, segment_bytes)]:
        horizon = min(lane.horizon for lane in live)
        parts = [lane.take(horizon) for lane in live]
        if len(parts) == 1:
            yield parts[0]
            continue
        merged = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
        order = np.argsort(merged[0], kind="stable")  # of runs that are sorted: a merge
        yield Block(*(column[order] for column in merged))


def _count_possible(entries: Entries, segment_bytes: int) -> int:
    """How many entries from the first on could be, none before the one before it."""
    physical_offsets, possible = entries["physical_offset"].astype(np.int64), _are_possible(entries, segment_bytes)
    possible[1:] &= physical_offsets[1:] >= physical_offsets[:-1]
    return len(entries) if possible.all() else int(possible.argmin())


def _are_possible(entries: Entries, segment_bytes: int) -> NDArray[np.bool_]:
    """Which entries could be, each for itself: a record in one file of the log."""
    physical_offsets, sizes = entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64)
    room = np.minimum(segment_bytes - physical_offsets % segment_bytes, MAX_FRAME_BYTES)  # as it was sent in one
    possible: NDArray[np.bool_] = (sizes == NO_MESSAGE_SIZE) | ((sizes >= MIN_RECORD_BYTES) & (sizes <= room))
    possible &= physical_offsets >= 0
    return possible

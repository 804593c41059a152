"""Which messages wait, by the second they are due in. Pure.

A message takes eight bytes, a second that any is due in some hundreds: ten million messages fit into two hundred
megabytes. One that is recalled takes two hundred bytes, however long its key is. RocketMQ keeps the same on disk
(TimerWheel, TimerLog).
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_RECALLED = -1
_UNTIDY = 1_000  # firsts that may be of seconds that are over
_MINUTE_MS = 60_000


class Due(NamedTuple):
    """Messages of one second, by their offsets in the timer queue, in the order they were sent in."""

    due_ms: int
    queue_offsets: Sequence[int]

    def before(self, queue_offset: int) -> Due:
        """Those of them that come before it."""
        return self._replace(queue_offsets=self.queue_offsets[: bisect_left(self.queue_offsets, queue_offset)])


class _Slot:
    """Those that are due in one second; the first `done` of them have been delivered."""

    __slots__ = ("done", "overruled", "queue_offsets")

    def __init__(self) -> None:
        self.queue_offsets = array("q")
        self.done = 0
        self.overruled: dict[bytes, int] = {}  # by the key's digest, the only offset that counts, or none

    @property
    def waiting(self) -> int:
        return len(self.queue_offsets) - self.done

    @property
    def first(self) -> int | None:
        """The lowest offset that waits."""
        return self.queue_offsets[self.done] if self.done < len(self.queue_offsets) else None


class _Minute:
    """The slots of one minute, and how many messages wait in them: so that counting need not look at each."""

    __slots__ = ("slots", "waiting")

    def __init__(self) -> None:
        self.slots: dict[int, _Slot] = {}
        self.waiting = 0


class Timetable:
    """Offsets of the timer queue, by their time."""

    def __init__(self) -> None:
        self._minutes: dict[int, _Minute] = {}
        self._times: list[int] = []  # a heap of the slots' keys
        self._firsts: list[tuple[int, int]] = []  # a heap: an offset that was a slot's first to wait, and its key
        self.size = 0  # messages that wait, and keys of which it is known that they are overruled

    def add(self, due_ms: int, queue_offset: int) -> None:
        """To be called in the order of offsets."""
        slot = self._slot(due_ms)
        if slot.first is None:
            heapq.heappush(self._firsts, (queue_offset, due_ms))
        slot.queue_offsets.append(queue_offset)
        self._minutes[due_ms // _MINUTE_MS].waiting += 1
        self.size += 1

    def overrule(self, due_ms: int, key: str, queue_offset: int | None) -> None:
        """Of all messages of that time and key none is delivered, or only the one at `queue_offset`."""
        overruled, digest = self._slot(due_ms).overruled, _digest(key)
        self.size += digest not in overruled
        overruled[digest] = _RECALLED if queue_offset is None else queue_offset

    def counts(self, due_ms: int, key: str, queue_offset: int) -> bool:
        """Whether the message is to be delivered, by all that is known until now."""
        return self._slot(due_ms).overruled.get(_digest(key), queue_offset) == queue_offset

    def any_overruled(self, due_ms: int) -> bool:
        """Whether any message of that time does not count."""
        return bool(self._slot(due_ms).overruled)

    def next_due(self, before_ms: int, most: int) -> Due | None:
        """The first messages that are due, of one second, without taking them out; None while none is."""
        while self._times and self._times[0] < before_ms:
            slot = self._slot(self._times[0])
            if slot.first is not None:
                return Due(self._times[0], slot.queue_offsets[slot.done : slot.done + most])
            self._drop(heapq.heappop(self._times))
            self.size -= len(slot.overruled)
            self._tidy()
        return None

    def _tidy(self) -> None:
        """Of seconds that are over nothing is kept, however long the first message waits that is left."""
        if len(self._firsts) > 2 * len(self._times) + _UNTIDY:
            waiting = ((self._slot(due_ms).first, due_ms) for due_ms in self._times)
            self._firsts = [(first, due_ms) for first, due_ms in waiting if first is not None]
            heapq.heapify(self._firsts)

    def done(self, due: Due) -> None:
        """These have been delivered, or never will be."""
        self._slot(due.due_ms).done += len(due.queue_offsets)
        self._minutes[due.due_ms // _MINUTE_MS].waiting -= len(due.queue_offsets)
        self.size -= len(due.queue_offsets)

    def count_between(self, from_ms: int, bounds_ms: Sequence[int]) -> list[int]:
        """How many wait that are due from there to each of these times, which rise, and not to the one before. Looks
        at each minute in between, and at the slots of those minutes that some of these times are in."""
        edges = [from_ms, *bounds_ms]
        divided = {edge // _MINUTE_MS for edge in edges}
        counts = [0] * (len(edges) + 1)
        for number in range(from_ms // _MINUTE_MS, edges[-1] // _MINUTE_MS + 1):
            minute = self._minutes.get(number)
            if minute is None:
                continue
            if number not in divided:
                counts[bisect_right(edges, number * _MINUTE_MS)] += minute.waiting
                continue
            for due_ms, slot in minute.slots.items():
                counts[bisect_right(edges, due_ms)] += slot.waiting
        return counts[1:-1]

    def first_offset(self) -> int | None:
        """The lowest offset of all that wait. It only rises, so what has been passed is looked at once."""
        while self._firsts:
            known, due_ms = self._firsts[0]
            minute = self._minutes.get(due_ms // _MINUTE_MS)
            slot = None if minute is None else minute.slots.get(due_ms)
            first = None if slot is None else slot.first
            if first == known:
                return known
            if first is None:
                heapq.heappop(self._firsts)
            else:
                heapq.heapreplace(self._firsts, (first, due_ms))
        return None

    def _slot(self, due_ms: int) -> _Slot:
        """Of that time; it is made where there is none."""
        number = due_ms // _MINUTE_MS
        minute = self._minutes.get(number)
        if minute is None:
            minute = self._minutes[number] = _Minute()
        slot = minute.slots.get(due_ms)
        if slot is None:
            slot = minute.slots[due_ms] = _Slot()
            heapq.heappush(self._times, due_ms)
        return slot

    def _drop(self, due_ms: int) -> None:
        number = due_ms // _MINUTE_MS
        del self._minutes[number].slots[due_ms]
        if not self._minutes[number].slots:
            del self._minutes[number]


def _digest(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()

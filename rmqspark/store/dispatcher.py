"""From the log to what is derived from it: consume queue entries, index entries, and word to those who wait.

A dispatch is what one append leaves to be done. Dispatches are carried out in log order, and none before the log is
safe to read up to its end: at once in ASYNC_FLUSH, when flushed in SYNC_FLUSH. One that fails (a full disk) stays first
in line and is tried again; its queue entries are written before its index entries, both skip what is there, and
readers are told last, so a second try is harmless. Word that could not be given, for want of memory, is given next
time.

What several appends bring is published at once if they are made while the dispatcher is held (`hold`, `release`): then
the appends of others that come meanwhile wait as well, for queues and index follow the log. If only a part of it is
safe when it is released, that waits for the rest.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from rmqspark.store.files import Buffer
from rmqspark.store.queues.consume_queue import ConsumeQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    TagsCodes = Sequence[int] | NDArray[Any]
    Readable = tuple[str, int, int, TagsCodes]  # topic, queue id, new max offset, tags codes of what came
    OnReadable = Callable[[Iterable[Readable]], None]


_readable = methodcaller("readable")


class Queued(Protocol):
    """Entries of one queue or of several, encoded, and their tags codes."""

    def take_offsets(self) -> None:
        """The messages are in the log: their queue offsets are given."""

    def put(self) -> None:
        """Makes the messages readable; those that are already are skipped. Raises OSError; then some may not be."""

    def readable(self) -> Iterator[Readable]:
        """What readers are told, queue by queue."""

    def without(self, topic: str) -> Queued | None:
        """The same but for the messages of one topic."""


class QueuedEntries(msgspec.Struct, frozen=True, gc=False):
    """Consecutive entries of one queue from `queue_offset` on; see `Queued`."""

    queue: ConsumeQueue
    queue_offset: int
    entries: Buffer
    tags_codes: TagsCodes

    def take_offsets(self) -> None:
        self.queue.next_offset = self.queue_offset + len(self.tags_codes)

    def put(self) -> None:
        self.queue.put(self.queue_offset, self.entries)

    def readable(self) -> Iterator[Readable]:
        queue = self.queue
        yield queue.topic, queue.queue_id, queue.max_offset, self.tags_codes

    def without(self, topic: str) -> QueuedEntries | None:
        return None if self.queue.topic == topic else self


class Dispatch(NamedTuple):
    """What is to be done once the log is safe up to `end_offset`. `add_to_index` is None where nothing is indexed."""

    end_offset: int
    store_timestamp_ms: int
    queued: Sequence[Queued]
    add_to_index: Callable[[], None] | None


class _Together(NamedTuple):
    """A part of the log that is published as a whole: offsets (begin, end]."""

    begin: int
    end: int


class Dispatcher:
    """Carries dispatches out, in order. `offset` is the log position up to which all is done; `fault` is why the
    first in line could not be done when it was last tried."""

    def __init__(self) -> None:
        self._waiting: deque[Dispatch] = deque()
        self._untold: deque[Dispatch] = deque()
        self._holders = 0
        self._held_from = 0
        self._together: deque[_Together] = deque()  # not known to be safe to the end
        self._safe_offset = 0
        self.offset = 0
        self.store_timestamp_ms = 0
        self.fault: OSError | None = None
        self.on_readable: OnReadable | None = None
        self.on_safe: Callable[[], object] | None = None
        """Called when there is more of the log that is as safe as its flush mode promises."""

    @property
    def waits_at(self) -> int | None:
        """`offset`, where something waits for more of the log to be safe; None where nothing does, or all is held."""
        return self.offset if self._waiting and not self._holders else None

    def submit(self, dispatch: Dispatch) -> None:
        self._waiting.append(dispatch)

    def hold(self) -> None:
        """Nothing that comes from now on is carried out until as many `release` have followed."""
        if not self._holders:
            self._held_from = self._submitted_to
        self._holders += 1

    def release(self) -> None:
        """Ends one `hold`; the caller advances."""
        self._holders -= 1
        if not self._holders and self._submitted_to > self._held_from:
            self._together.append(_Together(self._held_from, self._submitted_to))

    @property
    def _submitted_to(self) -> int:
        return self._waiting[-1].end_offset if self._waiting else self.offset

    def _whole_below(self, safe_offset: int) -> int:
        """Up to where dispatches may be carried out, if the log is safe up to an offset."""
        while self._together and self._together[0].end <= safe_offset:
            self._together.popleft()
        if self._together:
            return min(safe_offset, self._together[0].begin)
        return min(safe_offset, self._held_from) if self._holders else safe_offset

    def advance(self, safe_offset: int) -> None:
        """Carries out what ends at or below `safe_offset`, as far as the disk lets it (see `fault`), and tells readers.

        Raises what telling them raises."""
        is_safer = safe_offset > self._safe_offset
        self._safe_offset = safe_offset
        end_offset = self._whole_below(safe_offset)
        while self._waiting and self._waiting[0].end_offset <= end_offset:
            dispatch = self._waiting[0]
            try:
                self._carry_out(dispatch)
            except OSError as error:
                self.fault = error
                break
            self.fault = None
            self._untold.append(dispatch)
            self._waiting.popleft()
            self.offset = dispatch.end_offset
            self.store_timestamp_ms = dispatch.store_timestamp_ms
        if is_safer and self.on_safe is not None:
            self.on_safe()
        self.tell()

    def tell(self) -> None:
        """Tells readers what they have not been told yet. Raises what that raises; then they are told again."""
        while self._untold:
            self._announce(self._untold[0])
            self._untold.popleft()

    def rewind(self, offset: int) -> None:
        """The log ends at `offset` now; nothing may be waiting."""
        self.offset = min(self.offset, offset)
        self._safe_offset = min(self._safe_offset, offset)
        self._together.clear()

    def forget(self, topic: str) -> None:
        """Drops what waits for the queues of a topic that is deleted."""
        for line in (self._waiting, self._untold):
            for index, dispatch in enumerate(line):
                queued = [kept for entries in dispatch.queued if (kept := entries.without(topic)) is not None]
                line[index] = dispatch._replace(queued=queued)

    def _carry_out(self, dispatch: Dispatch) -> None:
        for queued in dispatch.queued:
            queued.put()
        if dispatch.add_to_index is not None:
            dispatch.add_to_index()

    def _announce(self, dispatch: Dispatch) -> None:
        if self.on_readable is not None:
            self.on_readable(chain.from_iterable(map(_readable, dispatch.queued)))  # nothing runs unless it is asked

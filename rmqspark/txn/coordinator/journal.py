"""The ledger's topic: events written, brought to the disk, applied again by a start, and restated before they expire.

They share the log with all other messages, and so its recovery: a torn tail is cut at a whole event. Restating all that
is alive, once the log has grown by a file or so, and by no less than restating took the last time, moves the ledger's
start to where that began (`ledger_start.py`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from rmqspark.errors import (
    WRITTEN_LATER,
    DecodeError,
    FlushSlaveTimeout,
    FlushTimeout,
    InvalidMessage,
    RmqError,
    SlaveNotAvailable,
)
from rmqspark.protocol.names import TXN_LEDGER_TOPIC
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.draft import Draft
from rmqspark.txn.coordinator.events import (
    Decided,
    EpochClosed,
    InputReported,
    PeerSeen,
    RunOpened,
    decode_event,
    encode_event,
)
from rmqspark.txn.coordinator.ledger_queue import LEDGER_QUEUE, LedgerQueue, unreadable
from rmqspark.txn.coordinator.ledger_start import LedgerStart
from rmqspark.txn.coordinator.restate_times import Extent, RestateTimes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from rmqspark.clock import Clock
    from rmqspark.store.draft import Appended
    from rmqspark.store.files import FileSystem
    from rmqspark.store.message_store import MessageStore
    from rmqspark.txn.coordinator.events import Event

_RESTATED_AT_ONCE: Final = 256
_PROMISES: Final = (RunOpened, EpochClosed, Decided, PeerSeen)  # what an answer may rest on; see `_is_promise`

log = structlog.get_logger("rmqspark.txn")


class Append(Protocol):
    def __call__(self, drafts: Sequence[Draft], *, again: bool = False, makes_room: bool = False) -> list[Appended]:
        """Stores messages, all or none; `again` whatever is the limit of one by now, with `makes_room` so, and on a
        disk that is full for others, too."""


class _Restated(NamedTuple):
    """All there is, in events from these offsets on, the last of which ends at `end_offset`."""

    queue_offset: int
    physical_offset: int
    extent: Extent
    end_offset: int


class Journal:
    """Writes events and has them applied, in one order; `apply` takes what is in the log.

    `flush_to(end_offset)` returns once the log is on disk up to there, and on slaves where that is promised.
    """

    def __init__(
        self,
        store: MessageStore,
        files: FileSystem,
        clock: Clock,
        *,
        append: Append,
        flush_to: Callable[[int], Awaitable[None]],
        apply: Callable[[Event], None],
        max_decision_bytes: int,
        restate_after_bytes: int,
    ) -> None:
        self.queue: Final = LedgerQueue(store)
        self.start: Final = LedgerStart(store, files)
        self._store = store
        self._clock = clock
        self._append = append
        self._flush_to = flush_to
        self._apply = apply
        self._max_decision_bytes = max_decision_bytes
        self._restate_times = RestateTimes(restate_after_bytes)
        self._promised_end = 0  # physical: where the last event ends that an answer may rest on
        self._kept_end = 0  # up to where `flush_to` has seen to it
        self._late: _Restated | None = None  # what the disk has not taken in time
        self._is_restating = False

    # --- writing -----------------------------------------------------------------------------------------------------

    def record(self, events: Iterable[Event]) -> None:
        """Writes events, all or none, and applies them. Raises InvalidMessage for a decision that is too large: what
        becomes of it is not, for it was measured then. NotWritable."""
        events = list(events)
        if not events:
            return
        drafts = [self._draft(event) for event in events]
        for event, draft in zip(events, drafts, strict=True):
            if isinstance(event, Decided):
                self._check_size(len(draft.record), event.output_bytes)
        self._append(drafts, again=True)
        for event in events:
            self._apply(event)
        if any(_is_promise(event) for event in events):
            self._promised_end = self._store.end_offset

    def _check_size(self, decision_bytes: int, output_bytes: int) -> None:
        """Before anything is readable: when the decision is restated, it and its output ranges are one event."""
        if decision_bytes + output_bytes > self._max_decision_bytes:
            raise InvalidMessage(
                f"A decision of {decision_bytes} bytes about queues whose list takes {output_bytes} is over the limit "
                f"of {self._max_decision_bytes}. Nothing of the batch was written.",
                hint="Write to fewer topics or queues in one batch, from fewer partitions, or raise max_message_size.",
            )

    async def flushed(self) -> None:
        """Returns when everything that was promised so far is on disk, and on slaves where that is promised. Raises
        FlushTimeout, which SlaveNotAvailable is too, and NotWritable."""
        promised_end = self._promised_end
        if self._kept_end < promised_end:
            await self._flush_to(promised_end)
            self._kept_end = max(self._kept_end, promised_end)

    def _draft(self, event: Event) -> Draft:
        body = encode_event(event)
        return Draft(
            TXN_LEDGER_TOPIC,
            LEDGER_QUEUE,
            encode_record(topic=TXN_LEDGER_TOPIC, body=body, born_timestamp_ms=self._clock.now_ms()),
        )

    def replay(self) -> None:
        """Applies all events there are, before the first is written. Raises DamagedFile for one nobody can read."""
        start = self.start
        start.find(*self.queue.bounds())
        self._promised_end = self._store.end_offset  # of the last run, slaves may lack some
        for queue_offset, physical_offset, body in self.queue.scan(start.queue_offset):
            start.physical_offset = min(start.physical_offset, physical_offset)
            try:
                self._apply(decode_event(body))
            except DecodeError as error:
                raise unreadable(queue_offset, error, WRITTEN_LATER) from error

    # --- restating ---------------------------------------------------------------------------------------------------

    async def restate(self, alive: Callable[[], Iterable[Callable[[], Sequence[Event]]]]) -> None:
        """Moves the start, if it is time. `alive` names all there is, at least one; each is asked when its turn comes.

        A disk that is full for others has room for this, which lets files go. Where it is refused all the same, it is
        logged, and the start stays where it is until it is tried again: later and later, for each try may write up to
        all there is.
        """
        times, start = self._restate_times, self.start
        if self._is_restating or times.is_resting(self._clock.monotonic_ms(), self._store.end_offset):
            return
        if self._late is None and not times.is_due(self._extent_from(start.queue_offset, start.physical_offset)):
            return
        self._is_restating = True
        began_at = self._store.end_offset
        try:
            await (self._begin_at(self._late) if self._late else self._restate(list(alive())))
            times.succeeded()
        except (OSError, RmqError, MemoryError) as error:
            end = self._store.end_offset
            if times.failed(self._clock.monotonic_ms(), end, wrote_bytes=end - began_at):
                log.warning("the ledger cannot be restated yet, trying on", reason=str(error))
        finally:
            self._is_restating = False

    def _extent_from(self, queue_offset: int, physical_offset: int) -> Extent:
        return Extent(self._store.end_offset - physical_offset, self.queue.bounds()[1] - queue_offset)

    async def _restate(self, alive: list[Callable[[], Sequence[Event]]]) -> None:
        first: Appended | None = None
        for begin in range(0, len(alive), _RESTATED_AT_ONCE):
            for ask in alive[begin : begin + _RESTATED_AT_ONCE]:
                for event in ask():
                    (appended,) = self._append([self._draft(event)], makes_room=True)
                    first = first or appended
            await asyncio.sleep(0)
        if first is None:
            return
        extent = self._extent_from(first.queue_offset, first.physical_offset)
        restated = _Restated(first.queue_offset, first.physical_offset, extent, self._store.end_offset)
        await self._begin_at(restated)

    async def _begin_at(self, restated: _Restated) -> None:
        """Moves the start, once the disk has what was restated; restated again it would be as late again. A slave that
        is away has what was said before, and goes on from there: for it the log would be pinned for as long."""
        self._late = None
        try:
            with suppress(SlaveNotAvailable, FlushSlaveTimeout):  # told once the disk has it
                await self._flush_to(restated.end_offset)
        except FlushTimeout:
            self._late = restated
            return
        await self.start.move(restated.queue_offset, restated.physical_offset)
        self._restate_times.took(restated.extent)


def _is_promise(event: Event) -> bool:
    """Whether something may rest on the event: also on what was read under leases, which a decision goes by."""
    is_leased = isinstance(event, InputReported) and any(each.lease for each in event.inputs)
    return is_leased or isinstance(event, _PROMISES)

"""The ledger's topic: events written, brought to the disk, read again at the start, and restated before they expire.

Events are the bodies of ordinary messages in queue 0 of RMQ_SYS_TXN_LEDGER_TOPIC. They share the log with all other
messages, and so its recovery: a torn tail is cut at a whole event.

Everything needed lies from one place of that queue on, the *start*. Restating all that is alive, once the log has
grown by a file or so, and by no less than restating took the last time, moves the start to where that began; what lies
before it may expire then, and nothing behind it does, however long a transactional id is idle (`needed_offset`). The
start is noted in config/txnLedger.json. An older one would do as well, it only takes longer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec
import structlog

from rmqspark.errors import (
    WRITTEN_LATER,
    DamagedFile,
    DecodeError,
    FlushTimeout,
    InvalidMessage,
    OffsetMoved,
    RecordError,
    RmqError,
)
from rmqspark.protocol.names import TXN_LEDGER_TOPIC
from rmqspark.protocol.records.record import decode_record, encode_record
from rmqspark.store.draft import Draft
from rmqspark.store.json_table import JsonTable
from rmqspark.threads import in_thread
from rmqspark.txn.coordinator.events import (
    Decided,
    EpochClosed,
    InputReported,
    PeerSeen,
    RunOpened,
    decode_event,
    encode_event,
)
from rmqspark.txn.coordinator.restate_times import Extent, RestateTimes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from rmqspark.clock import Clock
    from rmqspark.protocol.records.record import Record
    from rmqspark.store.draft import Appended
    from rmqspark.store.files import FileSystem
    from rmqspark.store.message_store import MessageStore
    from rmqspark.store.reading.reader import BulkReadResult
    from rmqspark.txn.coordinator.events import Event

_QUEUE: Final = 0
_READ_BYTES: Final = 1 << 20
_READ_COUNT: Final = 4_096
_RESTATED_AT_ONCE: Final = 256
_PROMISES: Final = (RunOpened, EpochClosed, Decided, PeerSeen)  # what an answer may rest on; see `_is_promise`

log = structlog.get_logger("rmqspark.txn")


class _Start(msgspec.Struct):
    """`incarnation` is the store's when this was noted: where the log was cut since, as a slave's is, other events may
    be there."""

    queueOffset: int
    incarnation: int = -1


class Append(Protocol):
    def __call__(self, drafts: Sequence[Draft], *, makes_room: bool = False) -> list[Appended]:
        """Stores messages, all or none; with `makes_room` on a disk that is full for others, too."""


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
        self._store = store
        self._clock = clock
        self._append = append
        self._flush_to = flush_to
        self._apply = apply
        self._max_decision_bytes = max_decision_bytes
        self._restate_times = RestateTimes(restate_after_bytes)
        self._start_file = JsonTable(files, "config/txnLedger.json")
        self._start = 0  # queue offset
        self._start_physical = 0
        self._promised_end = 0  # physical: where the last event ends that an answer may rest on
        self._kept_end = 0  # up to where `flush_to` has seen to it
        self._late: _Restated | None = None  # what the disk has not taken in time
        self._is_restating = False

    # --- writing -----------------------------------------------------------------------------------------------------

    def record(self, events: Iterable[Event]) -> None:
        """Writes events, all or none, and applies them. Raises InvalidMessage for one too large, NotWritable."""
        events = list(events)
        if not events:
            return
        drafts = [self._draft(event) for event in events]
        for event, draft in zip(events, drafts, strict=True):
            if isinstance(event, Decided):
                self._check_size(len(draft.record), event.output_bytes)
        self._append(drafts)
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
            _QUEUE,
            encode_record(topic=TXN_LEDGER_TOPIC, body=body, born_timestamp_ms=self._clock.now_ms()),
        )

    # --- reading -----------------------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Applies all events there are, before the first is written. Raises DamagedFile for one nobody can read."""
        self._start = self._find_start()
        self._start_physical = self._promised_end = self._store.end_offset  # of the last run, slaves may lack some
        for queue_offset, physical_offset, body in self.scan(self._start):
            self._start_physical = min(self._start_physical, physical_offset)
            try:
                self._apply(decode_event(body))
            except DecodeError as error:
                raise _unreadable(queue_offset, error, WRITTEN_LATER) from error

    def _find_start(self) -> int:
        """As noted in this log, else all there is."""
        low, high = self._bounds()
        noted = self._noted_start()
        first = noted.queueOffset if noted else 0
        if low > first:  # another broker has had the store, or this is the copy of a master's that has not all of it
            log.error(
                "the ledger may lack its beginning: a batch decided there that is run again is written again",
                first=first,
                next=low,
            )
        is_ours = noted is not None and noted.incarnation == self._store.incarnation
        return noted.queueOffset if noted and is_ours and low <= noted.queueOffset <= high else low

    def _noted_start(self) -> _Start | None:
        """None where nothing is noted, or nothing that can be read: then all there is has to be."""
        try:
            return self._start_file.load(lambda text: msgspec.json.decode(text, type=_Start))
        except DamagedFile as error:
            log.warning("where the ledger begins cannot be read, all of it is", reason=str(error))
            return None

    def scan(self, queue_offset: int) -> Iterator[tuple[int, int, bytes]]:
        """Queue offset, physical offset and body of each event there is from `queue_offset` on.

        Raises DamagedFile for one that is not as it was written: it might say that something else was decided.
        """
        expected = queue_offset = max(queue_offset, self._bounds()[0])
        while queue_offset < self._bounds()[1]:
            try:
                read = self._read(queue_offset)
            except OffsetMoved as moved:
                queue_offset = moved.next_offset
                continue
            for event in _records(read, expected):
                expected = event.queue_offset + 1
                yield event.queue_offset, event.physical_offset, event.body
            if read.next_offset <= queue_offset:
                return
            queue_offset = read.next_offset

    def _read(self, queue_offset: int) -> BulkReadResult:
        end = self._bounds()[1]
        return self._store.read_bulk(
            TXN_LEDGER_TOPIC, _QUEUE, queue_offset, end, max_count=_READ_COUNT, max_bytes=_READ_BYTES
        )

    def _bounds(self) -> tuple[int, int]:
        return self._store.queues.bounds(TXN_LEDGER_TOPIC, _QUEUE)

    # --- restating ---------------------------------------------------------------------------------------------------

    @property
    def needed_offset(self) -> int:
        """Physical offset from which on the log must be kept."""
        return min(self._start_physical, self._store.end_offset)

    async def restate(self, alive: Callable[[], Iterable[Callable[[], Sequence[Event]]]]) -> None:
        """Moves the start, if it is time. `alive` names all there is, at least one; each is asked when its turn comes.

        A disk that is full for others has room for this, which lets files go. Where it is refused all the same, it is
        logged, and the start stays where it is until it is tried again: later and later, for each try may write up to
        all there is.
        """
        times = self._restate_times
        if self._is_restating or times.is_resting(self._clock.monotonic_ms(), self._store.end_offset):
            return
        if self._late is None and not times.is_due(self._extent_from(self._start, self._start_physical)):
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
        return Extent(self._store.end_offset - physical_offset, self._bounds()[1] - queue_offset)

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
        """Moves the start, once the disk has what was restated; restated again it would be as late again."""
        self._late = None
        try:
            await self._flush_to(restated.end_offset)
        except FlushTimeout:
            self._late = restated
            return
        text = msgspec.json.encode(_Start(restated.queue_offset, self._store.incarnation)).decode()
        await in_thread(self._start_file.save, text)
        self._start, self._start_physical = restated.queue_offset, restated.physical_offset
        self._restate_times.took(restated.extent)


def _is_promise(event: Event) -> bool:
    """Whether something may rest on the event: also on what was read under leases, which a decision goes by."""
    is_leased = isinstance(event, InputReported) and any(each.lease for each in event.inputs)
    return is_leased or isinstance(event, _PROMISES)


def _records(read: BulkReadResult, expected: int) -> Iterator[Record]:
    """The messages that were read, of which the first should be `expected`. Raises DamagedFile."""
    at = 0
    for size in read.sizes.tolist():
        try:
            record = decode_record(read.body, at)
        except RecordError as error:
            raise _unreadable(expected, error, "Is the disk failing? rmq store check lists damage.") from error
        if record.queue_offset != expected:
            log.error("the ledger lacks events", first=expected, next=record.queue_offset)
        expected = record.queue_offset + 1
        yield record
        at += size


def _unreadable(queue_offset: int, error: DecodeError, hint: str) -> DamagedFile:
    return DamagedFile(f"Event {queue_offset} of {TXN_LEDGER_TOPIC} cannot be read: {error}", hint=hint)

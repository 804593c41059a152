"""A half batch is shown whole or not at all, also where a log ends within its messages.

They are appended one behind the other, and nothing that anybody reads comes between, over a crash either
(`Completer.restore`). So it is the end of a log that may lack some of them: that of a slave, which gets it in pieces,
or of a broker that was killed. What is there of them is kept back until the rest comes. Where something else follows
there is no rest.

Each message names its half batch (RocketMQ's preparedTransactionOffset), and that says how many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.errors import DamagedFile, MessageNotFound, RecordError
from rmqspark.protocol.names import HALF_BATCH_TOPIC
from rmqspark.protocol.records.properties import HalfBatchProperty, Property
from rmqspark.protocol.records.record import SYS_FLAG_AT, SysFlag, decode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.recovery.scan import Damage, Records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.store.log.commit_log import CommitLog

_NOBODY_KNOWS: Final = 1 << 62
_NOT_OF_HALVES: Final = (Property.PRODUCER_GROUP.encode(), Property.REAL_TOPIC.encode())
_LOW_SYS_FLAG_AT: Final = SYS_FLAG_AT + 3
_MOST_HALF_BYTES: Final = 32 << 20
_MOST_KEPT_BYTES: Final = 256 << 20  # more than the largest half batch becomes: a count that is wrong fills no memory


class Kept(NamedTuple):
    """Messages of a half batch at the end of a log, of which others are missing."""

    half_offset: int  # physical, of the half batch
    missing: int
    records: tuple[Records, ...]
    size_bytes: int

    def with_more(self, rows: int, records: Records) -> Kept:
        """With these, so many of which are messages of the half batch, and none is another."""
        more = _tail(records, 0)
        return Kept(
            self.half_offset,
            self.missing - rows,
            (*self.records, more),
            self.size_bytes + len(more.batch.buffer),
        )

    @property
    def begin(self) -> int:
        """Physical offset of the first."""
        return self.records[0].physical_offset

    @property
    def store_timestamp_ms(self) -> int:
        """When the last one was stored."""
        return int(self.records[-1].batch.store_timestamps_ms[-1])


class _AtEnd(NamedTuple):
    """The half batch that the last message of some records is of: its messages from row `first` on, with only vouchers
    between them."""

    half_offset: int
    first: int
    rows: int
    is_all: bool  # nothing else is there


class WholeHalves:
    """Goes along with a log, from its records to those that may be shown. `kept` are those that may not, yet."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self.kept: Kept | None = None

    def take(self, found: Records | Damage) -> Sequence[Records | Damage]:
        """What may be shown with what comes next in the log."""
        if isinstance(found, Damage):
            shown: tuple[Records | Damage, ...] = (*self.let_go(), found)
        else:
            shown, self.kept = self.after(found)
        return shown

    def after(self, records: Records) -> tuple[tuple[Records, ...], Kept | None]:
        """The same, and what is to be kept then: for who may not get them into the log."""
        end, kept = _at_end(records.batch), self.kept
        shown: tuple[Records, ...]
        if end is None:
            is_vouchers = kept is not None and _are_vouchers(records.batch)
            return ((), kept) if is_vouchers else ((*self.waiting, records), None)
        if kept is not None and end.is_all and end.half_offset == kept.half_offset:
            shown, kept = (), kept.with_more(end.rows, records)
        else:
            shown = (*self.waiting, *_head(records, end.first))
            missing, begun = self._rows_of(end.half_offset, records) - end.rows, _tail(records, end.first)
            kept = Kept(end.half_offset, missing, (begun,), len(begun.batch.buffer))
        if kept.missing <= 0 or kept.size_bytes > _MOST_KEPT_BYTES:
            return (*self.waiting, records), None
        return shown, kept

    def let_go(self) -> tuple[Records, ...]:
        """Those that were kept."""
        waiting, self.kept = self.waiting, None
        return waiting

    @property
    def waiting(self) -> tuple[Records, ...]:
        """Those that are kept."""
        return self.kept.records if self.kept is not None else ()

    def _rows_of(self, half_offset: int, records: Records) -> int:
        """How many messages the half batch has that the last of these records names; 0 where it names none. Where it is
        not in the log any more, or never was, as with a slave that began later, nobody can tell: until something else
        follows."""
        if half_offset < (self._log.min_offset if self._log.segments else records.physical_offset):
            return 0 if _is_no_half(records.batch) else _NOBODY_KNOWS
        try:
            half = decode_record(
                _record_among(records, half_offset) or self._log.read_record(half_offset, _MOST_HALF_BYTES),
                check_crc=False,
            )
            return int(half.property_map()[HalfBatchProperty.COUNT]) if half.topic == HALF_BATCH_TOPIC else 0
        except (MessageNotFound, DamagedFile, RecordError, KeyError, ValueError):
            return 0


def _record_among(records: Records, physical_offset: int) -> bytes:
    """The record that begins there, if it is one of these."""
    batch, position = records.batch, physical_offset - records.physical_offset
    row = int(batch.positions.searchsorted(position))
    if row == len(batch) or batch.positions[row] != position:
        return b""
    return batch.buffer[position : position + int(batch.sizes[row])].tobytes()


def _is_no_half(batch: RecordBatch) -> bool:
    """Whether the last message of a batch says that it is of an ordinary transaction, or the delivery of a delayed one,
    which names the record that waited; or waits itself, in a queue that nobody reads."""
    last = RecordBatch(batch.buffer, batch.positions[-1:], batch.sizes[-1:])
    return last.has_any_property(_NOT_OF_HALVES)


def _at_end(batch: RecordBatch) -> _AtEnd | None:
    if not int(batch.buffer[batch.positions[-1] + _LOW_SYS_FLAG_AT]) & SysFlag.COMMITTED:  # as nearly always
        return None
    kinds = batch.sys_flags & SysFlag.TRANSACTION_MASK
    messages = np.flatnonzero(kinds != SysFlag.ROLLED_BACK)
    if not len(messages) or kinds[messages[-1]] != SysFlag.COMMITTED:
        return None
    halves = batch.prepared_transaction_offsets
    half = halves[messages[-1]]
    others = np.flatnonzero((kinds[messages] != SysFlag.COMMITTED) | (halves[messages] != half))
    own = messages[others[-1] + 1 :] if len(others) else messages
    return _AtEnd(int(half), int(own[0]), len(own), not len(others))


def _are_vouchers(batch: RecordBatch) -> bool:
    """Whether nobody reads any of these records."""
    return bool(((batch.sys_flags & SysFlag.TRANSACTION_MASK) == SysFlag.ROLLED_BACK).all())


def _head(records: Records, row: int) -> tuple[Records, ...]:
    """Those before a row, if any."""
    batch = records.batch
    if not row:
        return ()
    return (Records(records.physical_offset, RecordBatch(batch.buffer, batch.positions[:row], batch.sizes[:row])),)


def _tail(records: Records, row: int) -> Records:
    """Those from a row on, in memory of their own."""
    begin, batch = int(records.batch.positions[row]), records.batch
    data = batch.buffer[begin : begin + int(batch.sizes[row:].sum())].tobytes()
    return Records(records.physical_offset + begin, RecordBatch.from_sizes(data, batch.sizes[row:]))

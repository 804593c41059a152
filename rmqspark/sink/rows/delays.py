"""Columns delayLevel and deliverTime: which rows are to wait, where they wait, and what they say there.

They say when brokers are to let consumers have a message: a level from 1 to 18 of the brokers' table, or a time. 0,
null and what is past are at once. Rows that wait are sent to the queue of their broker where such messages wait
(spec: semantics, sections 5 and 6; docs/wire-format.md, RMQ_BULK_SEND), so a send stays rows of one queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.milliseconds import CLOCKS_DIFFER_MS, MICROSECONDS_FROM, SECONDS
from rmqspark.protocol.names import MAX_DELAY_LEVEL, SCHEDULE_TOPIC, TIMER_TOPIC
from rmqspark.protocol.records.properties import Property
from rmqspark.sink.rows.unsendable import unsendable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DELAY_COLUMNS = frozenset({"delayLevel", "deliverTime"})

_PRECISION_MS = 1000
_LOOKS_LIKE = "column 'deliverTime' looks like {} since 1970, and is in milliseconds"
_BY_TIME = MAX_DELAY_LEVEL  # a slot behind those of the levels
SLOTS = _BY_TIME + 1
"""Queues of a broker that rows may wait in."""


class Waiting(NamedTuple):
    """The rows of a batch that are to wait: until when, by level or by time in ms; 0 where the other counts."""

    batch: Any
    levels: NDArray[np.int64]
    times_ms: NDArray[np.int64]


def check_delays(batch: Any, first_row: int) -> None:
    """Raises InvalidMessage for a row that no broker could hold back; `first_row` is that of the first."""
    level, time = _numbers(batch, "delayLevel"), _numbers(batch, "deliverTime")
    if level is not None:
        _refuse((level < 0) | (level > MAX_DELAY_LEVEL), first_row, "column 'delayLevel' is not from 0 to 18")
    if time is not None:
        _refuse(time < 0, first_row, "column 'deliverTime' is before 1970")
    if time is not None and not pa.types.is_timestamp(batch.column("deliverTime").type):
        _refuse((time >= SECONDS.start) & (time < SECONDS.stop), first_row, _LOOKS_LIKE.format("seconds"))
        _refuse(time >= MICROSECONDS_FROM, first_row, _LOOKS_LIKE.format("micro- or nanoseconds"))
    if level is not None and time is not None:
        _refuse((level > 0) & (time > 0), first_row, "it has a delayLevel and a deliverTime, which exclude each other")


class Longest(NamedTuple):
    """What rows may ask for at most, a level or so many seconds; 0 where brokers do not say."""

    level: int = 0
    delay_sec: int = 0

    def check(self, batch: Any, first_row: int, now_ms: int) -> None:
        """Raises InvalidMessage for a row that its broker would refuse, with all that are sent together, whatever time
        it is by the broker's clock."""
        level, time = _numbers(batch, "delayLevel"), _numbers(batch, "deliverTime")
        if level is not None and self.level:
            hint = f"This broker has {self.level} delay levels, not {level.max(initial=0)}."
            _refuse(level > self.level, first_row, "column 'delayLevel' is too large", hint)
        if time is not None and self.delay_sec:
            hint = f"A message waits {self.delay_sec} seconds at most. See timer_max_delay_sec."
            until_ms = now_ms + CLOCKS_DIFFER_MS + self.delay_sec * 1000 + _PRECISION_MS
            _refuse(time > until_ms, first_row, "column 'deliverTime' is too far ahead", hint)


def parted(batch: Any, now_ms: int) -> tuple[Any, Waiting | None]:
    """The rows that go at once, without these columns; and those that are to wait, if there are any.

    Whether a time is past is for the broker's clock to say, and what it was is delivered at once there, too: only what
    is past by any clock does not go the longer way.
    """
    if DELAY_COLUMNS.isdisjoint(batch.schema.names):
        return batch, None
    none = np.zeros(batch.num_rows, np.int64)
    levels, times_ms = (
        none if (given := _numbers(batch, name)) is None else given for name in ("delayLevel", "deliverTime")
    )
    rest = batch.select([name for name in batch.schema.names if name not in DELAY_COLUMNS])
    waits = (levels > 0) | (times_ms > max(now_ms - CLOCKS_DIFFER_MS, 0))
    if not waits.any():
        return rest, None
    waiting = Waiting(rest.filter(pa.array(waits)), levels[waits], times_ms[waits])
    return rest.filter(pa.array(~waits)), waiting


def slots(waiting: Waiting) -> NDArray[np.int64]:
    """By row, the number of the queue of its broker that it waits in."""
    return np.where(waiting.levels > 0, waiting.levels - 1, _BY_TIME)


def parking_queue(broker_name: str, slot: int) -> MessageQueue:
    """The queue with that number."""
    if slot == _BY_TIME:
        return MessageQueue(TIMER_TOPIC, broker_name, 0)
    return MessageQueue(SCHEDULE_TOPIC, broker_name, slot)


def parking_texts(waiting: Waiting, belongs_to: Sequence[MessageQueue], targets: NDArray[np.int64]) -> dict[str, Any]:
    """What rows say while they wait, by property: `string` arrays, null where one does not count. Row *n* belongs to
    queue number `targets[n]` of `belongs_to`, all of one topic."""
    levels, times_ms = waiting.levels, waiting.times_ms
    due_ms = (times_ms - 1) // _PRECISION_MS * _PRECISION_MS
    queue_ids = np.array([queue.queue_id for queue in belongs_to])[targets]
    by_level = levels > 0
    return {
        Property.DELAY: _texts(levels, ~by_level),
        Property.TIMER_DELIVER_MS: _texts(times_ms, by_level),
        Property.TIMER_OUT_MS: _texts(due_ms, by_level),
        Property.REAL_TOPIC: pa.array([belongs_to[0].topic] * len(levels), pa.string()),
        Property.REAL_QUEUE_ID: _texts(queue_ids, None),
    }


def _texts(numbers: NDArray[np.int64], absent: NDArray[np.bool_] | None) -> Any:
    return pa.array(numbers, mask=absent).cast(pa.string())


def _numbers(batch: Any, name: str) -> NDArray[np.int64] | None:
    """The level, or the time in ms since 1970; 0 for null. None if there is no such column."""
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    numbers: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _refuse(wrong: NDArray[np.bool_], first_row: int, story: str, hint: str = "") -> None:
    if wrong.any():
        raise unsendable(first_row + int(wrong.argmax()), story, hint)

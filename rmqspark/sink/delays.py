"""Columns delayLevel and deliverTime as RocketMQ's properties DELAY and TIMER_DELIVER_MS (spec: semantics, section 5).

They say when brokers are to let consumers have a message: a level from 1 to 18 of the brokers' table, or a time. 0 and
null are at once. Brokers that do not hold messages back refuse them; none may take them for ordinary ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rmqspark.protocol.records.properties import Property
from rmqspark.sink.unsendable import unsendable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_DELAY_LEVEL = 18
DELAY_COLUMNS = frozenset({"delayLevel", "deliverTime"})
DELAY_PROPERTIES = tuple(name.encode() for name in (Property.DELAY, Property.TIMER_DELIVER_MS))


def check_delays(batch: Any, first_row: int) -> None:
    """Raises InvalidMessage for a row that no broker could hold back; `first_row` is that of the first."""
    level, time = (_numbers(batch, name) for name in ("delayLevel", "deliverTime"))
    if level is not None:
        _refuse((level < 0) | (level > MAX_DELAY_LEVEL), first_row, "column 'delayLevel' is not from 0 to 18")
    if time is not None:
        _refuse(time < 0, first_row, "column 'deliverTime' is before 1970")
    if level is not None and time is not None:
        _refuse((level > 0) & (time > 0), first_row, "it has a delayLevel and a deliverTime, which exclude each other")


def delay_texts(batch: Any) -> dict[str, Any]:
    """The properties by name, each a `string` array: null where there is nothing to wait for."""
    texts = {}
    for name, prop in (("delayLevel", Property.DELAY), ("deliverTime", Property.TIMER_DELIVER_MS)):
        if (numbers := _numbers(batch, name)) is not None:
            texts[prop] = pa.array(numbers, mask=numbers == 0).cast(pa.string())
    return texts


def _numbers(batch: Any, name: str) -> NDArray[np.int64] | None:
    """The level, or the time in ms since 1970; 0 for null. None if there is no such column."""
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    numbers: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _refuse(wrong: NDArray[np.bool_], first_row: int, story: str) -> None:
    if wrong.any():
        raise unsendable(first_row + int(wrong.argmax()), story)

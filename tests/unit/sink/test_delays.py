"""Rows that are to wait: which they are, where they wait and what they say there, and rows that cannot."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rmqspark.broker.delays.deliver_times import park_until
from rmqspark.broker.delays.parking import Place, park
from rmqspark.errors import InvalidMessage
from rmqspark.model import MessageQueue
from rmqspark.protocol.milliseconds import CLOCKS_DIFFER_MS
from rmqspark.protocol.records.properties import decode_properties
from rmqspark.sink.rows.delays import SLOTS, Longest, check_delays, parking_queue, parking_texts, parted, slots

NOON = datetime(2024, 1, 2, 12, 0, 0, 123_999, UTC)
NOON_MS = 1704196800123
NOW_MS = NOON_MS - 1 + CLOCKS_DIFFER_MS
QUEUES = [MessageQueue("orders", "broker-a", 3), MessageQueue("orders", "broker-b", 0)]


def batch(**columns: Any) -> Any:
    rows = len(next(iter(columns.values())))
    return pa.record_batch({"body": pa.array([b"%d" % row for row in range(rows)])} | columns)


def at_noon(zone: str) -> Any:
    return pa.array([NOON, None], pa.timestamp("us", zone))


@pytest.mark.parametrize(
    ("name", "values", "at_once", "until"),
    [
        ("delayLevel", pa.array([1, 18, 0, None], pa.int32()), [b"2", b"3"], [(1, 0), (18, 0)]),
        ("delayLevel", pa.array([3], pa.int16()), [], [(3, 0)]),
        ("deliverTime", at_noon("UTC"), [b"1"], [(0, NOON_MS)]),
        ("deliverTime", at_noon("Europe/Berlin"), [b"1"], [(0, NOON_MS)]),
        ("deliverTime", pa.array([NOON_MS - 1, NOON_MS, 0]), [b"0", b"2"], [(0, NOON_MS)]),
    ],
)
def test_some_rows_wait_and_the_others_go_at_once(name: str, values: Any, at_once: list[bytes], until: Any) -> None:
    """By level or by time that is not past by any clock; none of them has the column any more."""
    rest, waiting = parted(batch(**{name: values}), NOW_MS)
    assert rest.schema.names == waiting.batch.schema.names == ["body"]
    assert rest.column("body").to_pylist() == at_once
    assert list(zip(waiting.levels.tolist(), waiting.times_ms.tolist(), strict=True)) == until


def test_rows_without_delays_are_left_as_they_are() -> None:
    """Where no row is to wait, none is copied."""
    given = batch(tags=pa.array(["t", "u"]))
    assert parted(given, NOW_MS) == (given, None)
    rest, waiting = parted(batch(delayLevel=pa.array([0, None])), NOW_MS)
    assert (rest.num_rows, waiting) == (2, None)


def test_what_waits_says_what_a_broker_would_have_it_say() -> None:
    """To the letter, and in the queue that a broker would put it into."""
    times = pa.array([0, NOON_MS, NOON_MS + 877])
    _, waiting = parted(batch(delayLevel=pa.array([3, 0, 0]), deliverTime=times), NOW_MS)
    targets = np.array([0, 1, 0])
    texts = {name: each.to_pylist() for name, each in parking_texts(waiting, QUEUES, targets).items()}
    assert max(slots(waiting)) < SLOTS
    for row, (level, time_ms) in enumerate([(3, 0), (0, NOON_MS), (0, NOON_MS + 877)]):
        queue = QUEUES[targets[row]]
        place = Place("orders", queue.queue_id)
        sent = b"" if level else b"TIMER_DELIVER_MS\x01%d\x02" % time_ms
        parked = park(place, sent, level, 18) if level else park_until(place, sent, time_ms)
        said = {name: values[row] for name, values in texts.items() if values[row]}
        assert said == decode_properties(parked.properties)
        wanted = MessageQueue(parked.topic, queue.broker_name, parked.queue_id)
        assert parking_queue(queue.broker_name, int(slots(waiting)[row])) == wanted


def test_what_is_past_is_no_mistake() -> None:
    """A timestamp of 1970 is one, a small number too; only a number as time.time() gives it is taken for seconds."""
    past = pa.array([1_800_000_000_000], pa.timestamp("us", "UTC"))  # in ms what seconds look like
    check_delays(pa.record_batch({"deliverTime": past}), 0)
    check_delays(pa.record_batch({"deliverTime": pa.array([1_000, 1_800_000_000_000])}), 0)


@pytest.mark.parametrize(
    ("columns", "story"),
    [
        ({"delayLevel": pa.array([1, 19])}, "Row 8 .* 'delayLevel' is not from 0 to 18"),
        ({"delayLevel": pa.array([-1, 1])}, "Row 7 .* 'delayLevel' is not from 0 to 18"),
        ({"deliverTime": pa.array([1, -1])}, "Row 8 .* 'deliverTime' is before 1970"),
        ({"deliverTime": pa.array([None, 1_800_000_000])}, "Row 8 .* 'deliverTime' looks like seconds since 1970"),
        ({"deliverTime": pa.array([1_800_000_000_000_000, 0])}, "Row 7 .* looks like micro- or nanoseconds since 1970"),
        ({"deliverTime": pa.array([None, (1 << 63) - 1])}, "Row 8 .* looks like micro- or nanoseconds since 1970"),
        ({"delayLevel": pa.array([0, 3]), "deliverTime": pa.array([9, 9])}, "Row 8 .* exclude each other"),
    ],
)
def test_rows_that_cannot_wait(columns: dict[str, Any], story: str) -> None:
    """The error names the row and what is wrong with it."""
    with pytest.raises(InvalidMessage, match=story):
        check_delays(batch(**columns), 7)


def test_a_row_that_waits_too_long_by_an_executors_clock_alone_is_for_its_broker_to_refuse() -> None:
    """Whose clock may be ahead. One that waits too long by any clock is named here, before anything is sent."""
    longest, held_ms = Longest(delay_sec=60), NOW_MS + 60_000
    longest.check(batch(deliverTime=pa.array([held_ms + CLOCKS_DIFFER_MS])), 0, NOW_MS)
    with pytest.raises(InvalidMessage, match="^Row 7 .*'deliverTime' is too far ahead"):
        longest.check(batch(deliverTime=pa.array([held_ms, held_ms + 2 * CLOCKS_DIFFER_MS])), 6, NOW_MS)

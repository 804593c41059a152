"""Rows that are to wait: the properties they go out with, and rows that cannot be."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from rmqspark.errors import InvalidMessage
from rmqspark.model import MessageQueue
from rmqspark.protocol.records.record import decode_record
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.sink.delays import check_delays
from rmqspark.sink.rows import Rows

NOON = datetime(2024, 1, 2, 12, 0, 0, 123_999, UTC)
NOON_MS = "1704196800123"


def batch(**columns: Any) -> Any:
    rows = len(next(iter(columns.values())))
    return pa.record_batch({"body": pa.array([b"x"] * rows)} | columns)


@pytest.mark.parametrize(
    ("name", "values", "prop", "texts"),
    [
        ("delayLevel", pa.array([1, 18, 0, None], pa.int32()), "DELAY", ["1", "18", None, None]),
        ("delayLevel", pa.array([3], pa.int16()), "DELAY", ["3"]),
        ("deliverTime", pa.array([NOON, None], pa.timestamp("us", "UTC")), "TIMER_DELIVER_MS", [NOON_MS, None]),
        ("deliverTime", pa.array([NOON], pa.timestamp("us", "Europe/Berlin")), "TIMER_DELIVER_MS", [NOON_MS]),
        ("deliverTime", pa.array([int(NOON_MS)]), "TIMER_DELIVER_MS", [NOON_MS]),
    ],
)
def test_delays_go_out_as_properties(name: str, values: Any, prop: str, texts: list[str | None]) -> None:
    """A level and a time are RocketMQ's own properties; rows that are not to wait have none."""
    given = batch(**{name: values})
    check_delays(given, 0)
    rows = Rows(given, "t", IdRange("0" * 20, 0), "none")
    encoded = rows.bulk(MessageQueue("t", "b", 0), 0, len(texts), born_timestamp_ms=1, born_host=bytes(8), out=None)
    at, found = 0, []
    for size in encoded.sizes.tolist():  # type: ignore[union-attr]
        found.append(decode_record(encoded.buffer.tobytes(), at).property_map().get(prop))  # type: ignore[union-attr]
        at += size
    assert found == texts


@pytest.mark.parametrize(
    ("columns", "story"),
    [
        ({"delayLevel": pa.array([1, 19])}, "Row 8 .* 'delayLevel' is not from 0 to 18"),
        ({"delayLevel": pa.array([-1, 1])}, "Row 7 .* 'delayLevel' is not from 0 to 18"),
        ({"deliverTime": pa.array([1, -1])}, "Row 8 .* 'deliverTime' is before 1970"),
        ({"delayLevel": pa.array([0, 3]), "deliverTime": pa.array([9, 9])}, "Row 8 .* exclude each other"),
    ],
)
def test_rows_that_cannot_wait(columns: dict[str, Any], story: str) -> None:
    """The error names the row and what is wrong with it."""
    with pytest.raises(InvalidMessage, match=story):
        check_delays(batch(**columns), 7)

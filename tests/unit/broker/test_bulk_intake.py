"""Messages whose checksum is not that of their body: refused where not all who may write are trusted."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pytest

from rmqspark.broker.sending.bulks import BulkIntake
from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.topic_rows import TopicRun, encode_runs
from rmqspark.protocol.headers.bulk import BulkSendRequestHeader, TopicsSendRequestHeader
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.unique_keys import IdRange

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST = bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F])
NOTHING_WAITS: Any = None
BODIES = {
    "even": [b"ab", b"cd", b"ef"],
    "ragged": [b"abc", b"d", b"efgh"],
    "long": [b"x" * 600, b"y" * 600, b"z" * 600],
}


def rows(bodies: Sequence[bytes]) -> bytes:
    column = Column(np.frombuffer(b"".join(bodies), np.uint8), np.cumsum([0, *map(len, bodies)], dtype=np.int32), None)
    bulk = BulkRows(5, HOST, 0, IdRange("A" * 20, 9), body_crcs(column.values, column.spans()), column)
    return b"".join(part.tobytes() for part in bulk.encode())


def open_rows(intake: BulkIntake, bodies: Sequence[bytes], sent: Sequence[bytes]) -> None:
    body = rows(bodies)[: -len(b"".join(bodies))] + b"".join(sent)
    intake.open(BulkSendRequestHeader("orders", 0, len(bodies), -1, crc32(body)), memoryview(body))


def open_topic_rows(intake: BulkIntake, bodies: Sequence[bytes], sent: Sequence[bytes]) -> None:
    runs = encode_runs([TopicRun("orders", 0, 1), TopicRun("other", 1, len(bodies) - 1)])
    body = runs + rows(bodies)[: -len(b"".join(bodies))] + b"".join(sent)
    intake.open_many(TopicsSendRequestHeader(2, len(bodies), crc32(body)), memoryview(body))


def open_records(intake: BulkIntake, bodies: Sequence[bytes], sent: Sequence[bytes]) -> None:
    records = [bytes(encode_record(topic="orders", body=each, properties=b"")) for each in bodies]
    placed = [record.replace(body, other) for record, body, other in zip(records, bodies, sent, strict=True)]
    body = np.array([*map(len, records)], ">i4").tobytes() + b"".join(placed)
    intake.open(BulkSendRequestHeader("orders", 0, len(bodies), 0, crc32(body)), memoryview(body))


@pytest.mark.parametrize("are_checked", [True, False])
@pytest.mark.parametrize("bodies", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("opened", [open_rows, open_topic_rows, open_records])
def test_a_checksum_that_is_not_of_its_body(opened: Any, bodies: Sequence[bytes], are_checked: bool) -> None:
    intake = BulkIntake(NOTHING_WAITS, checks_bodies=are_checked)
    opened(intake, bodies, bodies)
    with pytest.raises(RecordError, match="checksum") if are_checked else nullcontext():
        opened(intake, bodies, [*bodies[:-1], bodies[-1][:-1] + b"?"])

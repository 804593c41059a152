"""Rows for many queues, in one body, are those of one bulk for each queue."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.topic_rows import (
    MAX_QUEUES,
    TopicRun,
    decode_topic_rows,
    encode_runs,
    records_bytes,
    records_of_topic_rows,
)
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.store.index.index_keys import keys_of_rows, keys_of_topic_rows

HOST = bytes([10, 0, 0, 1, 0, 0, 42, 159])
IDS = IdRange("0123456789ABCDEF0123", 65_530)

bodies = st.binary(min_size=1, max_size=40)
runs_of_bodies = st.lists(
    st.tuples(
        st.sampled_from(["t", "orders", "a-much-longer_topic", "x" * 127]),
        st.integers(0, 3),
        st.lists(bodies, min_size=1, max_size=5) | st.lists(st.just(b"same"), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda run: run[:2],
)


def rows_of(values: list[bytes]) -> BulkRows:
    column = Column(np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)]))
    return BulkRows(7, HOST, 0x301, IDS, body_crcs(column.values, column.spans()), column)


def body_of(runs: list[TopicRun], rows: BulkRows) -> bytes:
    return encode_runs(runs) + b"".join(part.tobytes() for part in rows.encode())


@given(runs_of_bodies)
def test_each_queue_gets_the_records_of_its_own_bulk(given_runs: list[tuple[str, int, list[bytes]]]) -> None:
    """Nobody who reads can tell whether rows came for one queue or for many; their keys are found the same."""
    runs = [TopicRun(topic, queue_id, len(values)) for topic, queue_id, values in given_runs]
    all_values = [value for _, _, values in given_runs for value in values]
    body = body_of(runs, rows_of(all_values))
    arrived, rows = decode_topic_rows(memoryview(body), len(runs), len(all_values))
    assert arrived == runs
    size = records_bytes(runs, rows)
    together = records_of_topic_rows(runs, rows, np.full(size + 3, 0xFF, np.uint8))
    assert len(together.buffer) == size
    expected, sizes, hashes, rest = b"", [], [], rows
    for run in runs:
        count = run.rows
        mine = rest._replace(
            crcs=rest.crcs[:count], bodies=rest.bodies._replace(offsets=rest.bodies.offsets[: count + 1])
        )
        records = mine.records(run.topic, run.queue_id)
        expected += records.buffer.tobytes()
        sizes += records.sizes.tolist()
        hashes += keys_of_rows(run.topic, [mine], None, np.arange(count), 5).hashes.tolist()
        rest = rest.skip(count)
    assert together.buffer.tobytes() == expected
    assert together.sizes.tolist() == sizes
    keys = keys_of_topic_rows(runs, rows.ids, np.arange(len(all_values)), 5)
    assert keys.hashes.tolist() == hashes
    assert set(keys.store_timestamps_ms.tolist()) == {5}


RUNS = [TopicRun("orders", 0, 1), TopicRun("paid", 1, 2)]
ROWS = rows_of([b"a", b"bb", b"ccc"])
RUN = struct.Struct(">iiB")


@pytest.mark.parametrize(
    ("body", "queues", "count"),
    [
        (body_of(RUNS, ROWS), 0, 3),
        (body_of(RUNS, ROWS), -1, 3),
        (body_of(RUNS, ROWS), 3, 3),
        (body_of(RUNS, ROWS), 2**31 - 1, 3),
        (body_of(RUNS, ROWS), 2, 4),
        (body_of(RUNS, ROWS)[:-1], 2, 3),
        (body_of(RUNS, ROWS) + b"x", 2, 3),
        (body_of([*RUNS[:1], TopicRun("orders", 0, 2)], ROWS), 2, 3),
        (body_of([TopicRun("orders", 0, 0), TopicRun("paid", 1, 3)], ROWS), 2, 3),
        (body_of([TopicRun("orders", 0, 4), TopicRun("paid", 1, -1)], ROWS), 2, 3),
        (body_of([TopicRun("orders", -1, 3)], ROWS), 1, 3),
        (body_of([TopicRun("", 0, 3)], ROWS), 1, 3),
        (RUN.pack(3, 0, 2) + b"\xff\xfe" + body_of([], ROWS), 1, 3),
        (body_of([TopicRun("orders", 0, 2)], ROWS), 1, 3),
        (RUN.pack(3, 0, 255) + b"x", 1, 3),
        (RUN.pack(1, 0, 9) + b"t" * 9 + b"xx", 2, 2),
        (b"", 1, 1),
        (b"x" * 10, 1, 1),
    ],
)  # fmt: skip
def test_what_does_not_add_up_is_refused(body: bytes, queues: int, count: int) -> None:
    """No body makes a broker look beyond it, or give a queue rows that nobody sent."""
    with pytest.raises(RecordError):
        decode_topic_rows(memoryview(body), queues, count)


def test_queues_are_counted_before_any_is_looked_at() -> None:
    """A request with a million of them took a broker three seconds, and 190 MiB."""
    body = (RUN.pack(1, 0, 1) + b"t") * (MAX_QUEUES + 1)
    with pytest.raises(RecordError, match="65537 queues; 1 to 65,536 are allowed"):
        decode_topic_rows(memoryview(body), MAX_QUEUES + 1, MAX_QUEUES + 1)

"""Rows that the store makes records of itself."""

from __future__ import annotations

import numpy as np
import pytest

from rmqspark.errors import InvalidMessage, InvalidName
from rmqspark.protocol.body_crcs import body_crcs
from rmqspark.protocol.bulk_rows import BulkRows
from rmqspark.protocol.columns import Column
from rmqspark.protocol.message_id import unique_id
from rmqspark.protocol.record import SysFlag
from rmqspark.protocol.record_batch import RecordBatch
from rmqspark.protocol.unique_keys import IdRange
from rmqspark.store.bulk_check import check_rows
from rmqspark.store.draft import RowRun

from .store_bench import StoreBench

PREFIX = "7F0000011F9018B4AAC2"
BODIES = {"equal": [b"a%d" % n for n in range(7)], "of several lengths": [b"b" * n for n in range(1, 20)]}


def rows_of(bodies: list[bytes], sys_flag: int = 0) -> BulkRows:
    column = Column(np.frombuffer(b"".join(bodies), np.uint8), np.cumsum([0, *map(len, bodies)]))
    return BulkRows(5, bytes(8), sys_flag, IdRange(PREFIX, 0xFFFE), body_crcs(column.values, column.spans()), column)


def files_of(bench: StoreBench) -> dict[str, bytes]:
    """Log, queues and index of a store, byte for byte."""
    bench.store.checkpoint()
    found: dict[str, bytes] = {}
    for top in ("commitlog", "consumequeue/t/0", "index"):
        for name in bench.files.listdir(top):
            file = bench.files.open(f"{top}/{name}", read_only=True)
            found[f"{top}/{name}"] = file.pread(file.size(), 0)
    return found


@pytest.mark.parametrize("shape", BODIES)
@pytest.mark.parametrize("half_offset", [None, 4711])
def test_rows_are_stored_as_their_records_would_be(shape: str, half_offset: int | None) -> None:
    """The same bytes in log, queue and index, over the ends of files; and after a kill all of it is there."""
    by_rows, by_records = StoreBench(), StoreBench()
    rows = rows_of(BODIES[shape])
    for _ in range(3):
        (appended,) = by_rows.store.append_rows("t", [RowRun(0, rows, half_offset)])
        records = RecordBatch.from_sizes(*rows.records("t", 0))
        if half_offset is None:
            assert appended == by_records.store.append_bulk("t", 0, records)
        else:
            assert appended == by_records.commit("t", 0, records, half_offset)
    assert files_of(by_rows) == files_of(by_records)
    by_rows.kill()
    found = by_rows.store.read_bulk("t", 0, 0, 1 << 40, max_count=1 << 40, max_bytes=1 << 40)
    records, raw = RecordBatch.scan(bytes(found.body)), bytes(found.body)
    spans = zip(records.bodies.starts.tolist(), records.bodies.ends.tolist(), strict=True)
    assert [raw[start:end] for start, end in spans] == BODIES[shape] * 3
    assert len(by_rows.store.query("t", unique_id(PREFIX, 0xFFFE + len(BODIES[shape]) - 1), 0, 1 << 60, 8)) == 3


@pytest.mark.parametrize(
    ("rows", "topic", "story"),
    [
        (rows_of([b"x"], SysFlag.COMMITTED), "t", "system flags"),
        (rows_of([b"x"], SysFlag.BORN_HOST_V6), "t", "system flags"),
        (rows_of([b"x", b"x" * 101]), "t", "more than 100 bytes"),
        (rows_of([b"x"] * 250_000), "t", "records have more than"),
        (rows_of([b"x"]), "no/topic", "topic"),
    ],
)
def test_rows_that_nobody_may_store(rows: BulkRows, topic: str, story: str) -> None:
    """Flags of transactions, large bodies, rows that would become many times what was sent: refused before anything."""
    with pytest.raises((InvalidMessage, InvalidName), match=story):
        check_rows(rows, topic, 100)

"""Rows that the store makes records of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rmqspark.errors import InvalidMessage, InvalidName
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.row_properties import RowProperties
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.message_id import unique_id
from rmqspark.protocol.records.record import SysFlag
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.store.appending.bulk_check import check_rows
from rmqspark.store.appending.made_records import Room, made_of_rows
from rmqspark.store.draft import RowRun

from .store_bench import StoreBench

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.store.draft import BulkAppended

PREFIX = "7F0000011F9018B4AAC2"
BODIES = {"equal": [b"a%d" % n for n in range(7)], "of several lengths": [b"b" * n for n in range(1, 20)]}
VALUES: dict[str, Callable[[int], tuple[str, str, str]]] = {  # tags, keys and sharding key of a row
    "of one length": lambda n: ("paid", f"{n:04}", "eu"),
    "of several lengths": lambda n: (f"t{10**n}", f"k{10**n} ä", f"s{10**n}"),
    "here and there": lambda n: ("paid" if n % 2 else "", "a  b " * (n % 3), "eu" if n % 4 else ""),
    "tags alone": lambda n: (f"t{n}", "", ""),
    "keys of blanks": lambda n: ("", "  ", ""),
    "one unique key twice": lambda n: ("", unique_id(PREFIX, 0xFFFE + n), ""),
}


def column_of(values: Sequence[bytes]) -> Column:
    return Column(np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)]))


def rows_of(bodies: list[bytes], sys_flag: int = 0, values: str | None = None) -> BulkRows:
    column = column_of(bodies)
    properties = None
    if values is not None:
        columns = zip(*map(VALUES[values], range(len(bodies))), strict=True)
        properties = RowProperties.of(len(bodies), *[column_of([text.encode() for text in each]) for each in columns])
    crcs = body_crcs(column.values, column.spans())
    return BulkRows(5, bytes(8), sys_flag, IdRange(PREFIX, 0xFFFE), crcs, column, properties)


def keyed(keys: list[bytes], count: int) -> BulkRows:
    """Rows with these keys."""
    return rows_of([b"x"] * count)._replace(properties=RowProperties.of(count, keys=column_of(keys)))


def files_of(bench: StoreBench) -> dict[str, bytes]:
    """Log, queues and index of a store, byte for byte."""
    bench.store.checkpoint()
    found: dict[str, bytes] = {}
    for top in ("commitlog", "consumequeue/t/0", "index"):
        for name in bench.files.listdir(top):
            file = bench.files.open(f"{top}/{name}", read_only=True)
            found[f"{top}/{name}"] = file.pread(file.size(), 0)
    return found


def committed(bench: StoreBench, *runs: RowRun) -> list[BulkAppended]:
    """Stores the rows of committed half batches."""
    return bench.store.writer.append_made(made_of_rows("t", runs, Room()), lambda: None)


@pytest.mark.parametrize("shape", BODIES)
@pytest.mark.parametrize("half_offset", [None, 4711])
@pytest.mark.parametrize("values", [None, *VALUES])
def test_rows_are_stored_as_their_records_would_be(shape: str, half_offset: int | None, values: str | None) -> None:
    """The same bytes in log, queue and index, over the ends of files; and after a kill all of it is there."""
    by_rows, by_records = StoreBench(), StoreBench()
    rows = rows_of(BODIES[shape], values=values)
    for _ in range(3):
        records = RecordBatch.from_sizes(*rows.records("t", 0))
        if half_offset is None:
            assert by_rows.store.writer.append_rows("t", 0, rows) == by_records.store.append_bulk("t", 0, records)
        else:
            assert committed(by_rows, RowRun(0, rows, half_offset)) == [by_records.commit("t", 0, records, half_offset)]
    assert files_of(by_rows) == files_of(by_records)
    by_rows.kill()
    found = by_rows.store.read_bulk("t", 0, 0, 1 << 40, max_count=1 << 40, max_bytes=1 << 40)
    records, raw = RecordBatch.scan(bytes(found.body)), bytes(found.body)
    spans = zip(records.bodies.starts.tolist(), records.bodies.ends.tolist(), strict=True)
    assert [raw[start:end] for start, end in spans] == BODIES[shape] * 3
    assert len(by_rows.store.query("t", unique_id(PREFIX, 0xFFFE + len(BODIES[shape]) - 1), 0, 1 << 60, 8)) == 3


def test_rows_of_several_senders_are_stored_together() -> None:
    """Bulks with properties beside bulks without, for several queues: as each alone, tags codes and keys included."""
    bulks = [rows_of(BODIES["equal"], values=values) for values in (None, "of one length", "here and there")]
    together, alone = StoreBench(), StoreBench()
    runs = [RowRun(queue_id, bulk, 4711) for queue_id, bulk in enumerate(bulks)]
    assert committed(together, *runs) == [committed(alone, run)[0] for run in runs]
    assert files_of(together) == files_of(alone)


@pytest.mark.parametrize(
    ("rows", "topic", "story"),
    [
        (rows_of([b"x"], SysFlag.COMMITTED), "t", "system flags"),
        (rows_of([b"x"], SysFlag.BORN_HOST_V6), "t", "system flags"),
        (rows_of([b"x", b"x" * 101]), "t", "more than 100 bytes"),
        (rows_of([b"x"] * 250_000), "t", "records have more than"),
        (rows_of([b"x"]), "no/topic", "topic"),
        (keyed([b"k"] * 4000 + [b"k " * 16_000] * 17, 4017), "t", "more than 262144 keys"),
        (keyed([b"k" * 30_000] * 1200, 1200), "t", "records have more than"),
    ],
)
def test_rows_that_nobody_may_store(rows: BulkRows, topic: str, story: str) -> None:
    """Flags of transactions, large bodies, rows that would become many times what was sent: refused before anything."""
    with pytest.raises((InvalidMessage, InvalidName), match=story):
        check_rows(rows, topic, 100)
